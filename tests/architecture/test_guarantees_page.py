"""The page of guarantees names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "guarantees.md"


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`([a-z]+/test_\w+\.py)`", PAGE.read_text("utf-8"))
    assert len(named) > 30
    assert [name for name in named if not (TESTS / name).is_file()] == []
