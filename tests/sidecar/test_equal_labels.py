"""Short names in a panel are told apart by what is before them, and only where they are alike."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from screen_text import text
from series_records import picture, update

from unilab_schema.metrics import CANONICAL
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.groups.grouping import Group, grouped
from unilab_sidecar.panels import metrics

_PANELS: tuple[tuple[Group, ...], ...] = (
    ("losses", "policy", "diagnostics", "ingress"),
    ("terms",),
)


def labels(*tags: str) -> dict[str, str]:
    return {one.tag: one.label for group in grouped(tags).values() for one in group}


def test_a_loss_and_a_state_of_one_name_are_whole_tags_and_their_neighbours_are_not():
    assert labels("Loss/alpha", "Policy/alpha", "Loss/critic", "Policy/beta") == {
        "Loss/alpha": "Loss/alpha",
        "Policy/alpha": "Policy/alpha",
        "Loss/critic": "Critic",
        "Policy/beta": "beta",
    }
    assert labels("Loss/alpha", "Policy/beta") == {"Loss/alpha": "alpha", "Policy/beta": "beta"}


def test_capitals_and_underscores_tell_no_names_apart():
    assert labels("Loss/entropy", "Policy/Entropy")["Loss/entropy"] == "Loss/entropy"
    assert labels("Policy/mean_std", "Loss/mean_std")["Policy/mean_std"] == "Policy/mean_std"


def test_terms_of_one_name_are_whole_tags():
    both = labels("reward/lin_vel", "Episode_Reward/lin_vel")
    assert both == {tag: tag for tag in both}
    assert labels("reward/lin_vel") == {"reward/lin_vel": "lin_vel"}


def test_no_canonical_name_is_like_another_in_its_panel():
    assert not [tag for tag, label in labels(*CANONICAL).items() if tag == label]


@given(
    st.sets(
        st.tuples(
            st.sampled_from(["Loss/", "Policy/", "Train/", "reward/", "Episode_Reward/", ""]),
            st.sampled_from(["alpha", "Alpha", "a_b", "A B", "entropy", "mean_std", "critic", "q"]),
        )
    )
)
def test_no_two_names_of_a_panel_are_alike(parts: set[tuple[str, str]]):
    groups = grouped(start + end for start, end in parts)
    for panel in _PANELS:
        shown = [one.label for one in chain.from_iterable(groups[group] for group in panel)]
        assert len({one.casefold() for one in shown}) == len(
            {one.tag.casefold() for group in panel for one in groups[group]}
        )


@pytest.mark.parametrize("width", range(20, 121))
def test_they_are_told_apart_at_every_width(width: int):
    values = {"Loss/alpha": 0.01, "Policy/alpha": 0.2, "Loss/critic": 1.0}
    shown = picture(update(1, values), update(2, values))
    for lines in (metrics.metrics(shown, width), metrics.with_courses(shown, width)):
        drawn = "\n".join(plain(one) for one in lines)
        for start, value in (("Loss/", "0.0100"), ("Polic", "0.2000")):
            assert not drawn or value in drawn
            assert not drawn or start in drawn
        assert "\nalpha" not in drawn


@pytest.mark.parametrize("columns", [80, 120, 160])
def test_a_screen_has_both(columns: int):
    shown = text(picture(update(1, {"Loss/alpha": 0.01, "Policy/alpha": 0.2})), columns)
    assert "Loss/alpha" in shown
    assert "Policy/alpha" in shown
