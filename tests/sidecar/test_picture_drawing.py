"""A saved picture looks the same wherever it is opened."""

from __future__ import annotations

import re

from sample_run import whole_run
from still_sidecar import drive, words

from unilab_sidecar.terminal.picture_drawing import drawn

HEAD = "<style>.t-matrix { font-family: Fira Code, monospace; }.t-r1 { fill: #7aa2f7 }</style>"


def text(content: str, x: float = 0.0) -> str:
    return f'<text class="t-r1" x="{x:g}" y="20" textLength="12.2" clip-path="url(#c)">{content}</text>'


def test_a_bar_is_one_box_without_gaps_between_its_cells():
    made = drawn(HEAD + text("████", 12.2))
    assert "<text" not in made
    assert 'd="M12.2 1.5h48.8v24.4h-48.8z"' in made
    assert 'class="t-r1"' in made


def test_a_low_bar_stands_on_the_base_of_its_cell():
    assert 'd="M0 22.85h12.2v3.05h-12.2z"' in drawn(HEAD + text("▁"))
    assert 'd="M0 1.5h6.1v24.4h-6.1z"' in drawn(HEAD + text("▌"))


def test_frames_are_lines_in_the_colour_of_their_text():
    made = drawn(HEAD + text("╭──"))
    assert 'stroke="#7aa2f7"' in made
    assert "M12.2 13.7h24.4" in made
    assert "Q6.1 13.7 12.2 13.7" in made
    assert "<text" not in made


def test_each_braille_dot_has_its_place():
    made = drawn(HEAD + text("⡁"))
    assert re.findall(r"M([\d.]+) ([\d.]+)h0", made) == [("3.05", "4.55"), ("3.05", "22.85")]
    assert len(re.findall("h0", drawn(HEAD + text("⣿⣿")))) == 16


def test_words_stay_words_and_stand_where_their_cells_are():
    made = drawn(HEAD + text("&#160;Loss&#160;&#160;&#160;─&#160;4.10&#160;\n", 122))
    assert words(made) == ["Loss", "4.10"]
    found = re.findall(r'x="([\d.]+)" y="20" textLength="([\d.]+)"', made)
    assert found == [("134.2", "48.8"), ("244", "48.8")]


def test_wide_characters_do_not_move_what_follows_them():
    made = drawn(HEAD + text("奖励&lt;&amp;x"))
    assert re.findall(r'x="([\d.]+)" y="20" textLength="([\d.]+)"', made) == [
        ("0", "24.4"), ("24.4", "24.4"), ("48.8", "36.6"),
    ]  # fmt: skip
    assert words(made) == ["奖", "励", "<&x"]


def test_nothing_comes_from_the_network_and_every_word_is_kept():
    pictures: list[str] = []

    async def look(app, pilot):  # type: ignore[no-untyped-def]
        pictures.append(app.export_screenshot(title="unilab-metrics"))

    drive(whole_run(60)[1], look, size=(80, 24))
    made = drawn(pictures[0])
    assert "@font-face" not in made
    assert "https://cdn" not in made
    assert "monospace" in made
    said = " ".join(" ".join(words(made)).split())
    for word in ("Losses and policy", "Collector Wait", "Mean", "Iter Wall"):
        assert word in said


def test_what_is_no_picture_of_ours_stays_as_it_is():
    assert drawn("<svg><text>█</text></svg>") == "<svg><text>█</text></svg>"
