"""Which metrics belong together, and which a filter leaves."""
