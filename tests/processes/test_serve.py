"""``unilab-metrics serve``: the sidecar in a real browser, and who is kept out."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from headless_browser import browsing, chromium
from real_runs import start, until

TRAINING = """
import sys, time
import unilab_metrics as um
from pathlib import Path
with um.init(algorithm="sac", task="cart_reach", run_dir=sys.argv[1]) as publisher:
    iteration = 0
    while not Path(sys.argv[2]).exists():
        publisher.log({"Loss/actor": 1.0, "Train/mean_reward": iteration * 0.1}, iteration=iteration)
        iteration += 1
        time.sleep(0.05)
"""


WORDS = "document.getElementById('words').innerText"


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "unilab_metrics", "serve", *arguments]
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert server.stdout is not None
    assert server.stderr is not None
    try:
        yield server, server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
        server.stderr.close()


def tabs(server: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(server.pid).children(recursive=True)


def answer(url: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)
    try:
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read().decode("utf-8", "replace")
    finally:
        connection.close()


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.mark.slow
def test_without_token_or_from_elsewhere_every_route_is_refused(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    (run_dir / "bus").mkdir(parents=True)
    with serving(str(run_dir)) as (server, url):
        query = "?" + urlsplit(url).query
        paths = ("/", "/ws/x", "/static/js/textual.js", "/words/x", "/nothing", "/?token=no")
        for path in (*paths, "/download/x"):
            for headers in ({}, UPGRADE):
                status, text = answer(url, path, headers)
                assert status == 403
                assert "token" in text
                assert str(run_dir) not in text
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            assert answer(url, "/" + query, headers)[0] == 403
            assert answer(url, "/ws/x" + query, headers | UPGRADE)[0] == 403
            assert answer(url, "/download/x" + query, headers)[0] == 403
        assert answer(url, "/" + query)[0] == 200
        assert answer(url, "/download/x" + query)[0] == 404
        assert answer(url, "/static/../../../etc/passwd" + query)[0] in (403, 404)
        assert tabs(server) == []
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 130
        assert server.stdout is not None
        assert "goes on" not in server.stdout.read(), "the run may have ended long ago"


@pytest.mark.slow
def test_a_browser_shows_the_run_and_nothing_is_left_after(tmp_path: Path) -> None:
    chromium()
    stop, bait = tmp_path / "stop", tmp_path / "bait"
    run_dir = tmp_path / f'it\'s; touch {bait.name} $(touch {bait.name}) "x" & y'
    training = start(TRAINING, str(run_dir), str(stop))
    try:
        until((run_dir / "bus" / "bus.json").exists)
        with (
            serving(str(run_dir), "--sessions", "2") as (server, url),
            browsing(tmp_path / "profile") as browser,
        ):
            page = browser.page()
            page.open(url)
            page.until_shown("Rewards")
            page.until_shown("cart_reach")
            assert page.evaluate("document.title").endswith(run_dir.name)
            assert "token" not in page.evaluate("location.href")
            assert is_picture(page.picture())
            assert all(
                one.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:"))
                for one in page.asked
            )
            assert page.failed == []
            page.type("3")
            page.until_shown("Values ─")
            page.resize(600, 500)
            page.until(lambda: "╮" in page.screen.partition("\n")[0][:80], "a narrow frame")
            other = browser.page()
            other.open(url)
            other.until_shown("Rewards")
            until(lambda: len(tabs(server)) == 2)
            assert answer(url, "/?" + urlsplit(url).query)[0] == 503
            other.close()
            until(lambda: len(tabs(server)) == 1)
            page.type("q")
            page.until(
                lambda: page.evaluate("document.body.classList.contains('-closed')"), "its end"
            )
            page.until(lambda: page.evaluate(WORDS) == "The training goes on.", "its last words")
            until(lambda: not tabs(server))
            page.evaluate("document.getElementById('reload').click()")
            until(lambda: (browser.hear(0.1), len(tabs(server)) == 1)[1])
            left = tabs(server)
            server.send_signal(signal.SIGKILL)
            until(lambda: not any(one.is_running() for one in left))
        assert training.poll() is None, "the training goes on"
        assert not bait.exists()
        assert not Path(bait.name).exists()
    finally:
        stop.touch()
        training.communicate(timeout=60)


@pytest.mark.slow
def test_a_mouse_moves_the_view_and_a_picture_of_it_is_downloaded(tmp_path: Path) -> None:
    chromium()
    stop = tmp_path / "stop"
    training = start(TRAINING, str(tmp_path / "run"), str(stop))
    try:
        until((tmp_path / "run" / "bus" / "bus.json").exists)
        with (
            serving(str(tmp_path / "run")) as (server, url),
            browsing(tmp_path / "profile") as browser,
        ):
            downloads = tmp_path / "downloads"
            downloads.mkdir()
            browser.call(
                "Browser.setDownloadBehavior",
                {"behavior": "allow", "downloadPath": str(downloads)},
            )
            page = browser.page()
            page.resize(720, 300)
            page.open(url)
            page.until_shown("elapsed")
            page.turn_wheel(300, 150, 4000)
            page.until(lambda: "elapsed" not in page.screen, "the lower end")
            page.turn_wheel(300, 150, -4000)
            page.until_shown("elapsed")
            page.click(300, 150)
            page.type("s")
            page.until_shown("a picture goes to the browser")
            page.until(lambda: list(downloads.glob("*_overview.svg")), "the picture")
            (picture,) = downloads.glob("*_overview.svg")
            assert "elapsed" in picture.read_text()
            assert page.failed == []
            left = tabs(server)
            assert len(left) == 1
            stop.touch()
            training.communicate(timeout=60)
            page.until_shown("run ended")
            page.type("q")
            page.until(lambda: page.evaluate(WORDS) == "The run has ended: completed.", "the end")
            page.open(url)
            page.until_shown("run ended")
            left += tabs(server)
            server.send_signal(signal.SIGINT)
            assert server.wait(60) == 130
            until(lambda: not any(one.is_running() for one in left))
    finally:
        stop.touch()
        training.kill()
        training.communicate()


def is_picture(png: bytes) -> bool:
    """Whether there is more than one colour in it: the pixels of one colour shrink to nothing."""
    data, at = b"", 8
    while at < len(png):
        size, kind = int.from_bytes(png[at : at + 4], "big"), png[at + 4 : at + 8]
        data += png[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += size + 12
    return png.startswith(b"\x89PNG") and len(set(zlib.decompress(data))) > 20


def serve(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unilab_metrics", "serve", *arguments]
    environ = {**os.environ, **(env or {})}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=environ
    )


def test_without_a_token_it_listens_on_loopback_only(tmp_path: Path) -> None:
    done = serve(str(tmp_path), "--host", "0.0.0.0", "--no-token")
    assert done.returncode == 2
    assert "--exposed-without-token" in done.stderr


def test_without_textual_serve_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "run" / "bus").mkdir(parents=True)
    code = (
        "import sys, importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'textual_serve' else find(name, *more)\n"
        "sys.argv = ['unilab-metrics', 'serve', sys.argv[1]]\n"
        "from unilab_metrics.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "pip install 'unilab-metrics[serve]'" in done.stderr


def test_what_the_views_would_refuse_is_refused_before_there_are_any(tmp_path: Path) -> None:
    (tmp_path / "run" / "bus").mkdir(parents=True)
    done = serve(str(tmp_path / "run"), "--theme", "nonsense")
    assert done.returncode == 2
    assert "invalid choice: 'nonsense'" in done.stderr
    assert not done.stdout


def test_control_is_not_to_be_had_through_a_browser(tmp_path: Path) -> None:
    done = serve(str(tmp_path), "--allow-control")
    assert done.returncode == 2
    assert "No such option" in done.stderr
