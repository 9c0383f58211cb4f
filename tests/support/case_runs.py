"""Runs of real processes: starting them, waiting for their end, reading what they left."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil
from own_tags import without_bus
from real_runs import until
from tensorboard.backend.event_processing.event_accumulator import (
    DEFAULT_SIZE_GUIDANCE,
    EventAccumulator,
)

from unilab_metrics.errors import ConnectionFileError
from unilab_metrics.run.summary import read_summary
from unilab_metrics.run.verifying.verify import Verified, verify_run
from unilab_metrics.storage.lease import is_free
from unilab_metrics.storage.places import runtime_directory, spool_root
from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport import rendezvous
from unilab_metrics.transport.rendezvous import aggregator_lease, bus_directory
from unilab_schema.updates import Update

Points = dict[str, list[tuple[int, float]]]


def start(script: str, *arguments: str | Path, **environment: str) -> subprocess.Popen[str]:
    """A training process, in a session of its own like those of torchrun and SLURM."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *(os.fspath(argument) for argument in arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
        start_new_session=True,
    )


def finish(
    process: subprocess.Popen[str],
    *,
    say: str = "",
    timeout_s: float = 110,
    is_undelivered: bool = False,
) -> str:
    """Its output; it must end with 0 and say nothing on its error output, or that it leaves
    something unsent if ``is_undelivered``. ``say``: its input."""
    try:
        output, errors = process.communicate(say, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    assert process.returncode == 0, errors
    assert " unsent: " in errors if is_undelivered else errors == "", errors
    return output


def run(script: str, *arguments: str | Path, **environment: str) -> str:
    """Start a training process and wait for its end."""
    return finish(start(script, *arguments, **environment))


def ended(run_dir: Path, *, log_interval: int = 1) -> Verified:
    """The run once its aggregator is gone: verified, and with nothing of it left but files."""
    until(lambda: is_free(aggregator_lease(run_dir)) and read_summary(run_dir) is not None)
    with contextlib.suppress(AssertionError):
        until(lambda: leftovers() == [])
    left = leftovers()
    assert left == [], left
    verified = verify_run(run_dir, log_interval=log_interval)
    assert verified.history.ended is not None
    assert verified.lost_frames == 0
    return verified


def leftovers() -> list[str]:
    """What of this test's runs is still on the node: processes, sockets, spools."""
    found = [f"{process.pid} {command(process)}" for process in processes()]
    found += [str(path) for path in runtime_directory().iterdir() if path.is_socket()]
    # Whatever is here may be removed while it is looked at.
    for folder, folders, files in os.walk(spool_root()):
        found += [os.path.join(folder, name) for name in (*folders, *files)]
    return found


_seen: dict[psutil.Process, tuple[str, list[str]]] = {}
"""TMPDIR and command line of processes of tests: one that is ending shows them no more, and holds
its files and locks still."""


def processes(word: str = "") -> list[psutil.Process]:
    """Living processes with this test's environment, also those that are ending; those with a
    word in their command."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            folder, words = _known(process)
            if (
                folder == os.environ["TMPDIR"]
                and process.pid != os.getpid()
                and holds_files(process)
                and (not word or word in words)
            ):
                found.append(process)
        except psutil.Error:
            continue
    return found


def kill_processes() -> None:
    """Whatever is left of this test's; some end by themselves, or with others, meanwhile."""
    for process in processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _known(process: psutil.Process) -> tuple[str, list[str]]:
    with contextlib.suppress(psutil.ZombieProcess):
        environment, words = process.environ(), process.cmdline()
        if environment and words:
            _seen[process] = environment.get("TMPDIR", ""), words
    return _seen.get(process, ("", []))


def holds_files(process: psutil.Process) -> bool:
    """Whether it has not come to its end: the first thread of one with several is a zombie
    before the last of them has closed the files."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
    except psutil.NoSuchProcess:
        return False


def await_end(*pids: int, timeout_s: float = 30.0) -> None:
    """Until these processes have given back their files and locks; waited for or not."""
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            until(lambda process=process: not holds_files(process), timeout_s)


def command(process: psutil.Process) -> str:
    """The command line of a process, empty if it is gone."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def aggregator_pid(run_dir: Path, *, other_than: int = 0) -> int:
    """The pid of the run's aggregator, once it listens."""
    found = 0

    def look() -> bool:
        nonlocal found
        try:
            found = rendezvous.read(bus_directory(run_dir)).pid
        except ConnectionFileError:
            return False
        return found != other_than

    until(look)
    return found


def _accumulate(run_dir: Path) -> EventAccumulator:
    size_guidance = dict.fromkeys(DEFAULT_SIZE_GUIDANCE, 0)
    return EventAccumulator(str(run_dir), size_guidance=size_guidance).Reload()


def scalars(run_dir: Path) -> Points:
    """Every point of the event files as TensorBoard's own reader gives it, but for what the
    bus says of itself."""
    reader = _accumulate(run_dir)
    return without_bus(
        (tag, [(event.step, event.value) for event in reader.Scalars(tag)])
        for tag in reader.Tags()["scalars"]
    )


def texts(run_dir: Path) -> dict[str, str]:
    """The last text of each tag in the event files."""
    reader = _accumulate(run_dir)
    return {
        tag: reader.Tensors(tag)[-1].tensor_proto.string_val[0].decode()
        for tag in reader.Tags()["tensors"]
    }


def updates(run_dir: Path) -> list[tuple[Update, Mapping[str, float]]]:
    """The iterations of the history with their values, but for what the bus says of itself."""
    found: list[tuple[Update, Mapping[str, float]]] = []
    with HistoryReader(bus_directory(run_dir)) as reader:
        while records := reader.poll():
            for record in records:
                if isinstance(record.entry, Update):
                    pairs = zip(record.tags, record.values().tolist(), strict=True)
                    found.append((record.entry, without_bus(pairs)))
    return found


def delayed_python(folder: Path, word: str, seconds: float) -> Path:
    """An interpreter for the helpers whose start takes long if the command line has ``word``."""
    return _slow_python(folder, word, f"sleep {seconds}")


def held_python(folder: Path, word: str, *, until: Path) -> Path:
    """As :func:`delayed_python`, until there is a file."""
    return _slow_python(folder, word, f'while ! [ -e "{until}" ]; do sleep 0.05; done')


def _slow_python(folder: Path, word: str, wait: str) -> Path:
    path = folder / f"python-{word}"
    path.write_text(
        f'#!/bin/sh\ncase " $* " in *" {word} "*) {wait};; esac\nexec "{sys.executable}" "$@"\n'
    )
    path.chmod(0o755)
    return path
