"""The Textual app: keys in, a sheet of lines out, painted at a fixed 2 Hz.

What a key changes is decided in ``viewing``, what is on the screen in ``showing``; here is only
what needs a terminal, a thread or a file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.driver import Driver
from textual.events import Event, Key

from unilab_metrics.errors import ExitCode
from unilab_sidecar.alerting.alert_bell import AlertBell
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.feeding.feed import Feed
from unilab_sidecar.feeding.feed_thread import FeedThread
from unilab_sidecar.feeding.questions import StopQuestion
from unilab_sidecar.looking import showing
from unilab_sidecar.looking.first_picture import LOOK_S, FirstPicture
from unilab_sidecar.looking.for_a_while import LastPicture, PassingNote, ShownQuestion
from unilab_sidecar.looking.saved_view import KeptView
from unilab_sidecar.looking.scroll_places import ScrollPlaces
from unilab_sidecar.looking.viewing import ViewState, press
from unilab_sidecar.looking.watching import Watching
from unilab_sidecar.picture import Picture
from unilab_sidecar.progress.standing import last_words
from unilab_sidecar.terminal.colours import usual_theme, wants_no_colour
from unilab_sidecar.terminal.driver import TerminalDriver
from unilab_sidecar.terminal.snapshot import download, kept_snapshot
from unilab_sidecar.terminal.themed_app import ThemedApp
from unilab_sidecar.views.stopping import REFUSED
from unilab_sidecar.widgets.sheet import Sheet
from unilab_sidecar.widgets.title_bar import TitleBar

REPAINT_S = 0.5
NOTE_S = 4.0
LONG_NOTE_S = 12.0
NO_JOB = "Ctrl+Z stops nothing here · q close"
_NOTHING: Mapping[str, str] = MappingProxyType({})


class SidecarApp(ThemedApp):
    """Shows a run until it is closed. Reads only, unless it is given what stops the training.

    The result is the feed's failure if that is why the app closed, else ``None``.
    """

    CSS_PATH = Path(__file__).parent / "sidecar.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(
        self,
        feed: Feed,
        *,
        exit_with_run: bool = False,
        unicode: bool = True,
        theme: str = "",
        shows_cursor: bool = False,
        environ: Mapping[str, str] = _NOTHING,
        remembers: bool = False,
        driver: type[Driver] = TerminalDriver,
        stop: StopQuestion | None = None,
        rings: bool = False,
        keep: Callable[[], object] | None = None,
        thread: FeedThread | None = None,
    ) -> None:
        """``exit_with_run``: close a few seconds after the run has ended. ``unicode``: whether the
        terminal shows more than ASCII. ``theme``: one of ``viewing.THEMES``, else what fits the
        terminal. ``shows_cursor``: leave the terminal's cursor visible, for those who read with
        it. ``remembers``: begin with what this user looked at last, and keep it at the end.
        ``driver``: what it is shown on. ``stop``: what asks the training to stop; without it
        nobody here can. ``rings``: ring the bell when an alert opens. ``keep``: called when a key
        keeps the view open that would close with the run; without it none does. ``thread``: that of
        the feed, if it has begun; the app ends it."""
        self.has_no_colour = wants_no_colour(environ)
        super().__init__(driver_class=driver)
        self.know_themes()
        self._feed = feed
        self._unicode = unicode
        self.shows_cursor = shows_cursor
        self._environ = environ
        self._stop = stop
        self._bell = AlertBell() if rings else None
        self._state = ViewState(theme=usual_theme(environ))
        self._kept = KeptView(environ) if remembers else None
        self._state = self._kept.restored(self._state) if self._kept is not None else self._state
        if theme or self.has_no_colour:
            self._state = replace(self._state, theme=theme or "ansi")
        self.theme = self._first_theme = self._state.theme
        self._watching = Watching(feed.run_dir, feed.target)
        self._watching.choose(self._state.chart.tags)
        self._picture = Picture(target=feed.target)
        self._title_bar = TitleBar(unicode=unicode)
        self._sheet = Sheet()
        self._hint = ""
        self._note = PassingNote()
        self._question = ShownQuestion()
        self._scrolled = ScrollPlaces()
        self._unpainted: ViewState | None = None
        self._catching_up = self._is_far = self._is_unseen = False
        self._first_picture = FirstPicture()
        self._last_picture = LastPicture(closes=exit_with_run, keep=keep)
        self._thread = thread or FeedThread(feed)

    def compose(self) -> ComposeResult:
        """The title on the frame, and one sheet that fills the rest."""
        yield self._title_bar
        yield self._sheet

    def on_mount(self) -> None:
        """Starts the feed and the clock."""
        self.take_signals()
        self._sheet.focus()
        self._thread.begin()
        self.set_interval(REPAINT_S, self.tick)
        self.keep_cursor()
        self._paint()
        self._look_in(LOOK_S)

    def on_unmount(self) -> None:
        """Ends the feed; its thread is gone before the app returns."""
        self._feed.stop()
        if self._kept is not None:
            self._kept.keep(self._state, self._first_theme)
        self._thread.end()

    def on_resize(self) -> None:
        """Lays out again at once, not at the next tick."""
        self._paint()

    async def on_event(self, event: Event) -> None:
        """Every key goes to the view first; those without a meaning there scroll the sheet."""
        if isinstance(event, Key) and not event.is_forwarded and self._press(event):
            return
        await super().on_event(event)

    def tick(self, *, is_between: bool = False) -> None:
        """Takes what has come and shows it. ``is_between``: the next picture is not due yet."""
        self.look_at_terminal()
        is_paused = self._state.paused_unix_s is not None
        batches = self._feed.take()
        for batch in batches:
            if batch.failure is not None:
                self.exit(batch.failure, return_code=batch.failure.exit_code)
                return
            if batch.restarted:
                self._first_picture.begins_anew()
            self._watching.take(batch, is_paused=is_paused)
        if said := self._watching.newly_said():
            self._say(said, LONG_NOTE_S)
        self._is_far = batches[-1].far if batches else self._is_far
        self._is_unseen, is_first = self._is_unseen or bool(batches), False
        if self._is_unseen and (not is_between or (batches and not self._is_far)):
            self._watching.looked_at()
            is_first = self._first_picture.is_there(self._watching.newest.stage)
        if self._kept is not None:
            self._state = self._kept.of_run(self._state, self._watching.newest)
            self._watching.choose(self._state.chart.tags)
        for question in self._watching.questions(self._state, is_between=is_between):
            self._feed.ask(question)
        is_part = self._is_far or self._watching.is_loading or self._first_picture.is_awaited
        is_due = self._is_unseen or is_paused or self._note.is_shown
        is_due = is_due or self._last_picture.is_closing
        if is_first or ((batches and not is_part) if is_between else is_due):
            self._is_unseen = False
            self._paint()
        # What is read or asked for comes at full speed, not a part of it per picture.
        is_waiting = self._watching.is_waiting or self._is_far
        self._look_in(LOOK_S if is_waiting else self._first_picture.look_in_s(time.monotonic()))
        has_ended = self._watching.newest.ended is not None
        if self._last_picture.is_seen(time.monotonic(), has_ended=has_ended):
            self.exit(None)

    def _look_in(self, seconds: float | None) -> None:
        if seconds is not None and not self._catching_up:
            self._catching_up = True
            self.set_timer(seconds, self._catch_up)

    def _catch_up(self) -> None:
        self._catching_up = False
        self.tick(is_between=True)

    def _press(self, event: Key) -> bool:
        """Whether the key meant something. ``asked`` is done at once."""
        now = time.strftime("%H:%M:%S")
        context = showing.context(self._shown(), self._state, *self.size, now)
        is_read = self._question.is_read(event.time)
        context = context._replace(may_stop=self._stop is not None, is_read=is_read)
        state = press(self._state, event.key, context, event.character)
        if state.asked not in ("leave", "interrupted") and self._last_picture.heed_key():
            self._paint()
        if state is self._state:
            return False
        before, asked = self._state, state.asked
        self._state = state.answered()
        self._watching.choose(state.chart.tags)
        self._say("" if state.theme == before.theme else f"theme: {state.theme}")
        if asked == "leave":
            self.exit(None)
        elif asked == "interrupted":
            # So that a launcher can tell Ctrl+C from q.
            self.exit(None, return_code=ExitCode.INTERRUPTED)
        elif asked == "stop" and self._stop is not None:
            self._feed.ask(replace(self._stop))
        elif asked in REFUSED:
            self._say(REFUSED[asked], LONG_NOTE_S)
        elif asked == "put aside":
            self.action_put_aside()
        elif asked == "snapshot":
            self._save_snapshot()
        elif asked in ("slower", "faster"):
            self._feed.ask(self._watching.other_speed(faster=asked == "faster"))
        if (before.paused_unix_s is None) != (state.paused_unix_s is None):
            if self._watching.pace is not None:
                self._feed.ask(wish := self._watching.resume(state, before))
                self._look_in(self._first_picture.goes_to(wish.to))
            self._watching.pause(is_paused=state.paused_unix_s is not None)
        if not self._catching_up:
            for question in self._watching.questions(self._state):
                self._feed.ask(question)
                self._look_in(LOOK_S)
        if self._unpainted is None:
            # One picture for all keys that wait already: it is far dearer than what they change.
            self._unpainted = before
            self.call_later(self._paint_keys)
        return True

    def _paint_keys(self) -> None:
        if self._unpainted is not None:
            self._paint()

    def say_no_job(self) -> None:
        """What Ctrl+Z does to a training's own view."""
        self._say(NO_JOB)
        self._paint()

    def _say(self, note: str, seconds: float = NOTE_S) -> None:
        self._note.say(note, time.monotonic() + seconds)

    @property
    def last_words(self) -> str:
        """What holds of the run as it was shown last."""
        return last_words(self._picture)

    def _save_snapshot(self) -> None:
        self._paint_keys()
        svg = self.export_screenshot(title="unilab-metrics")
        if self.is_web:
            self.deliver_binary(**download(svg, self._state.view))
            words = "a picture goes to the browser's downloads"
        else:
            screen = self._screen()
            lines = [screen.title, "", *(plain(parts).rstrip() for parts in screen.lines), ""]
            words = kept_snapshot(svg, "\n".join(lines), self._state.view, self._environ)
        self._say(words, LONG_NOTE_S)

    def _shown(self) -> showing.Shown:
        seen = self._watching.seen(self._state)
        self._picture = seen.picture
        now_s = time.monotonic()
        note = self._last_picture.words(now_s) or self._note.words(now_s) or seen.problem
        return showing.Shown(
            seen.picture, seen.charts, seen.table, time.time(), self._unicode, note,
            seen.place, seen.moment_unix_s, self._watching.pace_words, seen.console,
            self._sheet.scroll_offset.y,
        )  # fmt: skip

    def _screen(self) -> showing.Screen:
        return showing.screen(self._shown(), self._state, *self.size)

    def _paint(self) -> None:
        before, self._unpainted = self._unpainted, None
        if before is not None:
            self.theme = self._state.theme
            self._sheet.go(self._scrolled.moved(before, self._state, self._sheet.scroll_offset.y))
        self._question.show(time.monotonic(), is_asked=self._state.stopping)
        screen = self._screen()
        if screen.hint != self._hint:
            self._hint = screen.hint
            self._sheet.border_subtitle = Content(screen.hint)
        self.dress(self._picture, is_ansi=self._state.theme == "ansi", unicode=self._unicode)
        if self._bell is not None and self._bell.heed(self._picture, time.monotonic()):
            self.bell()
        self._title_bar.show(screen.title)
        self._sheet.show(screen.lines)
