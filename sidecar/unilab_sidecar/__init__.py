"""The terminal view of a run: a read-only Textual app, any number of them, local or remote.

``feed`` (one thread that owns the subscriber) hands batches to ``series`` (pure), which
makes a ``Picture``; ``layout`` (pure) turns it into lines of text; ``widgets`` paint the
lines that changed, at a fixed 2 Hz.
"""
