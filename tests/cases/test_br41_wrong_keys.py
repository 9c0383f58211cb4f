"""BR-41: a wrong key is named within seconds, gets not one frame, and hangs nobody."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from case_runs import aggregator_pid, ended, finish, start
from real_runs import fastest_s, until

from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_metrics.transport import keys, rendezvous
from unilab_metrics.transport.allow_list import PUBLISH, WATCH
from unilab_metrics.transport.rendezvous import bus_directory

TRAINING = """
import sys
import unilab_metrics as um

publisher = um.init(algorithm="ppo", task="Toy", run_dir=sys.argv[1], bind="tcp://127.0.0.1")
for iteration in range(50):
    publisher.log({"Loss/value": float(iteration)}, iteration=iteration)
print("logged", flush=True)
sys.stdin.readline()
assert publisher.close(90), publisher.errors
"""
WITHIN_S = 5.0


@pytest.fixture
def endpoint(run_dir: Path) -> Iterator[str]:
    training = start(TRAINING, run_dir)
    try:
        assert training.stdout is not None
        assert training.stdout.readline() == "logged\n"
        aggregator_pid(run_dir)
        yield rendezvous.read(bus_directory(run_dir)).tcp_announce
        finish(training, say="\n")
        assert ended(run_dir).dropped_calls == {}
    finally:
        if training.poll() is None:
            training.kill()
        training.communicate()


def attach_s(words: str, status: int, *arguments: str | Path) -> float:
    """How long ``attach`` takes to say ``words`` in its one line and end with ``status``, beyond
    what an interpreter with our imports takes here and now: one before or one after it."""
    before_s = interpreter_s()
    code, output, errors, took_s = attach(*arguments)
    assert (code, output) == (status, ""), errors
    assert words in errors
    assert str(arguments[-1]) in errors or status == 4
    assert len(errors.splitlines()) == 1
    return took_s - min(before_s, interpreter_s())


def interpreter_s() -> float:
    """No share of any handshake."""
    began_s = time.monotonic()
    subprocess.run([sys.executable, "-c", _IMPORTS], check=True, timeout=60)
    return time.monotonic() - began_s


_IMPORTS = (
    "import unilab_metrics.cli, unilab_metrics.cli.watch, unilab_metrics.subscribe.subscriber"
)


def attach(*arguments: str | Path) -> tuple[int, str, str, float]:
    command = [sys.executable, "-m", "unilab_metrics", "attach", *(str(word) for word in arguments)]
    began_s = time.monotonic()
    done = subprocess.run(
        [*command, "--lines"], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr, time.monotonic() - began_s


@pytest.mark.slow
def test_each_wrong_key_is_named_and_gets_no_frame(endpoint: str, run_dir: Path, tmp_path: Path):
    bus = bus_directory(run_dir)
    other = private_directory(tmp_path / "other")
    keys.prepare_keys(other)
    server = keys.read_client(keys.key_path(bus, WATCH), WATCH).server
    keys.new_client(tmp_path / "unlisted.key", WATCH, server)
    shutil.copy(keys.key_path(bus, WATCH), tmp_path / "wide.key")
    (tmp_path / "wide.key").chmod(0o644)
    cases = [
        (keys.key_path(other, WATCH), "the key is for another run, or was taken out"),
        (tmp_path / "unlisted.key", "not on the run's allow-list"),
        (keys.key_path(bus, PUBLISH), "watching needs the run's watch.key"),
        (tmp_path / "missing.key", "there is no such key file"),
        (tmp_path / "wide.key", "mode 0644 lets others in; `chmod 600` it"),
    ]
    for path, words in cases:
        named_s = partial(attach_s, words, 5, endpoint, "--key", path)
        assert fastest_s(named_s, WITHIN_S) < WITHIN_S
    code, output, errors, _ = attach(endpoint)
    assert (code, output) == (2, "")
    assert "bus/keys/watch.key" in errors
    closed = "tcp://127.0.0.1:9", "--key", keys.key_path(bus, WATCH)
    named_s = partial(attach_s, "nobody listens there", 4, *closed)
    assert fastest_s(named_s, WITHIN_S) < WITHIN_S


def test_the_port_for_publishing_is_not_said_to_be_another_run(endpoint: str, run_dir: Path):
    bus = bus_directory(run_dir)
    file = rendezvous.read(bus)
    for use in (WATCH, PUBLISH):
        code, _, errors, _ = attach(file.tcp_ingest, "--key", keys.key_path(bus, use))
        assert code == 5
        if use == WATCH:
            assert "tcp_announce" in errors
            assert "the port for publishing" in errors or "not the address to watch" in errors


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_viewer_whose_key_is_taken_out_says_so_and_ends(endpoint: str, run_dir: Path):
    assert fastest_s(lambda: taken_out_s(endpoint, run_dir), WITHIN_S) < WITHIN_S


def taken_out_s(endpoint: str, run_dir: Path) -> float:
    """How long two viewers take until both have said that their key was taken out, and the one
    with lines of text has ended."""
    bus = bus_directory(run_dir)
    path, allowed = keys.key_path(bus, WATCH), keys.allowed_path(bus)
    text = allowed.read_text()
    public = keys.read_client(path, WATCH).public
    assert f"watch {public}" in text
    command = [sys.executable, "-m", "unilab_sidecar", endpoint, "--key", str(path), "--lines"]
    with (
        Subscriber.attach_remote(endpoint, path) as viewer,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as lines,
    ):
        assert lines.stdout is not None
        assert lines.stdout.readline().startswith("iter ")
        until(lambda: viewer.poll(20) is not None and viewer.connected)
        began_s = time.monotonic()
        allowed.write_text(text.replace(f"watch {public}", f"# watch {public}"))
        until(lambda: viewer.poll(20) is not None and viewer.refusal is not None)
        assert "was taken off" in str(viewer.refusal)
        assert str(path) in str(viewer.refusal)
        _, errors = lines.communicate(timeout=60)
        took_s = time.monotonic() - began_s
        assert (lines.returncode, len(errors.splitlines())) == (5, 1), errors
        assert "bus/keys/allowed" in errors
        # It stays so over the next connections, and the key may come back.
        ends_s = time.monotonic() + 4.0
        while time.monotonic() < ends_s:
            viewer.poll(20)
            assert viewer.refusal is not None
        allowed.write_text(text)
        until(lambda: viewer.poll(20) is not None and viewer.connected)
        assert viewer.refusal is None
    return took_s


def test_the_right_key_shows_a_frame_within_two_seconds(endpoint: str, run_dir: Path):
    path = keys.key_path(bus_directory(run_dir), WATCH)

    def first_frame_s() -> float:
        began_s = time.monotonic()
        with Subscriber.attach_remote(endpoint, path) as viewer:
            found: list[object] = []
            until(lambda: found.extend(viewer.poll(20)) or found)
            took_s = time.monotonic() - began_s
            assert viewer.head is not None
            assert viewer.head.refused_connections == 0
        return took_s

    assert fastest_s(first_frame_s, 2.0) < 2.0
    done = subprocess.run(
        [sys.executable, "-m", "unilab_sidecar", endpoint, "--key", str(path), "--once"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "iter" in done.stdout
