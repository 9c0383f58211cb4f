"""Settings of a run that cannot be read keep it from being told who is at work, and are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from unilab_metrics.errors import ExitCode, UnreadSettingsError
from unilab_metrics.subscribe.abandoned import find_abandoned, look_for_abandoned


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    made = tmp_path / "bus" / "settings.json"
    made.parent.mkdir()
    made.write_bytes(b"{}")
    made.chmod(0o600)
    return made


def unread(settings: Path) -> UnreadSettingsError:
    run_dir = settings.parent.parent
    assert find_abandoned(run_dir) is None
    with pytest.raises(UnreadSettingsError, match=r"settings\.json: ") as error:
        look_for_abandoned(run_dir)
    assert error.value.exit_code == ExitCode.DAMAGED
    return error.value


def test_a_mode_that_lets_others_in_is_named_with_what_mends_it(settings: Path) -> None:
    settings.chmod(0o644)
    said = str(unread(settings))
    assert "mode 0644 lets others in" in said
    assert f"`chmod 600 {settings}`" in said


def test_damage_is_named_with_what_completes_the_run(settings: Path) -> None:
    settings.write_bytes(b'{"spools": 3}')
    said = str(unread(settings))
    assert "damaged: " in said
    assert f"`unilab-metrics recover {settings.parent.parent}`" in said
