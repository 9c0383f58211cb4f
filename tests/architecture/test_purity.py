"""Pure modules have no clock, socket, file or thread: time and bytes come in as arguments. A module
says so of itself; what decides has to."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMPURE = {
    "asyncio", "concurrent", "ctypes", "datetime", "fcntl", "glob", "io", "logging", "mmap",
    "multiprocessing", "os", "pathlib", "random", "secrets", "select", "shutil", "signal",
    "socket", "subprocess", "sys", "tempfile", "threading", "time", "zmq",
}  # fmt: skip
SOURCES = [
    *sorted((ROOT / "schema" / "unilab_schema").rglob("*.py")),
    *sorted((ROOT / "unilab_metrics").rglob("*.py")),
    *sorted((ROOT / "sidecar" / "unilab_sidecar").rglob("*.py")),
]
_ALL_OF = (
    ROOT / "schema" / "unilab_schema",
    ROOT / "unilab_metrics" / "aggregate" / "folding",
    *(
        ROOT / "sidecar" / "unilab_sidecar" / folder
        for folder in (
            "alerting", "charting", "drawing", "events", "panels", "progress", "ranks", "values",
            "views",
        )
    ),
)  # fmt: skip


def _is_pure(path: Path) -> bool:
    """Of a folder that is, or by its own word."""
    if any(path.is_relative_to(folder) for folder in _ALL_OF):
        return True
    said = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return re.search(r"\bPure\b", said) is not None


PURE = [path for path in SOURCES if _is_pure(path)]


def test_what_decides_calls_itself_pure() -> None:
    names = {str(path.relative_to(ROOT)) for path in PURE}
    assert names >= {
        *(f"unilab_metrics/aggregate/folding/{one}.py" for one in ("reduction", "state", "window")),
        *(f"unilab_metrics/publish/{one}.py" for one in ("delivery", "packing")),
        *(f"unilab_metrics/aggregate/receiving/{one}.py" for one in ("accepting", "receiver")),
        *(
            f"sidecar/unilab_sidecar/{one}.py"
            for one in ("series", "picture", "looking/showing", "looking/viewing")
        ),
    }


def _imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name.split(".")[0] for name in names}


def _called(tree: ast.AST) -> set[str]:
    return {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }


@pytest.mark.parametrize("path", PURE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_pure_module_reaches_for_nothing_outside(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    assert not _imported(tree) & IMPURE
    assert not _called(tree) & {"open", "print", "input"}


def test_the_schema_imports_the_standard_library_and_msgspec_only() -> None:
    allowed = {"msgspec", "unilab_schema", *sys.stdlib_module_names}
    for path in (ROOT / "schema" / "unilab_schema").rglob("*.py"):
        assert _imported(ast.parse(path.read_text("utf-8"))) <= allowed, path
