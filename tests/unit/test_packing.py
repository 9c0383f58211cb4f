"""The packed frame means what the encoded one means."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unilab_metrics.publish.packing import pack_iteration
from unilab_schema.codec import MAX_LAYOUTS, RecordKind, decode_payload
from unilab_schema.frames import IterationFrame

_steps = st.integers(0, 2**63 - 1)


@given(
    st.integers(0, MAX_LAYOUTS - 1),
    _steps,
    st.none() | _steps,
    _steps,
    _steps,
    st.binary(max_size=2000),
    st.booleans(),
    st.booleans(),
)
def test_a_packed_frame_decodes_to_what_was_given(
    layout: int,
    iteration: int,
    env_steps: int | None,
    mono_ns: int,
    unix_ns: int,
    values: bytes,
    more: bool,
    reduced: bool,
) -> None:
    packed = pack_iteration(mono_ns, unix_ns, layout, iteration, env_steps, values, more, reduced)
    assert decode_payload(RecordKind.ITERATION, packed) == IterationFrame(
        layout, iteration, env_steps, mono_ns, unix_ns, values, b"", more, reduced
    )
