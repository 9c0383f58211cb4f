"""Writers: processes that persist every update of a run in a backend, unsmoothed.

``process`` is one writer's process; ``writer`` its loop over the history; ``selection``
decides what a backend gets and at which step; ``backends`` put it there.
"""
