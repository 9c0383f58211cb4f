"""A run as lines of text: for people, screen readers and programs."""
