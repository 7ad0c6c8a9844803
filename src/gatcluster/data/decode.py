"""Decoding one image, or some, to one size and one number of channels.

Worker processes import this file and what it imports, and nothing else: neither torch nor, for most images, NumPy.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import IO, TYPE_CHECKING, NamedTuple

from PIL import Image, ImageOps

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gatcluster.choices import Resize
    from gatcluster.data.encoded import EncodedImages

# Pillow asks its formats in the order in which they were loaded: the common ones first, whoever loads the rest.
Image.preinit()

# Part of what a cache entry is known by: raise it whenever the same file gives other pixels than before.
DECODER_VERSION = 1

# Photographs are brought to this side unless the user says otherwise: what two CPU cores can learn from in minutes.
DEFAULT_SIDE = 64
# Images that are already all of one size, and not larger than this, keep it.
_LARGEST_NATURAL_SIDE = 96

_GREY_MODES = frozenset({"1", "L", "I", "F", "I;16", "I;16B", "I;16L", "LA"})
_ORIENTATION = 0x0112  # of EXIF; from 5 on the picture lies on its side
_LYING = 5


class Form(NamedTuple):
    """What images are decoded to."""

    size: tuple[int, int]  # height, width
    channels: int
    resize: Resize

    @property
    def image_bytes(self) -> int:
        """Bytes of one decoded image."""
        return self.size[0] * self.size[1] * self.channels


class Header(NamedTuple):
    """What an image says of itself before it is decoded."""

    size: tuple[int, int]  # height, width, upright
    grey: bool


class Failure(NamedTuple):
    """An image that could not be decoded."""

    position: int  # among the encoded images
    reason: str
    outside: bool  # the fault is not in the image but around it (no permission, not there), and may pass


class Chunk(NamedTuple):
    """Some decoded images."""

    pixels: bytes  # of every image, one after another; zeros where one failed
    failures: list[Failure]


def decode_chunk(encoded: EncodedImages, indices: range, form: Form) -> Chunk:
    """Decode the images of a range. Whatever one of them does, the others are decoded."""
    pixels: list[bytes] = []
    failures: list[Failure] = []
    for index in indices:
        try:
            with encoded.open(index) as file:
                pixels.append(_decoded(file, form).tobytes())
        except Exception as error:  # on a damaged file Pillow's decoders may raise anything
            pixels.append(bytes(form.image_bytes))
            outside = isinstance(error, OSError) and error.errno is not None
            failures.append(Failure(index, _reason(error), outside))
    return Chunk(b"".join(pixels), failures)


def read_headers(encoded: EncodedImages, indices: range) -> list[Header]:
    """The headers of the images of a range; those that cannot be read are left out."""
    headers: list[Header] = []
    for index in indices:
        try:
            with _strict_pillow(), encoded.open(index) as file, Image.open(file) as image:
                height, width = (image.width, image.height) if _lies(image) else (image.height, image.width)
                headers.append(Header((height, width), image.mode in _GREY_MODES))
        except Exception:
            continue  # named with its reason when it is decoded
    return headers


def natural_form(headers: Sequence[Header]) -> tuple[tuple[int, int], int]:
    """The size and the number of channels that suit a set of images, from their headers."""
    if not headers:
        return (DEFAULT_SIDE, DEFAULT_SIDE), 3
    channels = 1 if all(header.grey for header in headers) else 3
    first = headers[0].size
    if max(first) <= _LARGEST_NATURAL_SIDE and all(header.size == first for header in headers):
        return first, channels
    side = min(DEFAULT_SIDE, max(8, int(median(min(header.size) for header in headers))))
    return (side, side), channels


def decode(file: Path | IO[bytes], size: tuple[int, int], channels: int, resize: Resize) -> NDArray[np.uint8]:
    """One encoded image as (H, W, channels): upright, without transparency, at ``size``."""
    import numpy as np

    image = _decoded(file, Form(size, channels, resize))
    return np.frombuffer(image.tobytes(), dtype=np.uint8).reshape(*size, channels)


def _decoded(file: Path | IO[bytes], form: Form) -> Image.Image:
    height, width = form.size
    mode = "RGB" if form.channels == 3 else "L"
    with _strict_pillow(), Image.open(file) as opened:
        # A JPEG can be decoded at 1/2, 1/4 or 1/8: the least that is not smaller than what is wanted.
        opened.draft(mode, (height, width) if _lies(opened) else (width, height))
        return shaped(opened, form)


def shaped(image: Image.Image, form: Form) -> Image.Image:
    """An image upright, without transparency, in the mode and at the size of a form."""
    height, width = form.size
    if image.getexif().get(_ORIENTATION, 1) != 1:  # else this would only make a copy, as would what follows
        image = ImageOps.exif_transpose(image)
    image = _flattened(image, "RGB" if form.channels == 3 else "L")
    if image.size == (width, height):
        image.load()
        return image
    # Of the filters for reducing, Hamming's results are nearest to those of a JPEG decoded at reduced scale: images do
    # not differ in sharpness by how they came to their size.
    if form.resize == "crop":
        return ImageOps.fit(image, (width, height), Image.Resampling.HAMMING)
    return image.resize((width, height), Image.Resampling.HAMMING)


def _lies(image: Image.Image) -> bool:
    """Whether an opened image lies on its side. Only what the header says: a PNG would be decoded to find more."""
    return "exif" in image.info and int(image.getexif().get(_ORIENTATION, 1)) >= _LYING


@contextmanager
def _strict_pillow() -> Iterator[None]:
    """A decompression bomb is an error, not a warning; other warnings of Pillow do not concern a user."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _flattened(image: Image.Image, mode: str) -> Image.Image:
    """The image in ``mode`` ("L" or "RGB"): deep greys scaled to 8 bits, transparency laid over white."""
    if image.mode.startswith(("I", "F")):
        image = _eight_bits(image)
    if image.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return image if image.mode == mode else image.convert(mode)


def _eight_bits(image: Image.Image) -> Image.Image:
    """A grey image of 16 or 32 bits or of floats, with white at 1 (floats only), 255, 65535 or its lightest pixel.

    White is the least of these that no pixel exceeds; in 16-bit files always 65535.
    """
    import numpy as np

    values = np.nan_to_num(np.asarray(image, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    lightest = float(values.max())
    whites = [65535] if image.mode.startswith("I;16") else [1, 255, 65535] if image.mode == "F" else [255, 65535]
    white = next((white for white in whites if lightest <= white), lightest)
    return Image.fromarray((values.clip(0, None) * (255 / white)).round().astype(np.uint8))


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    if text.startswith("cannot identify image file"):
        return "not an image that can be decoded"
    return text or type(error).__name__
