"""One module per backend that a writer can persist a run in."""
