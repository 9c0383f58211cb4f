"""BR-37: a second run that binds a live run's address is refused, and takes nothing away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BINDER = """
import sys
from unilab_metrics.errors import UnilabMetricsError
from unilab_metrics.transport import sockets

context = sockets.context()
try:
    made = sockets.announce(context, sys.argv[1])
except UnilabMetricsError as error:
    sockets.terminate(context)
    print(error)
    sys.exit(int(error.exit_code))
print("bound", flush=True)
for line in sys.stdin:
    made.send(b"head")
    print("sent", flush=True)
sockets.terminate(context, [made])
"""
LISTENER = """
import sys
from unilab_metrics.transport import sockets

context = sockets.context()
made = sockets.listen(context, sys.argv[1])
print("listening", flush=True)
heard = 0
while heard < 10 and made.poll(10_000):
    assert made.recv() == b"head"
    heard += 1
    print(heard, flush=True)
sockets.terminate(context, [made])
"""


def start(code: str, endpoint: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, endpoint],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_the_second_binder_is_refused_by_pid_and_the_first_delivers_ten_of_ten(short_path: Path):
    endpoint = f"ipc://{short_path}/announce"
    first = start(BINDER, endpoint)
    assert line(first) == "bound"
    second = start(BINDER, endpoint)
    output, _ = second.communicate(timeout=30)
    assert second.returncode == 5
    assert output.strip() == f"{endpoint} used by pid {first.pid}"
    listener = start(LISTENER, endpoint)
    assert line(listener) == "listening"
    assert first.stdin is not None
    while listener.poll() is None:
        first.stdin.write("send\n")
        first.stdin.flush()
        assert line(first) == "sent"
    output, _ = listener.communicate(timeout=30)
    assert output.split()[-1] == "10"
    first.communicate(timeout=30)
    assert list(short_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"precious\n" * 1000])
def test_a_regular_file_at_the_address_is_kept_byte_for_byte(short_path: Path, content: bytes):
    path = short_path / "announce"
    path.write_bytes(content)
    binder = start(BINDER, f"ipc://{path}")
    output, _ = binder.communicate(timeout=30)
    assert binder.returncode == 5
    assert "is taken by something that is no socket" in output
    assert path.read_bytes() == content
