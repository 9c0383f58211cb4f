"""From a run to batches: the one thread that reads, and what it is asked."""
