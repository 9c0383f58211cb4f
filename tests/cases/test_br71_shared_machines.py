"""BR-71: users of one machine do not meet: each has a directory of its own, or is told why not."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

FIRST, SECOND = 65533, 65534
RUN = """
import os, sys, tempfile
import unilab_metrics, unilab_metrics.run.session, unilab_metrics.transport.sockets
import unilab_metrics.publish.shipper, unilab_metrics.subscribe.subscriber, zmq
uid = int(sys.argv[1])
os.setgroups([]); os.setgid(uid); os.setuid(uid)
from pathlib import Path
from unilab_metrics.errors import UnilabMetricsError
from unilab_metrics.storage import places
if len(sys.argv) > 2:
    places._TEMPORARY = (Path(tempfile.gettempdir()),)
from unilab_metrics.storage.places import runtime_directory
from unilab_metrics.transport import sockets
try:
    directory = runtime_directory()
    context = sockets.context()
    made = sockets.ingest(context, f"ipc://{directory}/{os.getpid()}.in")
except UnilabMetricsError as error:
    print("refused:", error, flush=True)
    sys.exit()
print(f"{directory}/{os.getpid()}.in", flush=True)
sys.stdin.readline()
sockets.terminate(context, [made])
"""
CONNECT = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
    print("connected")
except OSError as error:
    print(type(error).__name__)
"""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become other users")


@pytest.fixture
def shared(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary directory for everybody, as ``/tmp`` is."""
    folder = short_path / "t"
    folder.mkdir()
    folder.chmod(0o1777)
    for parent in (short_path, short_path.parent):
        parent.chmod(0o755)
    monkeypatch.setenv("TMPDIR", str(folder))
    for name in ("XDG_RUNTIME_DIR", "UNILAB_METRICS_RUNTIME"):
        monkeypatch.delenv(name, raising=False)
    fallback = Path("/tmp") / f"unilab-metrics-{SECOND}"
    existed = fallback.exists()
    yield folder
    if not existed and fallback.exists():
        fallback.rmdir()


def start(uid: int, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(uid), *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/",
    )  # fmt: skip


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        pytest.fail(process.communicate()[1])
    return line


def test_two_users_run_side_by_side_and_neither_reaches_the_other(shared: Path):
    first, second = start(FIRST), start(SECOND)
    try:
        paths = [Path(first_line(process)) for process in (first, second)]
        assert [path.parent for path in paths] == [
            shared / f"unilab-metrics-{FIRST}",
            shared / f"unilab-metrics-{SECOND}",
        ]
        for path in paths:
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        answers = [
            subprocess.run(
                [sys.executable, "-c", CONNECT, str(path)],
                capture_output=True, text=True, timeout=30, check=True, cwd="/",
            ).stdout.strip()
            for path in paths
        ]  # fmt: skip
        assert answers == ["PermissionError", "connected"]
    finally:
        for process in (first, second):
            process.communicate("\n", timeout=30)


@pytest.mark.parametrize("planted", ["symlink", "directory"])
def test_what_another_user_has_planted_is_refused_by_name(
    shared: Path, tmp_path: Path, planted: str
):
    path = shared / f"unilab-metrics-{SECOND}"
    trap = tmp_path / "trap"
    trap.mkdir(mode=0o777)
    if planted == "symlink":
        path.symlink_to(trap)
    else:
        path.mkdir(mode=0o777)
        os.chown(path, FIRST, FIRST)
    process = start(SECOND, "only this directory")
    line = first_line(process)
    process.communicate("\n", timeout=30)
    reason = "is a symlink" if planted == "symlink" else f"belongs to uid {FIRST}, not to {SECOND}"
    assert line == f"refused: {path}: {reason}"
    assert list(trap.iterdir()) == []
    # Where there is another place, that one is taken.
    process = start(SECOND)
    line = first_line(process)
    process.communicate("\n", timeout=30)
    assert Path(line).parent.name == f"unilab-metrics-{SECOND}"
    assert Path(line).parent.parent != shared


def test_a_long_temporary_directory_has_short_sockets(
    shared: Path, monkeypatch: pytest.MonkeyPatch
):
    deep = shared / ("d" * 100)
    deep.mkdir()
    deep.chmod(0o1777)
    monkeypatch.setenv("TMPDIR", str(deep))
    process = start(SECOND)
    try:
        line = first_line(process)
        assert not line.startswith(str(deep))
        assert len(os.fsencode(line)) <= 103
        assert stat.S_IMODE(Path(line).parent.stat().st_mode) == 0o700
    finally:
        process.communicate("\n", timeout=30)
