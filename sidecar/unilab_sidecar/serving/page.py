"""The page of a view, and what is said instead of it. Pure.

Everything on it comes from the server itself: a cluster's node often reaches nothing else.
"""

from __future__ import annotations

from html import escape

FONT_PX = 16
_FONT_RANGE_PX = (6, 40)

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="preload" href="static/fonts/RobotoMono-VariableFont_wght.ttf" as="font" crossorigin>
<link rel="stylesheet" href="static/css/xterm.css">
<style>
@font-face {{
  font-family: "Roboto Mono"; font-weight: 100 700;
  src: url("static/fonts/RobotoMono-VariableFont_wght.ttf");
}}
html, body {{ margin: 0; height: 100%; background: #121212; overflow: hidden; }}
.textual-terminal {{ width: 100vw; height: 100vh; }}
.said {{
  position: absolute; inset: 0; z-index: 10; display: flex; flex-direction: column;
  align-items: center; justify-content: center; gap: 16px; padding: 16px; text-align: center;
  color: #e0e0e0; background: #121212; font: {font_px}px "Roboto Mono", monospace;
}}
.said button {{
  font: inherit; color: inherit; background: #333; border: 1px solid #777; padding: 8px 24px;
}}
#closed, body.-first-byte #opening {{ display: none; }}
body.-closed #closed {{ display: flex; }}
</style>
<script nonce="{nonce}">
history.replaceState(null, "", location.pathname);
document.addEventListener("DOMContentLoaded", () => {{
  const socket = new URL("ws/{tab}", location.href);
  socket.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  document.getElementById("terminal").dataset.sessionWebsocketUrl = socket.href;
  // Not before there is a connection, over which the focus is told.
  new MutationObserver((_, observer) => {{
    if (document.body.classList.contains("-first-byte")) {{
      observer.disconnect();
      document.querySelector(".xterm-helper-textarea")?.focus();
    }}
  }}).observe(document.body, {{ attributes: true }});
  new MutationObserver((_, observer) => {{
    if (document.body.classList.contains("-closed")) {{
      observer.disconnect();
      const said = document.getElementById("words");
      fetch("words/{tab}").then(answer => answer.text()).then(words => {{ said.textContent = words; }})
        .catch(() => {{ said.textContent = "unilab-metrics serve does not answer any more."; }});
    }}
  }}).observe(document.body, {{ attributes: true }});
  document.getElementById("reload").addEventListener("click", () => location.reload());
}});
</script>
<script src="static/js/textual.js"></script>
</head>
<body>
<div class="said" id="opening">Opening {title} …</div>
<div class="said" id="closed">
<div>The view of {title} is closed.</div>
<div id="words"></div>
<button type="button" id="reload">Open it again</button>
</div>
<div id="terminal" class="textual-terminal" data-font-size="{font_px}"></div>
</body>
</html>
"""


def page(title: str, nonce: str, tab: str, font_px: int = FONT_PX) -> str:
    """HTML of the page of a view. ``nonce``: of the policy, for its own script. ``tab``: what the
    server calls the view, in letters that an address may have."""
    low, high = _FONT_RANGE_PX
    size_px = min(max(font_px, low), high)
    return _PAGE.format(title=escape(title), nonce=nonce, tab=tab, font_px=size_px)


def policy(nonce: str, host: str) -> str:
    """The content security policy of the page. ``host``: as the browser called the server."""
    return (
        "default-src 'none'; font-src 'self'; img-src 'self' data:; "
        f"script-src 'self' 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; "
        f"connect-src 'self' ws://{host} wss://{host}; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
