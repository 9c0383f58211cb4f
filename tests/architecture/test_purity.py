"""Pure modules have no clock, socket, file or thread: time and bytes come in as arguments."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMPURE = {
    "asyncio", "concurrent", "ctypes", "datetime", "fcntl", "glob", "io", "logging", "mmap",
    "multiprocessing", "os", "pathlib", "random", "secrets", "select", "shutil", "signal",
    "socket", "subprocess", "sys", "tempfile", "threading", "time", "zmq",
}  # fmt: skip
PURE = [
    *sorted((ROOT / "schema" / "unilab_schema").rglob("*.py")),
    ROOT / "unilab_metrics" / "console_tail.py",
    ROOT / "unilab_metrics" / "helper_life.py",
    ROOT / "unilab_metrics" / "said_once.py",
    ROOT / "unilab_metrics" / "wording.py",
    ROOT / "unilab_metrics" / "run" / "doctor" / "finding.py",
    ROOT / "unilab_metrics" / "storage" / "records.py",
    *(ROOT / "unilab_metrics" / "subscribe" / f"{name}.py" for name in ("asking", "fetching")),
    *sorted((ROOT / "unilab_metrics" / "aggregate" / "folding").rglob("*.py")),
    *(
        ROOT / "unilab_metrics" / "aggregate" / "receiving" / f"{name}.py"
        for name in (
            *("accepting", "after_loss", "attempts", "doubles", "receiver", "refusals"),
            "turned_away",
        )
    ),
    ROOT / "unilab_metrics" / "aggregate" / "announcing" / "rank_table.py",
    ROOT / "unilab_metrics" / "aggregate" / "journaling" / "binning.py",
    ROOT / "unilab_metrics" / "aggregate" / "leaving" / "awaited.py",
    ROOT / "unilab_metrics" / "aggregate" / "leaving" / "beside.py",
    ROOT / "unilab_metrics" / "aggregate" / "leaving" / "left_elsewhere.py",
    *(
        ROOT / "unilab_metrics" / "publish" / f"{name}.py"
        for name in ("delivery", "packing", "tags")
    ),
    *(
        ROOT / "unilab_metrics" / "transport" / f"{name}.py"
        for name in ("allow_list", "diagnosis", "refusals", "store_entries")
    ),
    *(
        ROOT / "sidecar" / "unilab_sidecar" / f"{name}.py"
        for name in (
            *("alerts", "bus_figures", "flow", "grouped_readings", "happened", "layout"),
            *("series", "standing", "steady_bottleneck", "steady_rows", "summary"),
            "terminal_input",
        )
    ),
    *sorted((ROOT / "sidecar" / "unilab_sidecar").glob("rank_*.py")),
    *sorted((ROOT / "sidecar" / "unilab_sidecar" / "views").glob("*.py")),
    *sorted((ROOT / "sidecar" / "unilab_sidecar" / "panels").glob("*.py")),
    *(
        ROOT / "sidecar" / "unilab_sidecar" / f"{name}.py"
        for name in (
            *("charsets", "filtering", "glyphs", "json_lines", "metric_lines", "overview_panels"),
            *("pattern", "picture", "questions", "showing", "trouble_news", "viewing"),
            *("beside", "moment", "past", "past_questions", "scrubbing", "watching"),
        )
    ),
    *sorted((ROOT / "sidecar" / "unilab_sidecar").glob("chart_*.py")),
]  # fmt: skip


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
