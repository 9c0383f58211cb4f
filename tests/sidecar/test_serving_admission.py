"""Who may use the server of a sidecar in a browser, and what its page asks for."""

from __future__ import annotations

import re

import pytest

from unilab_metrics.host_names import is_loopback
from unilab_sidecar.serving.admission import (
    NO_HOST,
    NO_TOKEN,
    OTHER_NAME,
    OTHER_PAGE,
    Asking,
    Door,
)
from unilab_sidecar.serving.page import page, policy

DOOR = Door("secret")
HOST = "127.0.0.1:8000"


@pytest.mark.parametrize("shown", [(), ("",), ("secre",), ("secretx",), ("Secret",), ("sécret",)])
def test_without_the_token_nobody_is_let_in(shown: tuple[str, ...]) -> None:
    assert DOOR.refusal(Asking(HOST, tokens=shown, is_page=True)) == NO_TOKEN
    assert DOOR.refusal(Asking(HOST, tokens=shown)) == NO_TOKEN


def test_the_token_lets_in_from_the_address_or_from_the_cookie() -> None:
    assert DOOR.refusal(Asking(HOST, tokens=("secret",))) == ""
    assert DOOR.refusal(Asking(HOST, tokens=("old", "secret"))) == ""


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
    ],
)
def test_a_name_of_somebody_else_that_resolves_here_is_refused(host: str) -> None:
    assert DOOR.refusal(Asking(host, tokens=("secret",))) == OTHER_NAME
    assert Door("").refusal(Asking(host)) == OTHER_NAME


@pytest.mark.parametrize(
    "host",
    ["", "[", "localhost:80; script-src *", "evil.com@127.0.0.1", "localhost:x", "localhost:123456",
     "localhost\n", "[::1", "[::1]x", "127.0.0.1/x", "127.0.0.1?", "localhost:\uff18", "a b"],
)  # fmt: skip
def test_what_is_no_host_gets_into_no_policy(host: str) -> None:
    assert DOOR.refusal(Asking(host, tokens=("secret",), is_page=True)) == NO_HOST


@pytest.mark.parametrize(
    "host",
    ["localhost:9000", "127.0.0.1", "[::1]:80", "10.0.0.5:8000", "LocalHost:1", "node7:80",
     "localhost.:80"],
)  # fmt: skip
def test_addresses_localhost_and_own_names_are_ours_on_any_port(host: str) -> None:
    assert Door("", frozenset({"node7"})).refusal(Asking(host)) == ""


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://127.0.0.1:9000",
        "file://",
        "http://[",
        f"ftp://{HOST}",
    ],
)
def test_a_page_of_another_address_is_refused_even_with_the_token(origin: str) -> None:
    assert DOOR.refusal(Asking(HOST, origin, tokens=("secret",))) == OTHER_PAGE
    assert Door("").refusal(Asking(HOST, origin, is_page=True)) == OTHER_PAGE


def test_the_own_page_may_ask_and_a_link_may_lead_to_it_but_to_nothing_behind_it() -> None:
    assert DOOR.refusal(Asking(HOST, f"http://{HOST}", "same-origin", ("secret",))) == ""
    assert DOOR.refusal(Asking(HOST, "", "cross-site", ("secret",), is_page=True)) == ""
    assert DOOR.refusal(Asking(HOST, "", "cross-site", ("secret",))) == OTHER_PAGE
    assert DOOR.refusal(Asking(HOST, "", "same-site", ("secret",))) == OTHER_PAGE


def test_loopback_is_what_only_this_machine_reaches() -> None:
    assert all(is_loopback(one) for one in ("127.0.0.1", "127.9.9.9", "::1", "localhost"))
    assert not any(is_loopback(one) for one in ("0.0.0.0", "::", "10.0.0.5", "node7", ""))


def test_the_page_asks_for_nothing_from_elsewhere_and_shows_a_name_literally() -> None:
    text = page("</title><script>alert(1)</script>'\"&", "n0nce", "ab12")
    assert "<script>alert" not in text
    assert not re.search(r"(?:href|src)\s*=\s*\"(?:https?:)?//|url\(\"(?:https?:)?//", text)
    assert "'unsafe-inline'" not in policy("n0nce", HOST).split("script-src")[1].split(";")[0]
