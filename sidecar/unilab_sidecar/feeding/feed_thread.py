"""The thread of a feed, which may begin before there is anything to show it on."""

from __future__ import annotations

import threading

from unilab_sidecar.feeding.feed import Feed

_END_S = 2.0


class FeedThread:
    """Of one feed. All methods belong to the thread that has made it."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self._thread = threading.Thread(target=feed.run, name="sidecar-feed", daemon=True)
        self._is_begun = False

    def begin(self) -> None:
        """Attaches and reads from now on; once."""
        if not self._is_begun:
            self._is_begun = True
            self._thread.start()

    def end(self) -> None:
        """Ends it, and waits for that for two seconds at most. Idempotent."""
        self.feed.stop()
        if self._thread.is_alive():
            self._thread.join(timeout=_END_S)
