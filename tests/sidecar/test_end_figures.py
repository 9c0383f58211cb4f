"""What the last line of a run says of how it went."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_run import whole_run

from unilab_schema.alerts import AlertStatus
from unilab_sidecar.picture import Picture, Reading, Rewards
from unilab_sidecar.printed.end_figures import end_figures
from unilab_sidecar.printed.plain import LineTeller
from unilab_sidecar.series import Series


def alert(text: str, severity: str = "bad") -> AlertStatus:
    return AlertStatus(1, "rule", "a", text, severity, 3, 0)


NAN, WARN = alert("NaN in Loss/a at iteration 3"), alert("a > 1 for 2 s", "warn")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, []),
        (
            {"rewards": Rewards(mean=Reading(412.061), peak=420.5)},
            ["last reported reward 412.06 (best 420.50)"],
        ),
        ({"rewards": Rewards(mean=Reading(-1.0))}, ["last reported reward -1.00"]),
        ({"rewards": Rewards(mean=Reading(3.0), last=-24.0)}, ["last reported reward -24.00"]),
        ({"own_alerts": ((NAN, WARN), 2)}, [f"2 alerts open: {NAN.text}"]),
        ({"own_alerts": ((WARN,), 1)}, [f"1 alert open: {WARN.text}"]),
        ({"own_alerts": ((NAN,), 1), "ended_text": NAN.text}, []),
    ],
)
def test_rewards_and_the_worst_of_the_newest_open_alerts_are_told(
    more: dict[str, object], told: list[str]
) -> None:
    assert end_figures(replace(Picture(), **more)) == told  # type: ignore[arg-type]


def test_the_last_line_of_a_run_has_them() -> None:
    run, batches = whole_run(60)
    series = Series()
    for batch in [*batches, run.batch(run.end())]:
        series.add(batch)
    picture = replace(series.picture(), own_alerts=((NAN,), 1))
    last = LineTeller(1.0).tell(picture, 1.0, is_over=True)[-1]
    assert last.startswith("run ended: completed  last reported reward ")
    assert last.endswith("  1 alert open: NaN in Loss/a at iteration 3")
