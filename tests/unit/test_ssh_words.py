"""What is decided without a process: targets, command lines, questions, answers, errors."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unilab_metrics.cli.directories import existing_run
from unilab_metrics.errors import (
    ConnectionFileError,
    ExitCode,
    NoLiveRunError,
    RunNotFoundError,
    SshError,
    SshTargetError,
    UnilabMetricsError,
)
from unilab_metrics.subscribe.ssh import command_lines, judging, said, script
from unilab_metrics.subscribe.ssh.report import Listener, Report
from unilab_metrics.subscribe.ssh.target import SshTarget, copying, is_ssh_target, parse_target

TARGET = SshTarget("box", "/run")
PATHS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=30)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("cluster:", SshTarget("cluster", "")),
        ("me@cluster:logs/a b", SshTarget("me@cluster", "logs/a b")),
        ("cluster:~/x:y", SshTarget("cluster", "~/x:y")),
        ("[fe80::1]:/x", SshTarget("fe80::1", "/x")),
        ("me@[::1]:x", SshTarget("me@::1", "x")),
        ("ssh://me@10.0.0.5:2222/data/a%20b", SshTarget("me@10.0.0.5", "/data/a b", 2222)),
        ("ssh://cluster", SshTarget("cluster", "")),
        ("ssh://cluster/~/logs", SshTarget("cluster", "~/logs")),
        ("ssh://[::1]:22/x", SshTarget("::1", "/x", 22)),
    ],
)
def test_targets_are_read_as_people_write_them(text: str, target: SshTarget) -> None:
    assert is_ssh_target(text)
    assert parse_target(text) == target


@pytest.mark.parametrize("text", ["logs/run", "./a:b", "/a:b", "run", "tcp://h:1", "logs/a:b/c"])
def test_what_names_a_place_here_is_no_target(text: str) -> None:
    assert not is_ssh_target(text)


@pytest.mark.parametrize(
    "text",
    [":x", "-oProxyCommand=x:y", "me@-x:y", "@h:x", "a b:x", "ssh://h:0/x", "ssh://h:99999/x",
     "ssh://", "ssh://[::1/x", "ssh://h:x/y", "h\n:x", f"h:{'x' * 70_000}", "h:a\0b"],
)  # fmt: skip
def test_what_ssh_would_misunderstand_is_refused(text: str) -> None:
    with pytest.raises(SshTargetError):
        parse_target(text)


@given(st.text(max_size=40))
def test_every_text_is_a_target_or_an_error_and_no_host_is_an_option(text: str) -> None:
    try:
        target = parse_target(text)
    except SshTargetError:
        return
    assert not target.destination.startswith("-")


@given(st.from_regex(r"[a-z]{1,8}(@[a-z.]{1,8})?", fullmatch=True), PATHS, st.integers(0, 65535))
def test_a_target_that_is_written_out_is_read_back(host: str, path: str, port: int) -> None:
    if port and path and not path.startswith("~"):
        path = "/" + path.lstrip("/")
    target = SshTarget(host, path, port)
    assert parse_target(str(target)) == target


@pytest.mark.parametrize(
    "path", ["a b", "it's", '"$HOME"', "-n", "a\nb", "$(echo x)", "~x y/z", "*", "\\", "~no/such"]
)
def test_a_path_reaches_the_command_as_it_is(path: str) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"printf %s {script.quoted(path)}"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout in (f"./{path}", path)


def test_a_tilde_is_a_home_of_the_other_machine() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"printf '%s|' {script.quoted('~/a b')} {script.quoted('~')}"],
        capture_output=True, text=True, timeout=60, check=True, env={"HOME": "/my home"},
    )  # fmt: skip
    assert done.stdout == "/my home/a b|/my home|"


def test_a_session_asks_nobody_when_it_may_not() -> None:
    target = SshTarget("box", "x", 2222)
    asking = command_lines.session_command(["ssh"], target, "/tmp/um%x", asks=True)
    silent = command_lines.session_command(["ssh"], target, "/tmp/um%x", asks=False)
    assert set(silent) - set(asking) == {"-oBatchMode=yes"}
    assert asking[-3:] == ["--", "box", "sh"]
    assert asking[asking.index("-p") + 1] == "2222"
    assert "-oControlPath=/tmp/um%%x/ctl" in asking


def test_colons_of_a_path_do_not_divide_a_forward() -> None:
    forward = command_lines.Forward("/l.out", "/r:1\\.out")
    command = command_lines.forward_command(["ssh"], "/tmp/x", [forward])
    assert "-L/l.out:/r\\:1\\\\.out" in command


@pytest.mark.parametrize(
    ("place", "fits"), [("/tmp/x", True), ("/tmp/a b", False), ("/a:b", False), ("/" * 61, False)]
)
def test_sockets_lie_where_ssh_takes_their_path(place: str, fits: bool) -> None:
    assert command_lines.fits(place) is fits


def test_the_ssh_to_use_is_split_as_a_shell_does() -> None:
    name = command_lines.COMMAND_VARIABLE
    assert command_lines.ssh_program({}) == ["ssh"]
    assert command_lines.ssh_program({name: "ssh -F 'a b'"}) == ["ssh", "-F", "a b"]
    with pytest.raises(SshError, match=name):
        command_lines.ssh_program({name: "ssh 'a"})


def answered(run: str, *, before: str = "") -> list[Report]:
    listener = Listener("um-mark")
    asked = script.preamble("um-mark") + script.ask_run(run)
    done = subprocess.run(
        ["/bin/sh"], input=before.encode() + asked, capture_output=True, timeout=60, check=True
    )
    return listener.take(done.stdout)


def test_a_report_holds_the_files_of_the_run(tmp_path: Path) -> None:
    run = tmp_path / "it's a run"
    (run / "bus").mkdir(parents=True)
    (run / "bus" / "bus.json").write_text('{"a":\n1}')
    (got,) = answered(str(run), before="echo welcome\n")
    assert (got.is_directory, got.has_bus, got.summary) == (True, True, None)
    assert json.loads(got.connection or b"") == {"a": 1}
    assert got.boot_id
    (missing,) = answered(str(run / "no"))
    assert not missing.is_directory


def test_a_pipe_in_place_of_a_file_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / "bus").mkdir()
    os.mkfifo(tmp_path / "bus" / "bus.json")
    os.mkfifo(tmp_path / "run_summary.json")
    (got,) = answered(str(tmp_path))
    assert (got.is_odd, got.connection, got.summary) == (True, None, None)


def test_a_shell_that_reads_is_told_from_a_login_that_asks() -> None:
    listener = Listener("um-mark")
    listener.take(b"password: \num-mark")
    assert not listener.is_in
    done = subprocess.run(
        ["/bin/sh"], input=script.preamble("um-mark"), capture_output=True, timeout=60, check=True
    )
    listener = Listener("um-mark")
    assert listener.take(done.stdout) == []
    assert listener.is_in


def test_who_is_at_work_is_told_from_who_left_a_file(tmp_path: Path) -> None:
    def alive(pid: int) -> bool | None:
        asked = script.preamble("um-mark") + script.ask_alive(pid, str(path))
        done = subprocess.run(["/bin/sh"], input=asked, capture_output=True, timeout=60, check=True)
        assert not done.stderr
        return Listener("um-mark").take(done.stdout)[0].is_alive

    path = tmp_path / "s"
    assert alive(os.getpid()) is False
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
        assert alive(os.getpid()) is True
        assert alive(2**30) is False


@given(st.binary(max_size=60), st.integers(1, 20))
def test_reports_come_whole_however_they_are_cut(noise: bytes, size: int) -> None:
    listener = Listener("um-mark")
    text = noise + b"\num-mark begin\n\num-mark host\nbox\n\num-mark end\n"
    reports = [
        one for at in range(0, len(text), size) for one in listener.take(text[at : at + size])
    ]
    assert [one.host for one in reports] == ["box"]


def connection(**fields: object) -> bytes:
    return json.dumps({
        "version": 1, "run_dir": "/run", "journal": "00", "pid": 7, "started_unix_ns": 8,
        "boot_id": "b", "host": "node7", "ingest": "ipc:///s.in", "announce": "ipc:///s.out",
        "fetch": "ipc:///s.ask", **fields,
    }).encode()  # fmt: skip


WHOLE = Report("b", "box", is_directory=True, has_bus=True)


def test_a_report_of_a_live_run_says_where_its_sockets_are() -> None:
    bus = judging.judge(TARGET, WHOLE._replace(connection=connection()))
    assert bus == ("/s.out", "/s.ask", (7, 8))


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (Report("b", "box"), RunNotFoundError, "no such directory"),
        (Report("b", "box", is_file=True), RunNotFoundError, "is a file"),
        (Report("b", "box", is_directory=True), RunNotFoundError, "holds no run"),
        (WHOLE, NoLiveRunError, "not started yet, or it was cut off"),
        (WHOLE._replace(summary=b'{"status":"done"}'), NoLiveRunError, r"ended \(done\).*replay"),
        (WHOLE._replace(is_denied=True), SshError, "another user"),
        (WHOLE._replace(connection=connection(boot_id="c")), SshError, "node7.*ProxyJump box"),
        (WHOLE._replace(connection=connection(boot_id="c", host="box")), SshError, "anew"),
        (WHOLE._replace(connection=connection(announce="", tcp_announce="tcp://h:1")), SshError,
         "attach tcp://h:1 --key"),
        (WHOLE._replace(connection=connection(fetch="ipc://@x")), ConnectionFileError, "absolute"),
        (WHOLE._replace(connection=b"{"), ConnectionFileError, "box:/run/bus/bus.json"),
        (WHOLE._replace(connection=connection(fetch="ipc:///a\0b")), ConnectionFileError, "NUL"),
        (WHOLE._replace(connection=connection(pid=-1)), ConnectionFileError, "no process"),
        (WHOLE._replace(connection=connection(pid=10**18)), ConnectionFileError, "no process"),
        (WHOLE._replace(is_odd=True), ConnectionFileError, "no regular file"),
    ],
)  # fmt: skip
def test_what_cannot_be_watched_is_named_with_what_to_do(
    given: Report, error: type[UnilabMetricsError], words: str
) -> None:
    with pytest.raises(error, match=words):
        judging.judge(TARGET, given)


def test_the_newest_live_run_of_this_boot_comes_first() -> None:
    entries = [
        json.dumps({"run_dir": path, "boot_id": boot, "started_unix_ns": when}).encode()
        for path, boot, when in (("/a", "b", 1), ("/b", "b", 2), ("/c", "other", 3))
    ]
    assert judging.live_paths(Report("b", live=(*entries, b"junk"))) == ["/b", "/a"]


@pytest.mark.parametrize(
    ("text", "status", "exit_code", "asks"),
    [
        ("ssh: Could not resolve hostname x: Name or service not known", 255, 4, False),
        ("ssh: connect to host h port 22: Connection refused", 255, 4, False),
        ("me@h: Permission denied (publickey).", 255, 5, True),
        ("Host key verification failed.", 255, 5, True),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
         255, 5, False),
        ("channel 3: open failed: administratively prohibited: open failed", None, 5, False),
        ("Can't open user config file x: No such file or directory", 255, 2, False),
        ("whatever", 255, 4, False),
        ("", 127, 5, False),
        ("", -9, 4, False),
    ],
)  # fmt: skip
def test_words_of_ssh_have_an_exit_code(
    text: str, status: int | None, exit_code: ExitCode, asks: bool
) -> None:
    found = said.understand(text, status)
    assert (found.exit_code, found.asks) == (exit_code, asks)


def test_people_read_a_greeting_and_no_error_twice() -> None:
    assert said.for_people("Approve on your phone\nh: Permission denied (x).\n") == (
        "Approve on your phone\n"
    )
    again = (
        "channel 2: open failed: connect failed: No such file\nclient_loop: send disconnect: x\n"
    )
    assert said.for_people(f"{again}Welcome\n") == "Welcome\n"


@given(st.integers(0, 10_000))
def test_pauses_grow_and_stay_bounded(failures: int) -> None:
    assert said.FIRST_PAUSE_S <= said.pause_s(failures) <= said.pause_s(failures + 1)
    assert said.pause_s(failures) <= said.LONGEST_PAUSE_S


def test_a_run_that_is_over_is_copied_with_a_command_that_can_be_pasted() -> None:
    for text, command in (
        ("box:/data/my run", "scp -r 'box:/data/my run' . && unilab-metrics replay 'my run'"),
        ("me@box:~/runs/7/", "scp -r me@box:runs/7 . && unilab-metrics replay 7"),
        ("ssh://me@[::1]:22/d/-x", "scp -r -P 22 'me@[::1]:/d/-x' . && unilab-metrics replay ./-x"),
    ):
        assert copying(parse_target(text)) == command


def test_commands_that_read_files_say_what_to_do_with_a_run_of_another_machine() -> None:
    with pytest.raises(RunNotFoundError, match=r"`scp -r box:/d/7 \. && unilab-metrics replay 7`"):
        existing_run(Path("box:/d/7"))
    with pytest.raises(RunNotFoundError, match=r"`scp -r -P 9 box:/d/7 "):
        existing_run(Path("ssh://box:9/d/7"))
    with pytest.raises(RunNotFoundError, match="only `attach` and `serve`"):
        existing_run(Path("box:"))
    with pytest.raises(RunNotFoundError, match="no such directory"):
        existing_run(Path("runs/a:b"))
