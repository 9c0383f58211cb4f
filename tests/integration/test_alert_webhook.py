"""The webhook against a server that answers, refuses, hangs or is not there."""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from webhook_server import WebhookServer, webhook_server

from unilab_metrics.aggregate.alerting import webhook as webhook_module
from unilab_metrics.aggregate.alerting.alerts import Alerts
from unilab_metrics.aggregate.alerting.webhook import MARK_FILE, Webhook
from unilab_metrics.aggregate.folding.alert_data import AlertData, OpenAlert
from unilab_metrics.aggregate.folding.run_data import RunData
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.folding.state import Publication
from unilab_metrics.aggregate.options import Options
from unilab_metrics.aggregate.receiving.peers import Peer
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_metrics.webhook_url import checked_url
from unilab_schema.frames import EventFrame
from unilab_schema.identity import LEARNER, Identity, SourceKey
from unilab_schema.known_names import NAMES
from unilab_schema.updates import EventUpdate


@pytest.fixture
def server() -> Iterator[WebhookServer]:
    with webhook_server() as made:
        yield made


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_module, "PAUSES_S", (0.01, 0.01))


def test_an_alert_is_delivered_again_until_the_server_takes_it(
    server: WebhookServer, tmp_path: Path
):
    server.answers = [500, 503]
    hook = Webhook(server.url, tmp_path)
    hook.send(7, {"id": "a-7"})
    deadline = time.monotonic() + 5
    while not hook.delivered_through and time.monotonic() < deadline:
        time.sleep(0.01)
    hook.close()
    assert [json.loads(data) for data in server.got] == [{"id": "a-7"}] * 3
    later = Webhook(server.url, tmp_path)
    later.close()
    assert later.delivered_through == 7


def test_failures_are_counted_and_never_name_the_url(server: WebhookServer, tmp_path: Path):
    server.answers = [500] * 9
    hook = Webhook(server.url, tmp_path)
    hook.send(7, {})
    deadline = time.monotonic() + 5
    while not hook.undelivered and time.monotonic() < deadline:
        time.sleep(0.01)
    assert hook.trouble == "alert webhook at 127.0.0.1: 1 not delivered (HTTP 500)"
    assert len(server.got) == 3
    hook.send(8, {})
    hook.send(9, {})
    hook.close()
    assert hook.undelivered >= 2


def test_a_server_that_hangs_holds_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # Only here: on a busy machine one that answers may take as long.
    monkeypatch.setattr(webhook_module, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(webhook_module, "CLOSE_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hook = Webhook(f"http://127.0.0.1:{silent.getsockname()[1]}/", tmp_path)
        began = time.monotonic()
        for n in range(200):
            hook.send(n, {})
        assert time.monotonic() - began < 0.5
        assert hook.undelivered >= 100
        hook.close()
        assert time.monotonic() - began < 3
        hook._thread.join(5)  # pyright: ignore[reportPrivateUsage]


def test_a_server_that_is_not_there_is_named_by_its_host_only(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    hook = Webhook(f"http://127.0.0.1:{port}/secret-path", tmp_path)
    hook.send(1, {})
    hook.close()
    hook._thread.join(5)  # pyright: ignore[reportPrivateUsage]
    assert hook.undelivered == 1
    assert "secret" not in hook.trouble


@pytest.mark.parametrize(
    "url", ["", "example.org", "ftp://a/", "http:///x", "http://a b/secret", "https://a:x/"]
)
def test_what_is_no_url_is_refused_without_being_repeated(url: str):
    with pytest.raises(ValueError, match="must be a URL") as error:
        checked_url(url)
    assert "secret" not in str(error.value)


def test_a_user_and_a_password_are_sent_as_a_header(server: WebhookServer, tmp_path: Path):
    url = server.url.replace("http://", "http://some%40one:p%3Aw@")
    hook = Webhook(checked_url(url), tmp_path)
    hook.send(7, {"id": "a-7"})
    hook.close()
    assert hook.trouble == ""
    assert len(server.got) == 1
    scheme, _, said = server.authorizations[0].partition(" ")
    assert (scheme, base64.b64decode(said)) == ("Basic", b"some@one:p:w")


def test_nothing_goes_where_the_server_sends_it(server: WebhookServer, tmp_path: Path):
    with webhook_server() as other:
        server.answers, server.elsewhere = [302] * 3, other.url
        hook = Webhook(server.url, tmp_path)
        hook.send(7, {"id": "a-7"})
        deadline = time.monotonic() + 5
        while not hook.undelivered and time.monotonic() < deadline:
            time.sleep(0.01)
        hook.close()
        assert hook.trouble.endswith("1 not delivered (HTTP 302)")
        assert not other.paths


def test_only_what_is_open_and_was_not_delivered_is_sent_again(
    server: WebhookServer, run_dir: Path
):
    bus_dir = bus_directory(run_dir)
    bus_dir.mkdir(parents=True, mode=0o700)
    (bus_dir / MARK_FILE).write_text('{"delivered_through": 5}')
    (bus_dir / MARK_FILE).chmod(0o600)
    data = RunData()
    data.alerts = AlertData(is_active=True)
    for sequence in (5, 6):
        data.alerts.open[sequence] = OpenAlert("rule", "", "a", f"text {sequence}", "warn", 3, 0)
    _alerts(data, server, run_dir).close()
    (body,) = (json.loads(one) for one in server.got)
    assert (body["id"], body["state"], body["text"]) == ("6a-6", "open", "text 6")


@pytest.mark.parametrize(
    "words",
    ["ended without close()", "was killed by SIGKILL", "has not been heard of for 60 s"],
)
def test_a_lost_source_is_named_however_it_went(server: WebhookServer, run_dir: Path, words: str):
    bus_directory(run_dir).mkdir(parents=True, mode=0o700)
    data = RunData()
    data.alerts = AlertData(is_active=True)
    identity = Identity(SourceKey(1, LEARNER), b"i" * 16, 42, "node7", "", "", "", 0, 0)
    source = SourceState(0, identity)
    data.sources.append(source)
    alerts = _alerts(data, server, run_dir)
    frame = EventFrame("lost", f"{source.name} {words}", 0, 0, 3, {})
    alerts._core.heed([Publication(9, EventUpdate(1, None, frame))])
    alerts.deliver()
    alerts.close()
    (body,) = (json.loads(one) for one in server.got)
    assert (body["rule"], body["subject"]) == ("lost_source", "learner of rank 1 (pid 42 on node7)")


def _alerts(data: RunData, server: WebhookServer, run_dir: Path) -> Alerts:
    data.alerts.rewards = list(NAMES["reward"])
    core = SimpleNamespace(
        state=SimpleNamespace(data=data),
        epoch=SimpleNamespace(journal=b"j"),
        journal=SimpleNamespace(has_uncommitted=False),
    )
    return Alerts(
        cast("Any", core),
        cast("Any", None),
        Options(alert_webhook=server.url),
        peer=lambda _: Peer(),
        run_dir=run_dir,
    )
