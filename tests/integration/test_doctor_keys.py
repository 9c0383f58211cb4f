"""``doctor`` says which key does not fit, and what makes it fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from cut_off_run import open_run_directory, whole_run

from unilab_metrics.cli.root import commands
from unilab_metrics.transport import keys, rendezvous
from unilab_metrics.transport.allow_list import PUBLISH, WATCH
from unilab_metrics.transport.rendezvous import ConnectionFile, bus_directory


@pytest.fixture
def bus(run_dir: Path) -> Path:
    whole_run(run_dir, 2)
    keys.prepare_keys(bus_directory(run_dir))
    return bus_directory(run_dir)


def findings(bus: Path, level: str = "error") -> list[str]:
    done = CliRunner().invoke(commands, ["doctor", str(bus.parent), "--json"])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    secret = (
        json.loads((bus / "keys" / "publish.key").read_text())["secret"] if _is_whole(bus) else 0
    )
    assert str(secret) not in done.output or not secret
    found = json.loads(done.output)["findings"]
    return [
        f"{finding['finding']} -> {finding['fix']}"
        for finding in found
        if finding["subject"] == "keys" and finding["level"] == level
    ]


def _is_whole(bus: Path) -> bool:
    try:
        keys.read_client(keys.key_path(bus, PUBLISH), PUBLISH)
    except keys.KeyFileError:
        return False
    return True


def change(path: Path, **fields: str | int) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_keys_that_fit_are_well(bus: Path) -> None:
    assert findings(bus) == []
    assert any("1 key may publish, 1 may watch" in text for text in findings(bus, "ok"))


@pytest.mark.parametrize("name", ["server.key", "publish.key", "watch.key"])
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda p: p.write_bytes(p.read_bytes()[:40]), "is no key file"),
        (lambda p: p.write_bytes(b"\xff\xfe"), "is no key file"),
        (lambda p: change(p, public="x" * 40), "holds two keys that are no pair"),
        (lambda p: change(p, public="short"), "is no key file"),
        (lambda p: change(p, version=9), "is of version 9"),
    ],
)
def test_a_key_file_that_cannot_be_used_is_named_with_what_to_do(
    bus: Path, name: str, damage: Callable[[Path], object], said: str
) -> None:
    path = bus / "keys" / name
    damage(path)
    (found,) = findings(bus)
    assert found.startswith(f"{path}: {said}")
    assert f"-> rm {path}   (the next aggregator makes" in found


def test_a_pair_of_another_server_key_opens_nothing(bus: Path, run_dir: Path) -> None:
    path = keys.key_path(bus, WATCH)
    change(path, server="x" * 40)
    (found,) = findings(bus)
    assert found.startswith(f"{path} is of another server key than server.key")
    assert f"rm {path}" in found


@pytest.mark.parametrize("left", ["nothing", "the other use", "a broken comment"])
def test_a_list_without_the_runs_own_key_is_named_with_the_line_to_add(
    bus: Path, left: str
) -> None:
    own = keys.read_client(keys.key_path(bus, PUBLISH), PUBLISH).public
    path = keys.allowed_path(bus)
    line = next(line for line in path.read_text().splitlines() if own in line)
    instead = {
        "nothing": "",
        "the other use": line.replace("publish", "watch", 1),
        "a broken comment": f"# publish {own[:-4]}",
    }[left]
    path.write_text(path.read_text().replace(line, instead))
    (found,) = findings(bus)
    assert found == (
        f"{path} does not let the run's own publish.key in -> add the line: publish {own}"
    )


@pytest.mark.parametrize("mark", ["#", "# ", "  ## "])
def test_a_line_that_is_a_comment_is_a_revocation_and_no_error(bus: Path, mark: str) -> None:
    own = keys.read_client(keys.key_path(bus, WATCH), WATCH).public
    path = keys.allowed_path(bus)
    line = next(line for line in path.read_text().splitlines() if own in line)
    other = "x" * 40
    path.write_text(path.read_text().replace(line, f"{mark}{line}\n# publish {other} ranks=3"))
    assert findings(bus) == findings(bus, "warning") == []
    ours, others = findings(bus, "info")
    assert ours.startswith(f"{path}: the run's own watch.key is revoked: its line is a comment")
    assert others == f"{path}: 1 key is revoked: a comment now -> None"
    done = CliRunner().invoke(commands, ["doctor", str(bus.parent)])
    assert "info     keys       " in done.output
    # As a line again it is let in, whatever the comment says.
    path.write_text(f"{path.read_text()}\n{line}\n")
    assert findings(bus, "info") == [f"{path}: 1 key is revoked: a comment now -> None"]


def test_a_list_that_makes_no_sense_or_is_missing_is_named(bus: Path) -> None:
    path = keys.allowed_path(bus)
    path.write_text(f"{path.read_text()}\nadmit everybody\n")
    assert any("begins with neither publish nor watch" in t for t in findings(bus, "warning"))
    path.write_bytes(b"\xff")
    assert [text.partition(" ->")[0] for text in findings(bus)] == [f"{path}: is no text"]
    path.unlink()
    (found,) = findings(bus)
    assert found.startswith(f"{path}: there is no such key file -> without the list nobody")
    assert "add the line: publish " in found


def test_a_connection_file_with_a_server_key_of_before_is_stale(bus: Path) -> None:
    file = ConnectionFile(
        run_dir=str(bus.parent), journal="", pid=1, started_unix_ns=1, boot_id="b", host="here",
        ingest="ipc:///x.in", announce="ipc:///x.out", fetch="ipc:///x.ask",
        server_key=keys.read_server(bus).public,
    )  # fmt: skip
    rendezvous.write(bus, file)
    assert findings(bus) == []
    rendezvous.write(bus, msgspec.structs.replace(file, server_key="x" * 40))
    (found,) = findings(bus)
    assert found.startswith("bus.json names another server key than ")
    assert found.endswith("-> the next aggregator writes another bus.json")


def test_a_run_without_keys_needs_none(run_dir: Path) -> None:
    open_run_directory(run_dir)
    assert findings(bus_directory(run_dir)) == []
