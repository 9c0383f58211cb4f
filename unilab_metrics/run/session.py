"""``init()`` and ``connect()``: a publisher for this process, and the run around it.

Neither ever waits: the run directory and a few small files are made, the aggregator is
started, and everything else (finding the bus, sending) is the shipper thread's work. Neither
ends a training: what goes wrong gives a publisher that does nothing and one warning.
"""

from __future__ import annotations
