"""The terminal view of a run: a read-only Textual app, any number of them, local or remote.

``feed`` (one thread that owns the subscriber) hands batches to ``series`` (pure), which makes a
``Picture``. What somebody looks at is a ``ViewState``, which ``viewing.press`` (pure) changes with
each key; ``showing`` (pure) makes lines of text of both, with a module in ``views`` per view;
``widgets`` paint what changed, at a fixed 2 Hz. ``plain``, ``metric_lines`` and ``json_lines`` say
the same without a screen.
"""
