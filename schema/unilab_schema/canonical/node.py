"""What a node says of itself: processors, memory, GPUs, tags ``Node/<node>/…``.

``<node>`` is 0 for rank 0's node; a GPU is a further part, ``gpu<index>`` with NVML's index, or
``gpu<index>:<instance>`` for a slice of one. Where ``CUDA_VISIBLE_DEVICES`` names GPUs of a node
with several models by CUDA's numbers, and ``CUDA_DEVICE_ORDER`` is not ``PCI_BUS_ID``, nobody can
tell which these are, and all GPUs of the node are there; UUIDs are always exact. The aggregator
samples its node once a second and puts what is new into an update, so a training pays nothing for
it. The tags reach no backend. Nobody else may log them.
"""

from __future__ import annotations

from typing import NamedTuple

from unilab_schema.metric_spec import MetricSpec

NODE_PREFIX = "Node/"
CPU = "cpu_percent"
CPU_QUOTA = "cpu_quota_processors"
MEMORY_USED = "memory_used_bytes"
MEMORY_TOTAL = "memory_total_bytes"
GPU_UTIL = "util_percent"
TEMPERATURE = "temperature_c"
POWER = "power_w"


class NodeTag(NamedTuple):
    """``gpu``: empty for the node itself, else the GPU's index, ``0`` or ``0:1``."""

    node: int
    gpu: str
    figure: str


def node_tag(figure: str, *, gpu: str = "", node: int = 0) -> str:
    """The tag of a node's figure, or of one of its GPUs."""
    return f"{NODE_PREFIX}{node}/{f'gpu{gpu}/' if gpu else ''}{figure}"


def read_node_tag(tag: str) -> NodeTag | None:
    """What a tag of the family means, ``None`` for any other."""
    parts = tag.split("/")
    if parts[0] != NODE_PREFIX[:-1] or len(parts) not in (3, 4) or not parts[1].isdecimal():
        return None
    gpu = parts[2].removeprefix("gpu") if len(parts) == 4 else ""
    return NodeTag(int(parts[1]), gpu, parts[-1])


def _family(figure: str, unit: str, description: str) -> MetricSpec:
    return MetricSpec(
        f"{NODE_PREFIX}*/{figure}",
        "bus",
        unit,
        "rank0",
        description=description,
        persisted=False,
        logger_owned=True,
    )


NODE_FAMILIES: tuple[MetricSpec, ...] = (
    _family(
        CPU,
        "%",
        "Share of all processors of the node that is at work, or of the container's quota.",
    ),
    _family(
        CPU_QUOTA,
        "processors",
        "As much processor time as so many have is what the container may use; absent without a"
        " quota.",
    ),
    _family(
        MEMORY_USED,
        "bytes",
        "Memory in use: of the GPU, of the container where one limits it, else of the node.",
    ),
    _family(MEMORY_TOTAL, "bytes", "Memory of the GPU, the container's limit, or the node's."),
    _family(GPU_UTIL, "%", "Share of the last sampling period in which a kernel ran on the GPU."),
    _family(TEMPERATURE, "°C", "Temperature of the GPU."),
    _family(POWER, "W", "Power that the GPU draws."),
)
