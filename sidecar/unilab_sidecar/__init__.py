"""The terminal view of a run: a read-only Textual app, any number of them, local or remote.

``feeding.feed`` (one thread that owns the subscriber) hands batches to ``series`` (pure), which makes a
``Picture`` with what is in ``values``, ``progress``, ``groups`` and ``alerting``. What somebody looks at
is a ``ViewState``, which ``looking.viewing.press`` (pure) changes with each key; ``looking.showing``
(pure) makes lines of text of both, with a module in ``views`` per view and what these share in
``panels``, ``charting``, ``ranks``, ``events`` and ``drawing``; ``widgets`` paint what changed, at a
fixed 2 Hz, on a ``terminal``. ``printed`` says the same without a screen, ``serving`` shows it in a
browser.
"""
