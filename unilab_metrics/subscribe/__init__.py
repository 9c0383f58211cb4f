"""Reading a run: from its history files, or live over the aggregator's sockets."""
