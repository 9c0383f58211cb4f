"""What is said of an earlier run beside the charts, in the room that there is. Pure."""

from __future__ import annotations

from collections.abc import Collection

from unilab_sidecar.charting.store import ChartStore
from unilab_sidecar.drawing.text import clean, fit, width_of

_LEAST_NAME = 12
_UNNAMED = "earlier run"


def earlier_words(store: ChartStore, label: str, tags: Collection[str], room: int) -> str:
    """Which run it is, and what there is of it to see. ``tags``: that are drawn."""
    label = clean(label) or _UNNAMED
    state = ""
    if is_loading(store, tags):
        state = ", loading"
    elif not any(len(store.bins(tag)) for tag in tags):
        # What was asked for and is not there has to be said; whose it is not comes second.
        state = ": none of these tags"
    rest = room - width_of(state)
    if rest >= _LEAST_NAME or not state:
        return label_in(label, rest) + state
    return _UNNAMED + state if rest >= width_of(_UNNAMED) else state[2:]


def is_loading(store: ChartStore | None, tags: Collection[str]) -> bool:
    """Whether a part of what it keeps of these tags is on its way."""
    return store is not None and any(store.progress(tag) < 1 for tag in store.tags if tag in tags)


def label_in(label: str, room: int) -> str:
    """What has no room goes in whole parts; of the name the beginning, which those of a day share."""
    while width_of(label) > room and ", " in label:
        label = label.rpartition(", ")[0]
    place, colon, name = label.rpartition(": ")
    if width_of(label) <= room or room < width_of(place) + _LEAST_NAME:
        return fit(label, max(room, 0))
    while width_of(f"{place}{colon}…{name}") > room:
        name = name[1:]
    return f"{place}{colon}…{name}"
