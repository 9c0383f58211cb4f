"""Size and channels of an encoded image, from its header; pure."""

from __future__ import annotations

import struct
from typing import NamedTuple

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}
_JPEG = b"\xff\xd8"
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE_MARKERS = frozenset({0x01, *range(0xD0, 0xD9)})


class ImageSize(NamedTuple):
    """Pixels and channels; zeros for a format that is neither PNG nor JPEG."""

    width: int = 0
    height: int = 0
    channels: int = 0


def image_size(data: bytes) -> ImageSize:
    """Reads the header only; damaged data gives zeros."""
    try:
        if data.startswith(_PNG):
            width, height, _depth, colour = struct.unpack_from(">IIBB", data, 16)
            return ImageSize(width, height, _PNG_CHANNELS.get(colour, 0))
        if data.startswith(_JPEG):
            return _jpeg_size(data)
    except (struct.error, IndexError):
        pass
    return ImageSize()


def _jpeg_size(data: bytes) -> ImageSize:
    position = 2
    while data[position] == 0xFF:
        marker = data[position + 1]
        if marker in _JPEG_FRAMES:
            _precision, height, width, channels = struct.unpack_from(">BHHB", data, position + 4)
            return ImageSize(width, height, channels)
        if marker == 0xFF:
            position += 1
        elif marker in _BARE_MARKERS:
            position += 2
        else:
            position += 2 + struct.unpack_from(">H", data, position + 2)[0]
    return ImageSize()
