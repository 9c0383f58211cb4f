"""The command line: help, exit codes, and what it finds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from cut_off_run import end, open_run_directory, source, whole_run

from unilab_metrics import __version__
from unilab_metrics.cli import watch
from unilab_metrics.cli.root import commands
from unilab_metrics.errors import ExitCode, LeaseHeldError
from unilab_metrics.run.bus_settings import write_settings
from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.storage.lease import Lease
from unilab_metrics.transport import registry
from unilab_metrics.transport.rendezvous import AGGREGATOR_LEASE, CONNECTION_FILE, bus_directory
from unilab_metrics.write import process

COMMANDS = ("demo", "attach", "replay", "ls", "verify", "aggregate", "write")


def invoke(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(commands, arguments)
    return done.exit_code, done.output


def test_version() -> None:
    assert invoke("--version") == (0, f"unilab-metrics {__version__}\n")


@pytest.mark.parametrize(("typed", "meant"), [("atach", "attach"), ("replai", "replay"), ("x", "")])
def test_of_a_command_that_there_is_not_the_nearest_is_named(typed: str, meant: str) -> None:
    code, output = invoke(typed, "somewhere")
    assert code == ExitCode.USAGE
    assert f"No such command '{typed}'" in output
    assert (f"Did you mean '{meant}'?" in output) if meant else ("Did you mean" not in output)


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_the_commands_examples_and_exit_codes(flag: str) -> None:
    code, output = invoke(flag)
    assert code == 0
    for text in (*COMMANDS, "Examples", "Exit codes", "130  interrupted"):
        assert text in output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_examples_and_exit_codes(command: str) -> None:
    code, output = invoke(command, "-h")
    assert code == 0
    assert f"unilab-metrics {command}" in output.partition("Examples")[2]
    assert "Exit codes" in output


@pytest.mark.parametrize(
    "arguments",
    [
        ("nothing",),
        ("verify",),
        ("ls", "--nothing"),
        ("demo", "--ranks", "0"),
        ("demo", "algo.sed=7"),
        ("write", "somewhere", "--backend", "neptune"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...]) -> None:
    code, output = invoke(*arguments)
    assert code == ExitCode.USAGE, output
    assert "Traceback" not in output


@pytest.mark.parametrize("command", ["verify", "attach", "aggregate", "write"])
def test_a_directory_that_is_not_there_ends_with_3_and_one_line(command: str) -> None:
    code, output = invoke(command, "no/such/run")
    assert code == ExitCode.RUN_NOT_FOUND, output
    assert output == "unilab-metrics: no/such/run: no such directory\n"


@pytest.mark.parametrize("command", ["verify", "attach", "aggregate", "write"])
def test_a_directory_that_holds_no_run_ends_with_3_and_stays_as_it_is(
    command: str, tmp_path: Path
) -> None:
    code, output = invoke(command, str(tmp_path))
    assert (code, output) == (
        ExitCode.RUN_NOT_FOUND,
        (
            f"unilab-metrics: {tmp_path}: holds no run; `unilab-metrics ls --logs {tmp_path}` lists "
            "those below it\n"
        ),
    )
    assert list(tmp_path.iterdir()) == []


def test_who_names_a_directory_beside_a_run_is_told_where_one_is(tmp_path: Path) -> None:
    run_dir = tmp_path / "logs" / "a run"
    (run_dir / "bus").mkdir(parents=True)
    for beside, hint in (
        (tmp_path / "logs", f"`unilab-metrics ls --logs {tmp_path}/logs` lists those below it"),
        (run_dir / "bus", f"its parent does: '{run_dir}'"),
    ):
        done = CliRunner().invoke(commands, ["verify", str(beside)])
        assert done.exit_code == ExitCode.RUN_NOT_FOUND
        assert done.output == f"unilab-metrics: {beside}: holds no run; {hint}\n"


@pytest.mark.parametrize("address", ["1.2.3.4:5", "node-7.local:7400", "[::1]:7400"])
def test_an_address_without_its_scheme_is_recognised(address: str) -> None:
    done = CliRunner().invoke(commands, ["attach", address])
    assert done.exit_code == ExitCode.USAGE
    assert f"an address is tcp://{address}, with --key FILE" in done.output


def test_a_second_writer_says_that_there_is_nothing_to_do(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(*_: object, **__: object) -> int:
        raise LeaseHeldError(run_dir, 17)

    private_directory(bus_directory(run_dir))
    monkeypatch.setattr(process, "write_run", held)
    code, output = invoke("write", str(run_dir))
    assert code == ExitCode.REFUSED
    assert output == "unilab-metrics: a writer is already at work (pid 17); nothing to do\n"


def test_an_unknown_option_ends_its_sentence_before_the_known_ones() -> None:
    assert "zzz: unknown option of sac. Known: training" in invoke("demo", "zzz=7")[1]
    output = invoke("demo", "algo.sed=7")[1]
    assert "algo.sed: unknown option of sac, did you mean algo.seed? Known: training" in output


def test_attach_without_a_live_run_ends_with_4() -> None:
    code, output = invoke("attach")
    assert code == ExitCode.NO_LIVE_RUN
    assert "no live run" in output


def test_ls_of_nothing_says_so(tmp_path: Path) -> None:
    assert invoke("ls") == (0, "no live run, none below logs/\n")
    code, output = invoke("ls", "--logs", str(tmp_path / "mine"))
    assert (code, output) == (0, f"no live run, none below {tmp_path}/mine/\n")


def test_a_run_that_has_no_aggregator_yet_is_starting(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run_dir / "run_config.json").write_text("{}")
    registry.register(run_dir, os.getpid())
    logs = str(run_dir.parents[2])
    (line,) = invoke("ls", "--logs", logs)[1].splitlines()
    assert (line.split()[0], line.split()[-1]) == ("starting", str(run_dir))
    monkeypatch.setattr(registry, "STARTING_S", 0.0)
    assert invoke("ls", "--logs", logs)[1].split()[0] == "ended"


def test_ls_finds_runs_at_any_depth_and_tells_those_that_were_cut_off(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    runs = [logs / "a" / "b" / "c" / "2026-01-02_03-04-05", logs / "mine", logs / "x" / "y" / "z"]
    for run in runs:
        private_directory(bus_directory(run))
        write_settings(run, launch="", backends=(), log_interval=1)
    (logs / "bus" / "sac" / "2026-01-01_03-04-05").mkdir(parents=True)
    (logs / "bus" / "sac" / "2026-01-01_03-04-05" / "run_config.json").write_text("{}")
    (logs / "bus" / "sac" / "deep" / "er" / "than").mkdir(parents=True)
    (logs / "bus" / "sac" / "deep" / "er" / "than" / "run_config.json").write_text("{}")
    whole_run(runs[2])
    (runs[2] / "run_summary.json").unlink()
    lines = invoke("ls", "--logs", str(logs))[1].splitlines()
    states = {line.split()[-1]: line[:10].strip() for line in lines}
    assert states == {
        str(runs[0]): "cut off",
        str(runs[1]): "cut off",
        str(runs[2]): "ended",
        str(logs / "bus" / "sac" / "2026-01-01_03-04-05"): "ended",
    }
    assert lines[-1].split()[-1].endswith("2026-01-01_03-04-05")


def test_a_run_with_a_process_that_waits_for_an_aggregator_is_live(run_dir: Path) -> None:
    open_run_directory(run_dir)
    publisher = source()
    logs = str(run_dir.parents[2])
    assert invoke("ls", "--logs", logs)[1].split()[0] == "live"
    end(publisher)
    assert invoke("ls", "--logs", logs)[1].startswith("cut off ")


def test_a_run_whose_first_process_was_killed_at_once_is_not_starting(run_dir: Path) -> None:
    open_run_directory(run_dir)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    registry.register(run_dir, gone.pid)
    assert invoke("ls", "--logs", str(run_dir.parents[2]))[1].startswith("cut off ")


def test_attach_waits_for_a_run_that_is_starting(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.register(run_dir, os.getpid())
    polls: list[float] = []
    leases: list[Lease] = []

    def poll(seconds: float) -> None:
        polls.append(seconds)
        if len(polls) == 3:
            bus = private_directory(bus_directory(run_dir))
            leases.append(Lease.create(bus, AGGREGATOR_LEASE, b""))
        if len(polls) == 5:
            (bus_directory(run_dir) / CONNECTION_FILE).touch()

    def replaced(_path: str, command: list[str], _environ: object) -> None:
        assert str(run_dir) in command

    monkeypatch.setattr(watch.time, "sleep", poll)
    monkeypatch.setattr(os, "execve", replaced)
    assert invoke("attach")[0] == 0
    assert len(polls) == 5
    leases[0].release()
    monkeypatch.setattr(watch, "_START_S", 0.0)
    assert invoke("attach")[0] == ExitCode.NO_LIVE_RUN


def test_attach_waits_for_a_run_to_begin_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = tmp_path / "logs" / "notyet"
    polls: list[float] = []
    opened: list[Path] = []

    def poll(seconds: float) -> None:
        polls.append(seconds)
        if len(polls) == 2:
            wanted.mkdir(parents=True)
        if len(polls) == 4:
            (wanted / "run_config.json").write_text("{}")

    def replaced(_path: str, command: list[str], _environ: object) -> None:
        assert "--wait" in command
        opened.append(Path(command[3]))

    monkeypatch.setattr(watch.time, "sleep", poll)
    monkeypatch.setattr(os, "execve", replaced)
    code, output = invoke("attach", str(wanted), "--wait", "--lines")
    assert (code, opened, len(polls)) == (0, [wanted], 4)
    said = f"waiting for a run in {wanted} (no such directory); Ctrl+C ends it"
    assert output.splitlines() == [said]


def test_attach_waits_for_any_run_of_this_machine_until_ctrl_c(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    polls: list[float] = []

    def poll(seconds: float) -> None:
        polls.append(seconds)
        if len(polls) > 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(watch.time, "sleep", poll)
    code, output = invoke("attach", "--wait", "--lines")
    assert (code, len(polls)) == (ExitCode.INTERRUPTED, 6)
    assert output == "waiting for a run on this machine (none is live); Ctrl+C ends it\n"


def test_attach_does_not_wait_where_no_run_can_begin(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert invoke("attach", str(tmp_path / "file"), "--wait")[0] in {2, ExitCode.RUN_NOT_FOUND}


def test_ls_shows_live_runs_first_and_recent_ones_once(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    runs = [logs / "sac" / "task" / f"2026-01-0{day}_03-04-05_numpy" for day in (1, 2, 3)]
    for run in runs:
        run.mkdir(parents=True)
        (run / "run_config.json").write_text("{}")
    (runs[0] / "run_summary.json").write_text(json.dumps({"status": "completed"}))
    (runs[1] / "run_summary.json").write_text(json.dumps({"status": "failed"}))
    lease = Lease.create(private_directory(bus_directory(runs[2])), AGGREGATOR_LEASE, b"")
    try:
        registry.register(runs[2], os.getpid())
        code, output = invoke("ls", "--logs", str(logs))
    finally:
        lease.release()
    assert code == 0
    lines = output.splitlines()
    assert [line.split()[0] for line in lines] == ["live", "failed", "done"]
    assert [line.split()[-1] for line in lines] == [str(run) for run in reversed(runs)]
    assert "2026-01-01 03:04" in lines[2]


def test_ls_counts_the_alerts_of_what_has_ended_and_not_those_of_an_earlier_attempt(
    tmp_path: Path,
) -> None:
    told = [{"raised": 3, "open": 1}, {"raised": 1, "open": 0}, {"raised": 0, "open": 0}, {}]
    for day, alerts in enumerate(told, 1):
        run = tmp_path / f"2026-01-0{day}_03-04-05_numpy"
        run.mkdir()
        (run / "run_config.json").write_text("{}")
        summary = {"status": "completed", "bus": {"alerts": alerts}}
        (run / "run_summary.json").write_text(json.dumps(summary))
    live = tmp_path / "2026-01-05_03-04-05_numpy"
    lease = Lease.create(private_directory(bus_directory(live)), AGGREGATOR_LEASE, b"")
    (live / "run_summary.json").write_text(json.dumps({"bus": {"alerts": told[0]}}))
    try:
        lines = invoke("ls", "--logs", str(tmp_path))[1].splitlines()
    finally:
        lease.release()
    ends = [line.split("_numpy")[1] for line in lines]
    assert ends == ["", "", "", "  (1 alert)", "  (3 alerts, 1 still open)"]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"completed_iterations": 300, "training_wall_time_sec": 125.6, "final_mean_reward": 412.06},
         "  (300 iterations, 2m05s, reward 412.1)"),
        ({"training_wall_time_sec": 7_500.0}, "  (2h05m)"),
        ({"completed_iterations": 1, "training_wall_time_sec": 3.2, "bus": {"alerts": {"raised": 1}}},
         "  (1 iteration, 3.2s, 1 alert)"),
        ({"completed_iterations": "a", "training_wall_time_sec": 1e300, "final_mean_reward": True},
         ""),
    ],
)  # fmt: skip
def test_ls_says_how_far_a_run_came_and_its_last_reward(
    tmp_path: Path, told: dict[str, object], words: str
) -> None:
    run = tmp_path / "2026-01-01_03-04-05_numpy"
    run.mkdir()
    (run / "run_config.json").write_text("{}")
    (run / "run_summary.json").write_text(json.dumps({"status": "completed"} | told))
    assert invoke("ls", "--logs", str(tmp_path))[1].rstrip("\n").split("_numpy")[1] == words


@pytest.mark.parametrize("command", [("ls",), ("--version",), ("attach",)])
def test_a_quick_command_loads_neither_terminal_nor_backend(command: tuple[str, ...]) -> None:
    code = (
        "import sys; from unilab_metrics.cli.root import commands\n"
        "try: commands(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "loaded = {'textual', 'rich', 'tensorboardX', 'torch', 'numpy', 'google'} & set(sys.modules)\n"
        "sys.exit(', '.join(loaded) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "unilab_metrics", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == f"unilab-metrics {__version__}\n"
