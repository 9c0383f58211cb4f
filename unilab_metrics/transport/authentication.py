"""Who is let in: the answers to libzmq's questions (ZAP, RFC 27) about each new connection.

On TCP the key decides, by the allow-list, and only CURVE has keys. On ipc the uid decides:
the kernel says it, and it must be ours. :func:`judge` is pure; :class:`Authenticator` answers
from within its owner's loop, because a thread of its own would decide from another list than
the loop does.
"""

from __future__ import annotations

import os
import re
import time
from typing import NamedTuple

import zmq
from zmq.utils import z85

from unilab_metrics.transport.allow_list import NOBODY, PUBLISH, WATCH, AllowList, Use
from unilab_metrics.transport.refusals import Refusals
from unilab_metrics.transport.sockets import ANNOUNCE_DOMAIN, FETCH_DOMAIN, INGEST_DOMAIN

ZAP_ENDPOINT = "inproc://zeromq.zap.01"
IPC_USER = "ipc"
"""User id of messages that came over ipc; over TCP it is the public key."""
UNLISTED = "its key is not on the allow-list"
WATCHER_PUBLISHES = "its key is for watching, not for publishing"
PUBLISHER_WATCHES = "its key is for publishing, not for watching"
NO_KEY = "it has no key"
OTHER_USER = "it belongs to another user"
MALFORMED = "its request makes no sense"
_VERSION = b"1.0"
_MAX_ANSWERS = 256
"""Per call, so that a flood of connections cannot keep the loop from its work."""
_USES: dict[bytes, Use] = {INGEST_DOMAIN: PUBLISH, ANNOUNCE_DOMAIN: WATCH, FETCH_DOMAIN: WATCH}
_IPC_PEER = re.compile(r"(?:localhost)?:(\d+):\d*:(\d*)")
_SILENT_IPC_PEER = frozenset({"", "localhost"})


class Question(NamedTuple):
    """``address``: an IP address, or ``localhost:<uid>:<gid>:<pid>`` on ipc."""

    domain: bytes
    address: str
    mechanism: bytes
    credentials: tuple[bytes, ...]


class Verdict(NamedTuple):
    """``user``: whom the connection's messages come from. ``refusal``: why it is not let in,
    empty if it is."""

    user: str
    refusal: str = ""


def judge(question: Question, allowed: AllowList, own_uid: int) -> Verdict:
    """Whether a peer may have the connection that it asks for."""
    use = _USES.get(question.domain)
    if use is None:
        return Verdict("", MALFORMED)
    if question.mechanism == b"NULL":
        return _judge_ipc(question.address, own_uid)
    if question.mechanism != b"CURVE":
        return Verdict("", NO_KEY)
    if len(question.credentials) != 1 or len(question.credentials[0]) != 32:
        return Verdict("", MALFORMED)
    key = z85.encode(question.credentials[0]).decode("ascii")
    grant = allowed.grants.get(key)
    if grant is None:
        return Verdict(key, UNLISTED)
    if grant.use != use:
        return Verdict(key, WATCHER_PUBLISHES if use == PUBLISH else PUBLISHER_WATCHES)
    return Verdict(key)


def _judge_ipc(address: str, own_uid: int) -> Verdict:
    peer = _IPC_PEER.fullmatch(address)
    if peer is not None:
        return Verdict(IPC_USER, "" if int(peer[1]) == own_uid else OTHER_USER)
    # Where the system does not name a peer, the directory of mode 0700 has kept others out.
    return Verdict(IPC_USER, "" if address in _SILENT_IPC_PEER else NO_KEY)


class Authenticator:
    """Answers for every socket of a context; make it before the first of them is bound.

    Owned by one thread. ``allowed`` may be replaced at any time and counts for connections
    that come later; who is connected already is the business of the sockets' owner.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], refusals: Refusals) -> None:
        self.allowed = NOBODY
        self.refusals = refusals
        self.socket: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
        """To be polled together with others."""
        self.socket.set(zmq.LINGER, 0)
        self.socket.bind(ZAP_ENDPOINT)

    @property
    def is_asked(self) -> bool:
        """Whether somebody waits for an answer."""
        return bool(self.socket.poll(0))

    def answer(self) -> None:
        """Answer what has been asked; never waits."""
        for _ in range(_MAX_ANSWERS):
            try:
                parts = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._answer(parts)

    def may_publish(self, user: str, rank: int) -> bool:
        """Whether messages of this user may speak for a source of this rank, now."""
        if user == IPC_USER:
            return True
        grant = self.allowed.grants.get(user)
        return grant is not None and grant.covers(rank)

    def close(self) -> None:
        """Idempotent; close the sockets first."""
        self.socket.close(linger=0)

    def _answer(self, parts: list[bytes]) -> None:
        if len(parts) < 8 or parts[2] != _VERSION:
            return
        sender, _, _, request, domain, address, _, mechanism, *credentials = parts
        question = Question(
            domain, address.decode("utf-8", "replace"), mechanism, tuple(credentials)
        )
        verdict = judge(question, self.allowed, os.geteuid())
        if verdict.refusal:
            self.refusals.note(_peer(question), verdict.refusal, time.monotonic())
        code, text = (b"400", b"refused") if verdict.refusal else (b"200", b"")
        answer = [sender, b"", _VERSION, request, code, text, verdict.user.encode(), b""]
        self.socket.send_multipart(answer, zmq.NOBLOCK)


def _peer(question: Question) -> str:
    peer = _IPC_PEER.fullmatch(question.address)
    if peer is None:
        return f"{question.address} ({question.domain.decode(errors='replace')})"
    return f"uid {peer[1]}, pid {peer[2] or 'unknown'}"
