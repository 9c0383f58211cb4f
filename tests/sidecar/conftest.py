"""A sample run of 400 updates and the picture that it gives."""

from __future__ import annotations

import pytest
from sample_run import SampleRun, whole_run

from unilab_sidecar.picture import Picture
from unilab_sidecar.series import Series


@pytest.fixture(scope="module")
def run() -> tuple[SampleRun, Picture]:
    made, batches = whole_run(400)
    series = Series()
    for batch in batches:
        series.add(batch)
    return made, series.picture()


@pytest.fixture(scope="module")
def training(run: tuple[SampleRun, Picture]) -> Picture:
    return run[1]
