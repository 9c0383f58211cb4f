"""What is wrong with a run, in words. Pure."""
