"""Options of every command that opens a sidecar: what it prints or how its screen looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from unilab_metrics.cli.finite import FiniteRange

_FLAGS = ("lines", "plain", "json", "once", "cursor", "bell", "allow-control")
_OF_TEXT = ("lines", "plain", "json", "once")
_VALUES = ("filter", "interval", "theme")
_OPTIONS = (
    click.option("--lines", is_flag=True, help="A line every few seconds instead of a screen."),
    click.option(
        "--plain",
        is_flag=True,
        help="A line `name value age` per metric, sorted, then of what changes: for screen "
        "readers, braille and pipes.",
    ),
    click.option("--json", is_flag=True, help="A JSON object per line."),
    click.option("--once", is_flag=True, help="The numbers of now, and end."),
    click.option(
        "--filter",
        metavar="TEXT",
        help="Only these metrics of --plain and --json: words, !not, /regex/.",
    ),
    click.option(
        "--interval", type=FiniteRange(0.1), metavar="S", help="Seconds between two lines."
    ),
    click.option(
        "--theme", metavar="NAME", help="Colours of the screen: dark, light, colour-blind or ansi."
    ),
    click.option(
        "--unicode/--no-unicode",
        default=None,
        help="More than ASCII on the screen; by default what the locale says.",
    ),
    click.option("--cursor", is_flag=True, help="Leave the terminal's cursor visible."),
    click.option("--bell", is_flag=True, help="Ring the terminal's bell when an alert opens."),
)


def look_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command these options; it takes them as ``**look``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def is_screen(look: Mapping[str, object]) -> bool:
    """Whether none of them asks for lines of text."""
    return not any(look.get(name) for name in _OF_TEXT)


def sidecar_options(look: Mapping[str, object]) -> list[str]:
    """The same for the sidecar's command line. Raises ``click.UsageError`` for what would do
    nothing."""
    if look.get("filter") and not (look.get("plain") or look.get("json")):
        raise click.UsageError("--filter goes with --plain or --json")
    options = [f"--{name}" for name in _FLAGS if look.get(name.replace("-", "_"))]
    options += [f"--{name}={look[name]}" for name in _VALUES if look.get(name) is not None]
    if (unicode := look.get("unicode")) is not None:
        options.append("--unicode" if unicode else "--no-unicode")
    return options
