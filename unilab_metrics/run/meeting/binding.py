"""Where a run's aggregator is to listen for other nodes."""

from __future__ import annotations

from collections.abc import Mapping

from unilab_metrics.config import BIND_VARIABLE
from unilab_metrics.errors import EndpointError
from unilab_metrics.run.meeting.ranks import spans_nodes
from unilab_metrics.transport.addresses import AUTOMATIC, parse_tcp

NONE = "none"


def resolve_bind(asked: str | None, environ: Mapping[str, str]) -> str:
    """The argument, else ``UNILAB_METRICS_BIND``, else ``auto`` for a job of several nodes.

    Empty: on this node only. Raises ``ValueError`` for what is no address.
    """
    bind = asked if asked is not None else environ.get(BIND_VARIABLE, "")
    if not bind:
        return AUTOMATIC if asked is None and spans_nodes(environ) else ""
    if bind == NONE:
        return ""
    if bind != AUTOMATIC:
        try:
            parse_tcp(bind)
        except EndpointError as error:
            name = "bind" if asked is not None else BIND_VARIABLE
            raise ValueError(f"{name}: {error}") from error
    return bind
