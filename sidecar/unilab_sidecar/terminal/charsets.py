"""Whether a terminal can show more than ASCII, as far as the environment says. Pure."""

from __future__ import annotations

from collections.abc import Mapping

_COERCED = frozenset({"C.UTF-8", "C.utf8", "UTF-8"})
_PLAIN = frozenset({"C", "POSIX"})


def shows_unicode(environ: Mapping[str, str]) -> bool:
    """Whether the locale's characters are UTF-8. With no locale at all they are taken to be: so
    are most containers, and their terminals show UTF-8.

    Python itself sets ``LC_CTYPE`` to UTF-8 where it finds the C locale, which says nothing
    about the terminal.
    """
    chosen = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    if not environ.get("LC_ALL") and environ.get("LC_CTYPE") in _COERCED:
        chosen = environ.get("LANG") or chosen
    if not chosen:
        return True
    if chosen in _PLAIN:
        return False
    charset = chosen.partition(".")[2].partition("@")[0] or chosen
    return charset.lower().replace("-", "") == "utf8"
