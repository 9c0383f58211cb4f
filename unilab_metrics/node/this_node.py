"""The sampler of the node on which this process runs."""

from __future__ import annotations

from collections.abc import Mapping

from unilab_metrics.config import GPUS_VARIABLE
from unilab_metrics.node.gpus import GpuReader, NoGpuError
from unilab_metrics.node.processors import ProcessorReader
from unilab_metrics.node.sampler import NodeSampler

ORDER_VARIABLE = "CUDA_DEVICE_ORDER"
"""CUDA's own; helpers have it as the training does."""


def sample_this_node(environ: Mapping[str, str]) -> NodeSampler:
    """``environ``: of a helper, which says there what the training may see. Starts threads."""
    visible, order = environ.get(GPUS_VARIABLE), environ.get(ORDER_VARIABLE)
    return NodeSampler(
        [ProcessorReader, lambda: GpuReader(visible, order=order)],
        nothing=(ImportError, NoGpuError),
    )
