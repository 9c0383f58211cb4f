"""What a view says of the run when it closes."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from unilab_sidecar.picture import Picture
from unilab_sidecar.progress.standing import last_words


def test_only_of_a_training_that_is_heard_it_is_said_that_it_goes_on(training: Picture):
    assert last_words(training) == "The training goes on."
    assert last_words(replace(training, ended="failed")) == "The run has ended: failed."
    assert "Nobody is at work" in last_words(replace(training, gone=("rank 0",)))
    lost = tuple(structs.replace(source, state="lost") for source in training.sources)
    for other in (replace(training, silent_s=60.0), Picture(), replace(training, sources=lost)):
        assert "goes on" not in last_words(other)
