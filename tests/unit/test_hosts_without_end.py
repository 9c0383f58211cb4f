"""Hosts that write without an end, through a program that stands in for ssh."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from unilab_metrics.errors import SshError
from unilab_metrics.subscribe.ssh import forwarded_sockets, run_over_ssh, said
from unilab_metrics.subscribe.ssh.run_over_ssh import RunOverSsh
from unilab_metrics.subscribe.ssh.target import SshTarget

TARGET = SshTarget("box", "/run")
LONGEST_S = 15.0
IN = """\
IFS= read -r line; M=${line##*M=}
say() { printf '\\n%s\\n' "$M $1"; }
say in
"""
REPORT = """\
report() {
    say begin; say boot; echo abc; say host; echo h; say directory; say bus; say connection
    printf '{"version":1,"run_dir":"/run","journal":"00","pid":1,"started_unix_ns":%s,' "$1"
    printf '"boot_id":"abc","host":"h","ingest":"ipc:///i","announce":"ipc:///a",'
    printf '"fetch":"ipc:///f"}\\n'
    say end
}
"""


@pytest.fixture
def opened(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[str, str]]:
    """What is told to people by a host that does ``script``, and why it is given up."""

    def open_it(script: str) -> tuple[str, str]:
        program = short_path / "ssh"
        program.write_text(f'#!/bin/sh\ncase "$*" in *-Oforward*) exec sleep 99 ;; esac\n{script}')
        program.chmod(0o755)
        monkeypatch.setenv("UNILAB_METRICS_SSH", str(program))
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_path))
        until_s = time.monotonic() + LONGEST_S
        told: list[str] = []

        def say(words: str) -> None:
            told.append(words)
            assert time.monotonic() < until_s, "it is never given up"

        with pytest.raises(SshError) as found:
            RunOverSsh.open(TARGET, say=say)
        return "".join(told), str(found.value)

    return open_it


def test_an_error_stream_without_an_end_is_given_up_and_little_of_it_is_shown(
    opened: Callable[[str], tuple[str, str]],
) -> None:
    told, why = opened("exec yes Welcome >&2")
    assert "error stream" in why
    assert told.startswith("Welcome\n")
    assert told.count("more than is shown") == 1
    assert len(told) < 2 * said.MOST_WORDS


def test_a_line_of_a_host_is_shown_in_short_in_the_error_too(
    opened: Callable[[str], tuple[str, str]],
) -> None:
    told, why = opened("printf 'Permission denied %09999d' 0 >&2; exit 255")
    assert told == ""
    assert len(why) < 1000
    told, why = opened("printf 'What is this %09999d' 0 >&2; exit 255")
    assert len(told) < 1000
    assert len(why) < 1000


def test_a_host_that_answers_what_it_was_not_asked_is_given_up(
    opened: Callable[[str], tuple[str, str]],
) -> None:
    script = f"{IN}{REPORT}n=1; while :; do report $n; n=$((n + 1)); sleep 0.05; done"
    assert "not asked" in opened(script)[1]


def test_a_forward_that_never_stands_is_given_up(
    opened: Callable[[str], tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarded_sockets, "ARRANGE_S", 0.2)
    assert "ssh does not answer" in opened(f"{IN}{REPORT}report 1; cat >/dev/null")[1]


def test_a_host_that_answers_and_never_leads_to_the_run_is_given_up(
    opened: Callable[[str], tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_over_ssh, "CONTACT_S", 0.2)
    assert "cannot be reached" in opened(f"{IN}{REPORT}report 1; cat >/dev/null")[1]
