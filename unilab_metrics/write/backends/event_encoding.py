"""Items into serialized events, and marks in and out of them; owned by one thread.

Tags are written unchanged: blanks, brackets, a leading ``/``, ``..`` and the empty tag are
data here and never part of a path.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from unilab_metrics.write.backends import protos
from unilab_metrics.write.backends.images import image_size
from unilab_metrics.write.items import Histogram, Image, Item, Restart, Scalar, Scalars, Text
from unilab_metrics.write.position import Position, decode_position, encode_position

FILE_VERSION = "brain.Event:2"
_MARK_PREFIX = "u="
_TEXT_PLUGIN = "text"
_MAX_KEY_SETS = 256
_NS_PER_S = 1e9

_HistogramData = tuple[list[float], list[float], float, float, float, float, float]
_histogram_decoder = msgspec.msgpack.Decoder(_HistogramData)


class EventEncoder:
    """Keeps one event per key set and changes only its numbers."""

    def __init__(self) -> None:
        self._events: dict[tuple[str, ...], tuple[Any, list[Any]]] = {}
        self.refused = 0
        """Histograms whose data is no histogram."""

    def encode(self, item: Item) -> list[bytes]:
        """The serialized events of an item; none for one that is refused."""
        match item:
            case Scalars():
                return [self._scalars(item)]
            case Scalar():
                event, value = _event_of(item)
                (value.simple_value,) = _to_float32(np.array([item.value]))
                return [event.SerializeToString()]
            case Text():
                return [_text(item)]
            case Histogram():
                return self._histogram(item)
            case Image():
                return [_image(item)]
            case Restart():
                # TensorBoard's plugin reader takes the first START that it meets in a run for
                # the beginning of it and only later ones for restarts.
                return [_restart(item)] * 2

    def _scalars(self, item: Scalars) -> bytes:
        event, values = self._event(item.tags)
        event.wall_time = item.unix_ns / _NS_PER_S
        event.step = item.step
        for value, number in zip(values, _to_float32(item.values), strict=True):
            value.simple_value = number
        return event.SerializeToString()

    def _event(self, tags: tuple[str, ...]) -> tuple[Any, list[Any]]:
        reused = self._events.get(tags)
        if reused is None:
            if len(self._events) >= _MAX_KEY_SETS:
                self._events.clear()
            event = protos.Event()
            reused = self._events[tags] = event, [event.summary.value.add(tag=tag) for tag in tags]
        return reused

    def _histogram(self, item: Histogram) -> list[bytes]:
        try:
            limits, counts, low, high, total, number_sum, squares = _histogram_decoder.decode(
                item.data
            )
        except msgspec.MsgspecError:
            self.refused += 1
            return []
        event, value = _event_of(item)
        histogram = value.histo
        histogram.min = low
        histogram.max = high
        histogram.num = total
        histogram.sum = number_sum
        histogram.sum_squares = squares
        histogram.bucket_limit.extend(limits)
        histogram.bucket.extend(counts)
        return [event.SerializeToString()]


def file_version_event(unix_ns: int) -> bytes:
    """The first event of a file."""
    event = protos.Event()
    event.wall_time = unix_ns / _NS_PER_S
    event.file_version = FILE_VERSION
    return event.SerializeToString()


def mark_event(position: Position, unix_ns: int) -> bytes:
    """Everything up to the position lies before this event.

    A session log without a status, which readers pass over.
    """
    event = protos.Event()
    event.wall_time = unix_ns / _NS_PER_S
    event.step = position.step
    event.session_log.msg = f"{_MARK_PREFIX}{position.update}"
    event.session_log.checkpoint_path = encode_position(position)
    return event.SerializeToString()


def read_mark(data: bytes | memoryview) -> Position | None:
    """The position if this event is a mark of ours."""
    serialized = bytes(data)
    if _MARK_PREFIX.encode() not in serialized:
        return None
    event = protos.Event()
    try:
        event.ParseFromString(serialized)
        if not event.HasField("session_log") or event.session_log.status:
            return None
        if not event.session_log.msg.startswith(_MARK_PREFIX):
            return None
        return decode_position(event.session_log.checkpoint_path)
    except (protos.DecodeError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _event_of(item: Scalar | Text | Histogram | Image) -> tuple[Any, Any]:
    event = protos.Event()
    event.wall_time = item.unix_ns / _NS_PER_S
    event.step = item.step
    return event, event.summary.value.add(tag=item.tag)


def _text(item: Text) -> bytes:
    event, value = _event_of(item)
    value.metadata.plugin_data.plugin_name = _TEXT_PLUGIN
    value.tensor.dtype = protos.STRING_TENSOR
    value.tensor.tensor_shape.dim.add(size=1)
    value.tensor.string_val.append(item.text.encode("utf-8", errors="replace"))
    return event.SerializeToString()


def _image(item: Image) -> bytes:
    event, value = _event_of(item)
    size = image_size(item.data)
    value.image.width = size.width
    value.image.height = size.height
    value.image.colorspace = size.channels
    value.image.encoded_image_string = item.data
    return event.SerializeToString()


def _restart(item: Restart) -> bytes:
    event = protos.Event()
    event.wall_time = item.unix_ns / _NS_PER_S
    event.step = item.step
    event.session_log.status = protos.SESSION_START
    return event.SerializeToString()


def _to_float32(values: NDArray[np.float64]) -> list[float]:
    with np.errstate(over="ignore"):
        return values.astype(np.float32).tolist()
