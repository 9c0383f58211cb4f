"""Where a run listens for other nodes: argument, variable, launcher."""

from __future__ import annotations

import pytest

from unilab_metrics.run.meeting.binding import resolve_bind
from unilab_metrics.run.meeting.ranks import spans_nodes

SEVERAL = [
    {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"},
    {"GROUP_WORLD_SIZE": "2", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"},
    {"SLURM_NNODES": "4", "SLURM_PROCID": "0"},
    {"SLURM_STEP_NUM_NODES": "2"},
    {"OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"},
]
ONE = [
    {},
    {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"},
    {"WORLD_SIZE": "8"},
    {"WORLD_SIZE": "x", "LOCAL_WORLD_SIZE": "1"},
    {"SLURM_NNODES": "1", "WORLD_SIZE": "8"},
    {"SLURM_NNODES": "4", "SLURM_JOB_NAME": "bash"},
    {"OMPI_COMM_WORLD_SIZE": "8"},
]


@pytest.mark.parametrize("environ", SEVERAL, ids=str)
def test_a_job_of_several_nodes_listens_by_itself(environ: dict[str, str]) -> None:
    assert spans_nodes(environ)
    assert resolve_bind(None, environ) == "auto"
    assert resolve_bind("none", environ) == ""
    assert resolve_bind(None, {**environ, "UNILAB_METRICS_BIND": "none"}) == ""
    assert resolve_bind(None, {**environ, "UNILAB_METRICS_BIND": "tcp://*"}) == "tcp://*"


@pytest.mark.parametrize("environ", ONE, ids=str)
def test_anything_else_listens_on_its_node_only(environ: dict[str, str]) -> None:
    assert not spans_nodes(environ)
    assert resolve_bind(None, environ) == ""
    assert resolve_bind("tcp://10.0.0.5:7400", environ) == "tcp://10.0.0.5:7400"
    assert resolve_bind("auto", {**environ, "UNILAB_METRICS_BIND": "tcp://*"}) == "auto"


@pytest.mark.parametrize("text", ["10.0.0.5", "tcp://", "ipc:///x", "yes"])
def test_what_is_no_address_is_the_callers_error(text: str) -> None:
    with pytest.raises(ValueError, match="bind: "):
        resolve_bind(text, {})
    with pytest.raises(ValueError, match="UNILAB_METRICS_BIND: "):
        resolve_bind(None, {"UNILAB_METRICS_BIND": text})
