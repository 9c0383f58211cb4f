"""A run directory of this machine whose name looks like one of another machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from unilab_metrics.subscribe.ssh.target import is_ssh_target
from unilab_sidecar.serving.keeper import hold_way


@pytest.mark.parametrize("name", ["cluster:run", "me@cluster:"])
def test_what_is_here_is_not_looked_for_over_ssh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_ssh_target(name)
    Path(name).mkdir()
    assert not is_ssh_target(name)
    assert hold_way(name) is None
