"""What the view of ranks asks the aggregator for."""

from __future__ import annotations

from dataclasses import replace

from unilab_schema.identity import RunInfo
from unilab_sidecar.picture import Picture
from unilab_sidecar.ranks.state import RanksState
from unilab_sidecar.views.ranks import wanted

PICTURE = Picture("training", RunInfo("sac", "cart_pole", world_size=4), connected=True)
WALL = "Perf/iteration_time"


def test_what_is_asked_for_is_bounded_and_fits_the_algorithm() -> None:
    for algorithm in ("sac", "appo", "ppo", "mine"):
        picture = replace(PICTURE, run=RunInfo(algorithm))
        tags = wanted(picture, RanksState()).tags
        assert len(tags) == len(set(tags)) < 40
        assert WALL in tags
