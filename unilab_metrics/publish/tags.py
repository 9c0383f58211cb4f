"""Which tags a caller may log, and what becomes of names that no file could hold. Pure."""

from __future__ import annotations

from typing import NamedTuple

from unilab_schema.codec import MAX_TAG_BYTES
from unilab_schema.metrics import MetricSpec, MetricTable

NO_STRING = "must be a string"
EMPTY = "an empty tag"
_REMEMBERED = 8192
_MAX_SHOWN = 100


class Verdict(NamedTuple):
    """``tag`` as it is logged, or ``reason`` why it is not (then ``tag`` is only a name)."""

    tag: str
    reason: str
    changed: bool

    @property
    def text(self) -> str:
        """The reason where it stands alone; only what is no string is not named in it."""
        return f"{self.tag}: {self.reason}" if self.reason == NO_STRING else self.reason


class TagRules:
    """The metric table as one publisher applies it. ``strict``: see ``MetricTable.check``."""

    def __init__(self, table: MetricTable, *, strict: bool) -> None:
        self._table = table
        self._strict = strict
        self._verdicts: dict[str, Verdict] = {}

    def judge(self, tag: object) -> Verdict:
        """The verdict on a tag of ``log()``."""
        if not isinstance(tag, str):
            return Verdict(f"tag {shown(tag)}", NO_STRING, changed=False)
        verdict = self._verdicts.get(tag)
        if verdict is None:
            verdict = self._decide(tag)
            if len(self._verdicts) >= _REMEMBERED:
                self._verdicts.clear()
            self._verdicts[tag] = verdict
        return verdict

    def define(self, spec: MetricSpec) -> None:
        """Add a user's definition. Raises ``ValueError`` as ``MetricTable.define`` does."""
        self._table.define(spec)
        self._verdicts.clear()

    def _decide(self, tag: str) -> Verdict:
        clean = clean_text(tag)
        reason = usable(clean) or self._table.check(clean, strict=self._strict) or ""
        # A name that cannot be seen is shown with its quotes.
        shown = repr(clean) if reason == EMPTY else clean
        return Verdict(shown, reason, changed=clean != tag)


def usable(tag: str) -> str:
    """Why no frame can carry this tag; empty if one can."""
    size = len(tag.encode())
    if size > MAX_TAG_BYTES:
        return f"a tag of {size} bytes, the limit is {MAX_TAG_BYTES}"
    return "" if tag and not tag.isspace() else EMPTY


def shown(value: object) -> str:
    """What a caller gave, in a text that says what is wrong with it. Never raises: the value's
    own code may, and Python itself for an integer of more than 4,300 digits."""
    try:
        return repr(value)[:_MAX_SHOWN]
    except Exception:  # noqa: BLE001 - a value's own code may raise anything
        return f"a value of type {type(value).__name__}"


def clean_text(text: str) -> str:
    """``text`` as UTF-8 can hold it: halves of characters, as paths and broken decoders
    leave them, become a replacement mark, and matching halves the character they mean."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
