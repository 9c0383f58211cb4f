"""The Textual app: keys in, a sheet of lines out, painted at a fixed 2 Hz.

What a key changes is decided in ``viewing``, what is on the screen in ``showing``; here is only
what needs a terminal, a thread or a file.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.events import Event, Key
from textual.filter import LineFilter

from unilab_sidecar import showing
from unilab_sidecar.alerts import alerts
from unilab_sidecar.colours import WithoutColour, usual_theme, wants_no_colour
from unilab_sidecar.feed import Feed
from unilab_sidecar.picture import Picture
from unilab_sidecar.saved_view import Saved, load_saved, restored, save
from unilab_sidecar.shared_terminal import SharedTerminalApp
from unilab_sidecar.snapshot import shortened, write_snapshot
from unilab_sidecar.terminal_driver import TerminalDriver
from unilab_sidecar.text import plain
from unilab_sidecar.themes import THEMES
from unilab_sidecar.viewing import ViewState, press
from unilab_sidecar.watching import Watching
from unilab_sidecar.widgets.sheet import Sheet
from unilab_sidecar.widgets.title_bar import TitleBar

REPAINT_S = 0.5
CATCH_UP_S = 0.02
LINGER_S = 3.0
"""How long the last picture stays when the app closes with the run."""
NOTE_S = 4.0
SNAPSHOT_NOTE_S = 12.0
NO_JOB = "Ctrl+Z stops nothing here · q close"
_NOTHING: Mapping[str, str] = MappingProxyType({})


class SidecarApp(SharedTerminalApp):
    """Shows a run until it is closed. Reads only: nothing here can reach the training.

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
    ) -> None:
        """``exit_with_run``: close a few seconds after the run has ended. ``unicode``: whether the
        terminal shows more than ASCII. ``theme``: one of ``viewing.THEMES``, else what fits the
        terminal. ``shows_cursor``: leave the terminal's cursor visible, for those who read with
        it. ``remembers``: begin with what this user looked at last, and keep it at the end."""
        self._has_no_colour = wants_no_colour(environ)
        super().__init__(driver_class=TerminalDriver)
        for one in THEMES:
            self.register_theme(one)
        self._feed = feed
        self._exit_with_run = exit_with_run
        self._unicode = unicode
        self.shows_cursor = shows_cursor
        self._environ = environ
        self._remembers = remembers
        self._state = ViewState(theme=usual_theme(environ))
        self._saved = load_saved(environ) if remembers else Saved()
        self._state = restored(self._state, self._saved) if remembers else self._state
        if theme or self._has_no_colour:
            self._state = replace(self._state, theme=theme or "ansi")
        self.theme = self._first_theme = self._state.theme
        self._watching = Watching(feed.run_dir)
        self._watching.choose(self._state.chart.tags)
        self._picture = Picture()
        self._title_bar = TitleBar(unicode=unicode)
        self._sheet = Sheet()
        self._hint = ""
        self._note = ""
        self._noted_until_s = 0.0
        self._scrolled: dict[object, float] = {}
        self._catching_up = False
        self._ended_s: float | None = None
        self._thread = threading.Thread(target=feed.run, name="sidecar-feed", daemon=True)

    def compose(self) -> ComposeResult:
        """The title on the frame, and one sheet that fills the rest."""
        yield self._title_bar
        yield self._sheet

    def on_mount(self) -> None:
        """Starts the feed and the clock."""
        self.take_signals()
        self._sheet.focus()
        self._thread.start()
        self.set_interval(REPAINT_S, self.tick)
        self.keep_cursor()
        self._paint()

    def on_unmount(self) -> None:
        """Ends the feed; its thread is gone before the app returns."""
        self._feed.stop()
        if self._remembers:
            # A theme that only this terminal needs is nobody's choice.
            is_chosen = self._state.theme != self._first_theme
            theme = self._state.theme if is_chosen else self._saved.theme
            save(replace(self._state, theme=theme), self._environ)
        if self._thread.is_alive():
            self._thread.join(timeout=2.0)

    def on_resize(self) -> None:
        """Lays out again at once, not at the next tick."""
        self._paint()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """With ``NO_COLOR`` no colour at all, where Textual would send shades of grey; an empty
        ``NO_COLOR`` takes none away."""
        kept = [one for one in super().get_line_filters() if type(one).__name__ not in _GREY]
        return [*kept, WithoutColour()] if self._has_no_colour else kept

    async def on_event(self, event: Event) -> None:
        """Every key goes to the view first; those without a meaning there scroll the sheet."""
        if isinstance(event, Key) and not event.is_forwarded and self._press(event):
            return
        await super().on_event(event)

    def tick(self, *, is_between: bool = False) -> None:
        """Takes what has come since the last tick and repaints what it changed. ``is_between``: the
        next picture is not due yet."""
        self.look_at_terminal()
        is_paused = self._state.paused_unix_s is not None
        batches = self._feed.take()
        for batch in batches:
            if batch.failure is not None:
                self.exit(batch.failure, return_code=batch.failure.exit_code)
                return
            self._watching.take(batch, is_paused=is_paused)
        if batches:
            self._watching.looked_at()
        for question in self._watching.questions(self._state):
            self._feed.ask(question)
        if (batches or is_paused or self._note) and not (is_between and self._watching.is_loading):
            self._paint()
        if self._watching.is_waiting and not self._catching_up:
            # What is read or asked for comes at full speed, not a part of it per picture.
            self._catching_up = True
            self.set_timer(CATCH_UP_S, self._catch_up)
        self._close_with_run()

    def _catch_up(self) -> None:
        self._catching_up = False
        self.tick(is_between=True)

    def _press(self, event: Key) -> bool:
        """Whether the key meant something. ``asked`` is done at once."""
        columns, rows = self.size
        words = time.strftime("%H:%M:%S")
        context = showing.context(self._shown(), self._state, columns, rows, words)
        state = press(self._state, event.key, context, event.character)
        if state is self._state:
            return False
        before, asked = self._state, state.asked
        self._state = state.answered()
        self._watching.choose(state.chart.tags)
        if state.theme != before.theme:
            self.theme = state.theme
        self._say("")
        if asked == "leave":
            self.exit(None)
        elif asked == "put aside":
            self.action_put_aside()
        elif asked == "snapshot":
            self._save_snapshot()
        elif asked in ("slower", "faster"):
            self._feed.ask(self._watching.other_speed(faster=asked == "faster"))
        if (before.paused_unix_s is None) != (state.paused_unix_s is None):
            if self._watching.pace is not None:
                self._feed.ask(self._watching.resume(state, before))
            self._watching.pause(is_paused=state.paused_unix_s is not None)
        if not self._catching_up:
            for question in self._watching.questions(self._state):
                self._feed.ask(question)
                self._catching_up = True
                self.set_timer(CATCH_UP_S, self._catch_up)
        self._scroll(before)
        self._paint()
        return True

    def _scroll(self, before: ViewState) -> None:
        """Each view stays where it was scrolled to; what is filtered begins at its top."""
        old, new = _place(before), _place(self._state)
        if old != new:
            self._scrolled[old] = self._sheet.scroll_offset.y
            to = self._scrolled.get(new, 0.0) if isinstance(new, str) else 0.0
            self.call_after_refresh(self._sheet.scroll_to, y=to, animate=False)
        elif before.filter != self._state.filter or before.typing != self._state.typing:
            self._sheet.scroll_to(y=0, animate=False)

    def say_no_job(self) -> None:
        """What Ctrl+Z does to a training's own view."""
        self._say(NO_JOB)
        self._paint()

    def _say(self, note: str, seconds: float = NOTE_S) -> None:
        self._note, self._noted_until_s = note, time.monotonic() + seconds

    def _save_snapshot(self) -> None:
        screen = self._screen()
        text = "\n".join([screen.title, "", *(plain(parts).rstrip() for parts in screen.lines), ""])
        try:
            svg = self.export_screenshot(title="unilab-metrics")
            path = write_snapshot(svg, text, self._state.view, self._environ)
        except OSError as error:
            self._say(f"not saved: {error.strerror or error}", SNAPSHOT_NOTE_S)
        else:
            self._say(f"saved {shortened(path)} and .txt", SNAPSHOT_NOTE_S)

    def _shown(self) -> showing.Shown:
        seen = self._watching.seen(self._state)
        self._picture = seen.picture
        if self._note and time.monotonic() >= self._noted_until_s:
            self._note = ""
        return showing.Shown(
            seen.picture,
            seen.charts,
            seen.table,
            time.time(),
            self._unicode,
            self._note or seen.problem,
            seen.place,
            seen.moment_unix_s,
            self._watching.pace_words,
        )

    def _screen(self) -> showing.Screen:
        return showing.screen(self._shown(), self._state, *self.size)

    def _paint(self) -> None:
        screen = self._screen()
        if screen.hint != self._hint:
            self._hint = screen.hint
            self._sheet.border_subtitle = Content(screen.hint)
        troubled = any(alert.style == "bad" for alert in alerts(self._picture))
        is_complete = self._picture.ended == "completed"
        self.screen.set_class(is_complete, "-ended")
        self.screen.set_class(troubled and not is_complete, "-trouble")
        self.screen.set_class(self._state.theme == "ansi", "-ansi")
        self.screen.set_class(not self._unicode, "-ascii")
        self._title_bar.show(screen.title)
        self._sheet.show(screen.lines)

    def _close_with_run(self) -> None:
        if not self._exit_with_run:
            return
        if self._watching.newest.ended is None:
            self._ended_s = None
        elif self._ended_s is None:
            self._ended_s = time.monotonic()
        elif time.monotonic() - self._ended_s >= LINGER_S:
            self.exit(None)


_GREY = frozenset({"Monochrome", "NoColor"})


def _place(state: ViewState) -> object:
    """What the sheet shows; the list of commands and the help always begin at their top."""
    if state.palette is not None or state.help:
        return (state.help, state.palette is not None)
    return f"{state.view} {state.focus if state.zoomed else ''}"
