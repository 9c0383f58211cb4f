"""Global rank and world size from a launcher's environment."""

from __future__ import annotations

import pytest

from unilab_metrics.run.meeting.ranks import is_single_node, resolve_place


def place(environ: dict[str, str], **arguments: int) -> tuple[int, int]:
    found = resolve_place(environ, **arguments)
    return found.rank, found.world_size


def test_no_environment_is_rank_0_of_1() -> None:
    found = resolve_place({})
    assert (found.rank, found.world_size, found.origin, found.doubt) == (0, 1, "none", "")


def test_arguments_beat_every_variable() -> None:
    environ = {"RANK": "1", "WORLD_SIZE": "4", "SLURM_PROCID": "2", "SLURM_NTASKS": "8"}
    assert place(environ, rank=3, world_size=6) == (3, 6)
    assert place(environ, rank=3) == (3, 4)
    assert place(environ, world_size=2) == (1, 2)


@pytest.mark.parametrize(("rank", "world_size"), [(2, 2), (-1, 2), (0, 0)])
def test_contradicting_arguments_are_the_callers_error(rank: int, world_size: int) -> None:
    with pytest.raises(ValueError, match="does not lie in a world"):
        resolve_place({}, rank=rank, world_size=world_size)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"RANK": "1", "WORLD_SIZE": "2"}, (1, 2)),
        ({"RANK": "1", "WORLD_SIZE": "2", "SLURM_PROCID": "5", "SLURM_NTASKS": "9"}, (1, 2)),
        ({"UNILAB_DP_RANK": "3", "UNILAB_DP_WORLD_SIZE": "4"}, (3, 4)),
        ({"SLURM_PROCID": "2", "SLURM_NTASKS": "4"}, (2, 4)),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "2"}, (1, 2)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"}, (1, 3)),
        ({"PMI_RANK": "1", "PMI_SIZE": "3"}, (1, 3)),
        ({"JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "3"}, (1, 3)),
    ],
)
def test_each_launchers_variables(environ: dict[str, str], expected: tuple[int, int]) -> None:
    assert place(environ) == expected


def test_the_parent_of_unilabs_ranks_is_rank_0_of_their_world() -> None:
    assert place({"UNILAB_DP_WORLD_SIZE": "4"}) == (0, 4)
    assert place({"RANK": "2", "UNILAB_DP_WORLD_SIZE": "4"}) == (2, 4)


def test_global_rank_is_not_what_the_node_rank_suggests() -> None:
    # Two nodes with two ranks each: exactly one rank 0.
    nodes = [
        {"RANK": str(2 * node + local), "LOCAL_RANK": str(local), "WORLD_SIZE": "4"}
        for node in (0, 1)
        for local in (0, 1)
    ]
    assert [place(environ) for environ in nodes] == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert place({"RANK": "1", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}) == (1, 2)
    assert place({"RANK": "0", "LOCAL_RANK": "3", "WORLD_SIZE": "8"}) == (0, 8)


@pytest.mark.parametrize(
    "environ",
    [
        {"LOCAL_RANK": "1"},
        {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"},
        {"LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"},
        {"LOCAL_RANK": "1", "WORLD_SIZE": "4", "SLURM_NNODES": "2"},
    ],
)
def test_a_local_rank_alone_never_counts_on_what_may_be_several_nodes(
    environ: dict[str, str],
) -> None:
    found = resolve_place(environ)
    assert (found.rank, found.world_size) == (0, 1)
    assert "LOCAL_RANK=1" in found.doubt


@pytest.mark.parametrize(
    "environ",
    [
        {"LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"},
        {"LOCAL_RANK": "1", "WORLD_SIZE": "2", "SLURM_NNODES": "1"},
        {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_WORLD_SIZE": "1"},
    ],
)
def test_a_local_rank_counts_where_one_node_is_proven(environ: dict[str, str]) -> None:
    assert is_single_node(environ)
    assert place(environ) == (1, 2)


@pytest.mark.parametrize("text", ["", "one", "-1", "7"])
def test_a_variable_that_is_no_rank_is_passed_over_and_named(text: str) -> None:
    found = resolve_place({"RANK": text, "WORLD_SIZE": "2", "PMI_RANK": "1", "PMI_SIZE": "2"})
    assert (found.rank, found.world_size, found.origin) == (1, 2, "PMI_RANK")
    assert f"RANK={text}" in found.doubt


def test_a_shell_in_a_slurm_allocation_is_alone() -> None:
    environ = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_NAME": "interactive"}
    assert place(environ) == (0, 1)
