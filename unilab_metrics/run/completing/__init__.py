"""``recover`` and ``write``: finishing a run, or a backend of it, that nobody is at work on."""
