"""What ``attach`` is told of the look is told to the sidecar, and the sidecar understands it."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from unilab_metrics.cli.looking import look_options, sidecar_options
from unilab_metrics.cli.replay import replay
from unilab_metrics.cli.watch import attach
from unilab_metrics.errors import RunNotFoundError
from unilab_sidecar.command_line import command_line
from unilab_sidecar.looking.viewing import THEMES
from unilab_sidecar.program import main


@click.command()
@look_options
def command(**look: object) -> None:
    """Says what it would hand over."""
    click.echo("\n".join(sidecar_options(look)))


def handed_over(*arguments: str) -> list[str]:
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    return done.output.split("\n")[:-1] if done.output.strip() else []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), {"form": None, "once": False, "unicode": None, "cursor": False, "theme": None}),
        (("--plain", "--once"), {"form": "plain", "once": True}),
        (("--json", "--interval", "2.5"), {"form": "json", "interval": 2.5}),
        (("--lines",), {"form": "lines"}),
        (("--plain", "--filter", "-x /a b/"), {"filter": "-x /a b/"}),
        (("--no-unicode", "--cursor"), {"unicode": False, "cursor": True}),
        (("--unicode",), {"unicode": True}),
        *((("--theme", theme), {"theme": theme}) for theme in THEMES),
    ],
)
def test_the_sidecar_is_told_what_was_asked(
    arguments: tuple[str, ...], expected: dict[str, object]
) -> None:
    options = vars(command_line().parse_args(["RUN", *handed_over(*arguments)]))
    assert {name: options[name] for name in expected} == expected


@pytest.mark.parametrize("form", [(), ("--once",), ("--lines",)])
def test_a_filter_that_would_do_nothing_is_refused(form: tuple[str, ...]) -> None:
    done = CliRunner().invoke(command, [*form, "--filter", "loss"])
    assert done.exit_code == 2
    assert "--filter goes with --plain or --json" in done.output


def test_only_of_a_live_run_somebody_may_ask_for_control(tmp_path: Path) -> None:
    where = str(tmp_path / "none")
    played = CliRunner().invoke(replay, [where, "--allow-control"])
    assert "No such option" in played.output
    attached = CliRunner().invoke(attach, [where, "--allow-control"])
    assert isinstance(attached.exception, RunNotFoundError)
    assert sidecar_options({"allow_control": True}) == ["--allow-control"]


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "0", "x"])
def test_seconds_that_are_none_are_refused_by_both(number: str) -> None:
    done = CliRunner().invoke(command, ["--plain", "--interval", number])
    assert done.exit_code == 2
    assert "--interval" in done.output
    for option in ("--interval", "--replay"):
        with pytest.raises(SystemExit) as refused:
            command_line().parse_args(["RUN", option, number])
        assert refused.value.code == 2


def test_a_speed_that_is_none_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(replay, [str(tmp_path), "--speed", "nan"])
    assert done.exit_code == 2
    assert "'nan' is no finite number" in done.output


@pytest.mark.parametrize("text", ["/(/", "loss !/a{99999}/"])
def test_a_filter_that_is_no_pattern_is_refused_with_why(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["RUN", "--plain", "--filter", text]) == 2
    assert f"unilab-metrics: --filter {text}: /" in capsys.readouterr().err
