"""What may be the URL of a webhook. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit


def checked_url(url: str) -> str:
    """The URL. Raises ``ValueError``, which does not repeat it."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1)
    except ValueError:
        is_good = False
    if not is_good or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("the alert webhook must be a URL like https://HOST/PATH")
    return url
