"""That what is shown is not the run as it stands, or not all of it. Pure."""

from __future__ import annotations

import shlex

from unilab_metrics.wording import counted
from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.text import clean
from unilab_sidecar.picture import Picture

_UNREAD = 4
_LATE_S = 3.0
"""What comes is read within a moment; slow iterations are none the later for that."""
_NEWS_S = 60.0


def reading_troubles(picture: Picture) -> list[str]:
    """A sentence for each."""
    found: list[str] = []
    if picture.lost_entries:
        what = counted(picture.lost_entries, "entry", "entries")
        command = clean(f"unilab-metrics verify {shlex.quote(picture.run_dir or 'RUN_DIR')}")
        found.append(f"{what} of the history cannot be read; `{command}` tells more")
    if picture.passed_over_s is not None and picture.passed_over_s < _NEWS_S:
        what = counted(picture.passed_over, "update", "updates")
        found.append(f"this view was too far behind and passed over {what}; the charts have them")
    if picture.connected and picture.late_s >= _LATE_S:
        late = formatting.age(picture.late_s)
        found.append(f"the line is slow: what the run says of itself comes {late} late")
    age_s = picture.age_s or 0.0
    if picture.unread >= _UNREAD and age_s >= _LATE_S:
        late = f"shown is {formatting.age(age_s)} ago"
        found.append(f"{late}; {picture.unread:,} entries are still to be read")
    return found
