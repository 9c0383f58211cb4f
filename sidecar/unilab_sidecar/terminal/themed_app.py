"""An app in the sidecar's colours: its themes, what the border says by its colour, and no colour at all
for those who wish none."""

from __future__ import annotations

from collections.abc import Sequence

from textual.filter import LineFilter

from unilab_sidecar.alerting.alerts import BORDERS, border
from unilab_sidecar.picture import Picture
from unilab_sidecar.terminal.colours import without_colour, without_grey
from unilab_sidecar.terminal.shared_terminal import SharedTerminalApp
from unilab_sidecar.terminal.themes import THEMES


class ThemedApp(SharedTerminalApp):
    """All methods belong to the main thread. ``has_no_colour``: somebody wishes none."""

    has_no_colour = False

    def get_line_filters(self) -> Sequence[LineFilter]:
        """With ``NO_COLOR`` no colour at all, where Textual would send shades of grey; an empty
        ``NO_COLOR`` takes none away."""
        usual = super().get_line_filters()
        return without_colour(usual) if self.has_no_colour else without_grey(usual)

    def know_themes(self) -> None:
        """To be called before one of them is chosen."""
        for one in THEMES:
            self.register_theme(one)

    def dress(self, picture: Picture, *, is_ansi: bool, unicode: bool) -> None:
        """The screen as the run stands. ``is_ansi``: in the terminal's own colours; ``unicode``:
        whether it shows more than ASCII."""
        shown = border(picture)
        for one in BORDERS:
            self.screen.set_class(one == shown, f"-{one}")
        self.screen.set_class(is_ansi, "-ansi")
        self.screen.set_class(not unicode, "-ascii")
