"""How long a note stays, and the last picture of a run."""

from __future__ import annotations

from unilab_sidecar.looking.for_a_while import LINGER_S, LastPicture, PassingNote


def test_a_note_stays_until_its_time_and_is_then_taken_off_with_the_next_picture():
    note = PassingNote()
    note.say("saved", 10)

    assert note.words(9.9) == "saved"
    assert note.is_shown
    assert note.words(10) == ""
    assert not note.is_shown


def test_a_newer_note_takes_the_place_of_the_one_before():
    note = PassingNote()
    note.say("saved", 10)
    note.say("stopping", 12)

    assert note.words(11) == "stopping"

    note.say("", 20)
    assert not note.is_shown


def test_the_last_picture_stays_for_a_moment():
    last = LastPicture()

    assert not last.is_seen(5, has_ended=False)
    assert not last.is_seen(6, has_ended=True)
    assert not last.is_seen(6 + LINGER_S - 0.1, has_ended=True)
    assert last.is_seen(6 + LINGER_S, has_ended=True)


def test_a_run_that_goes_on_after_its_end_is_looked_at_again():
    last = LastPicture()

    assert not last.is_seen(6, has_ended=True)
    assert not last.is_seen(8, has_ended=False)
    assert not last.is_seen(10, has_ended=True)
    assert last.is_seen(10 + LINGER_S, has_ended=True)


def test_what_closes_says_so_and_counts_down():
    last = LastPicture(keep=lambda: None)

    assert last.words(5) == ""
    last.is_seen(6, has_ended=True)
    assert last.words(6) == "closes in 5 s · any key stays"
    assert last.words(6 + LINGER_S - 0.5) == "closes in 1 s · any key stays"
    assert last.words(6 + LINGER_S + 1) == "closes in 1 s · any key stays"


def test_a_key_keeps_it_once_and_for_good():
    told: list[int] = []
    last = LastPicture(keep=lambda: told.append(1))

    assert not last.heed_key(), "nothing closes yet"
    last.is_seen(6, has_ended=True)
    assert last.heed_key()
    assert not last.heed_key()
    assert told == [1]
    assert (last.words(7), last.is_closing) == ("", False)
    assert not last.is_seen(6 + 2 * LINGER_S, has_ended=True)


def test_nobody_keeps_what_closes_with_the_training():
    last = LastPicture()
    last.is_seen(6, has_ended=True)

    assert last.words(7) == "closes with the training"
    assert not last.heed_key()
    assert last.is_seen(6 + LINGER_S, has_ended=True)


def test_what_does_not_close_says_nothing():
    last = LastPicture(closes=False, keep=lambda: None)

    assert not last.is_seen(6 + LINGER_S, has_ended=True)
    assert not last.is_seen(6 + 2 * LINGER_S, has_ended=True)
    assert last.words(7) == ""
    assert not last.heed_key()
