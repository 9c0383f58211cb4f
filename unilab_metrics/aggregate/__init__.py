"""The aggregator: one process per run that decides what an iteration's numbers are.

Data path: ``ingest`` (sockets) > ``receiver`` (accept rule) > ``state`` (pure; ``window``,
``reports``, ``reduction``, ``sealing``) > ``journal`` (wal and history files) > ``serving``
and ``announcer``. ``liveness`` and ``leftovers`` watch for processes that are gone.
"""
