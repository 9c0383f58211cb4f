"""Events, and what the training prints. Pure."""
