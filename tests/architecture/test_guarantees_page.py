"""The page of guarantees names tests that exist, those in italics where all of them are slow."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "guarantees.md"
SLOW = "pytest.mark.slow"


def _named() -> dict[str, set[bool]]:
    """How each file, or pattern of files, is named: in italics or not."""
    found = re.findall(r"(\*?)`([a-z]+/test_[\w*]+\.py)`(\*?)", PAGE.read_text("utf-8"))
    made: dict[str, set[bool]] = {}
    for before, name, after in found:
        made.setdefault(name, set()).add(bool(before and after))
    return made


def _marks(value: ast.expr) -> list[str]:
    parts = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
    return [ast.unparse(part) for part in parts]


def _is_slow(path: Path) -> bool:
    """Whether each test of it is, whatever its parameters."""
    tests: list[bool] = []
    for one in ast.parse(path.read_text("utf-8")).body:
        if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "pytestmark":
            return SLOW in _marks(one.value)
        if isinstance(one, ast.FunctionDef) and one.name.startswith("test_"):
            tests.append(any(SLOW in _marks(mark) for mark in one.decorator_list))
    return all(tests)


def test_every_test_that_the_page_names_exists() -> None:
    named = _named()
    assert len(named) > 30
    assert [name for name in named if not list(TESTS.glob(name))] == []


def test_files_of_slow_tests_only_are_in_italics_and_no_others() -> None:
    slow = {name: {all(map(_is_slow, TESTS.glob(name)))} for name in _named()}
    assert {name: how for name, how in _named().items() if how != slow[name]} == {}
