"""What is loaded by what, seen from a fresh interpreter; `make check` holds the layers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TERMINALS_AND_BACKENDS = (
    *("asyncio", "psutil", "pynvml", "rich", "tensorboard", "tensorboardX", "textual", "wandb"),
)
PUBLISHING = ("publish", "storage", "subscribe", "transport")


def _loaded(code: str) -> set[str]:
    """Top-level modules in an interpreter that has run ``code``."""
    program = f"import sys\n{code}\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return set(done.stdout.split())


def _modules(package: str) -> list[str]:
    folder = ROOT / "unilab_metrics" / package
    return sorted(
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in folder.rglob("*.py")
        if path.stem != "__main__"
    )


def _imports(packages: tuple[str, ...]) -> str:
    return "import " + ", ".join(name for package in packages for name in _modules(package))


def test_the_package_alone_loads_nothing_heavy() -> None:
    loaded = _loaded("import unilab_metrics")
    assert loaded & {"torch", "numpy", "zmq", *TERMINALS_AND_BACKENDS} == set()


def test_what_a_training_may_load_brings_no_terminal_and_no_backend() -> None:
    loaded = _loaded(f"{_imports(PUBLISHING)}, unilab_metrics.run.session")
    assert loaded & {"torch", *TERMINALS_AND_BACKENDS} == set()
    assert "zmq" in loaded


def test_the_aggregator_loads_no_terminal_and_no_backend() -> None:
    assert _loaded(_imports(("aggregate",))) & {"torch", *TERMINALS_AND_BACKENDS} == set()


def test_the_command_line_loads_what_it_starts_only_when_it_starts_it() -> None:
    assert _loaded("import unilab_metrics.cli") & {"torch", *TERMINALS_AND_BACKENDS} == set()


def test_the_schema_loads_msgspec_only() -> None:
    names = sorted(
        ".".join(path.relative_to(ROOT / "schema").with_suffix("").parts)
        for path in (ROOT / "schema" / "unilab_schema").rglob("*.py")
        if path.stem != "__init__"
    )
    foreign = _loaded(f"import {', '.join(names)}") - _loaded("import msgspec")
    assert foreign - set(sys.stdlib_module_names) == {"unilab_schema"}


def test_every_module_loads_where_linux_only_calls_are_missing() -> None:
    strip = """
import os, select, signal, socket
for module, names in {
    os: ("eventfd", "fdatasync", "memfd_create", "pidfd_open", "posix_fallocate",
         "sched_getaffinity", "sched_setaffinity", "splice"),
    select: ("epoll",),
    signal: ("pidfd_send_signal", "sigtimedwait"),
    socket: ("SO_PEERCRED",),
}.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
"""
    _loaded(strip + _imports((*PUBLISHING, "aggregate")))


@pytest.mark.parametrize("folder", ["schema", "sidecar", "tests", "benchmarks"])
def test_a_folder_that_holds_packages_is_none_itself(folder: str) -> None:
    assert not (ROOT / folder / "__init__.py").exists()
