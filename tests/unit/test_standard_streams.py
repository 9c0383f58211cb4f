"""A launcher that was started without standard streams gives their numbers to nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unilab_metrics.storage.standard_streams import above_standard_streams

FILL = """
import os, sys
from unilab_metrics.storage.standard_streams import above_standard_streams, fill_standard_streams
report = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
report = above_standard_streams(report)
pipe = [above_standard_streams(end) for end in os.pipe()]
fill_standard_streams()
fill_standard_streams()
facts = [min(report, *pipe) > 2, not any(map(os.get_inheritable, [report, *pipe]))]
facts += [all(map(os.get_inheritable, range(3)))]
facts += [os.read(0, 1) == b"", os.write(1, b"x") == os.write(2, b"x") == 1]
os.write(pipe[1], b"y")
facts += [os.read(pipe[0], 1) == b"y"]
os.write(report, str(facts).encode())
"""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_missing_streams_become_the_null_device(closed: str, tmp_path: Path) -> None:
    report = tmp_path / "report"
    command = f'exec "$0" -c "$1" "$2" {closed}'
    arguments = ["sh", "-c", command, sys.executable, FILL, str(report)]
    subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=30)
    assert report.read_text() == str([True] * 6)


def test_open_streams_stay_as_they_are(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILL.replace('b""', 'b"z"'), str(tmp_path / "report")],
        input=b"z", capture_output=True, check=True, timeout=30,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (b"x", b"x")
    assert (tmp_path / "report").read_text() == str([True] * 6)


def test_a_number_above_two_stays(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        number = os.dup(file.fileno())
    assert above_standard_streams(number) == number
    os.close(number)
