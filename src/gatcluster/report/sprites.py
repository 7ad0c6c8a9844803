"""Thumbnails of all images, many to a file, so that a page with 60,000 of them loads only those that are seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, features

from gatcluster.data.images import ImageSet

_MOST_SIDE: Final = 96  # of a thumbnail, in pixels
_SHEET_SIDE: Final = 1024
_MOST_COLUMNS: Final = 16
_LOSSLESS_SIDE: Final = 16  # compression with losses would show in pictures of so few pixels
_QUALITY: Final = 90
_PIXELS_AT_ONCE: Final = 1 << 22  # read from the images at a time
_BLANK: Final = 128

OnDone = Callable[[int, int], None]


@dataclass(frozen=True)
class Sheets:
    """How thumbnails lie on sheets: row by row, ``columns * rows`` on each."""

    tile_width: int
    tile_height: int
    columns: int
    rows: int
    count: int  # of sheets
    suffix: str

    def as_json(self) -> dict[str, Any]:
        """The layout as plain data."""
        return asdict(self)


def sheets_for(images: ImageSet) -> Sheets:
    """A layout for the thumbnails of these images."""
    height, width = images.size
    scale = min(1.0, _MOST_SIDE / max(height, width))
    tile_width, tile_height = max(1, round(width * scale)), max(1, round(height * scale))
    columns = min(_MOST_COLUMNS, max(1, _SHEET_SIDE // tile_width))
    rows = min(_MOST_COLUMNS, max(1, _SHEET_SIDE // tile_height))
    suffix = "webp" if features.check("webp") else "png"
    return Sheets(tile_width, tile_height, columns, rows, suffix=suffix, count=0)


def write_sheets(folder: Path, images: ImageSet, order: NDArray[np.int64], on_done: OnDone | None = None) -> Sheets:
    """Write the thumbnails of images in an order of one's choice; ``0.webp``, ``1.webp`` and so on.

    Args:
        folder: where to; it is there.
        images: all images.
        order: (n,), indices into the images; -1 leaves a blank.
        on_done: called with (thumbnails written, thumbnails in all).
    """
    layout = sheets_for(images)
    per_sheet = layout.columns * layout.rows
    count = -(-len(order) // per_sheet)
    for number in range(count):
        chosen = order[number * per_sheet : (number + 1) * per_sheet]
        _save(_sheet(images, chosen, layout), folder / f"{number}.{layout.suffix}", layout)
        if on_done is not None:
            on_done(min((number + 1) * per_sheet, len(order)), len(order))
    return Sheets(**{**layout.as_json(), "count": count})


def _sheet(images: ImageSet, chosen: NDArray[np.int64], layout: Sheets) -> Image.Image:
    used_rows = -(-len(chosen) // layout.columns)
    mode = "L" if images.channels < 3 else "RGB"
    sheet = Image.new(mode, (layout.columns * layout.tile_width, used_rows * layout.tile_height), (_BLANK,) * len(mode))
    for place, picture in zip(np.flatnonzero(chosen >= 0), _pictures(images, chosen[chosen >= 0]), strict=True):
        if picture.size != (layout.tile_width, layout.tile_height):
            picture = picture.resize((layout.tile_width, layout.tile_height), Image.Resampling.LANCZOS)
        row, column = divmod(int(place), layout.columns)
        sheet.paste(picture, (column * layout.tile_width, row * layout.tile_height))
    return sheet


def _pictures(images: ImageSet, chosen: NDArray[np.int64]) -> Iterator[Image.Image]:
    """Images one by one, read in batches that bound the memory, whatever their size."""
    at_once = max(1, _PIXELS_AT_ONCE // (images.size[0] * images.size[1]))
    for start in range(0, len(chosen), at_once):
        batch = images.batch(chosen[start : start + at_once])  # (n, C, H, W)
        pixels = batch.clamp(0, 1).mul(255).round().byte().permute(0, 2, 3, 1).numpy()
        for picture in pixels:
            yield Image.fromarray(np.ascontiguousarray(picture[..., :3] if picture.shape[2] >= 3 else picture[..., 0]))


def _save(sheet: Image.Image, path: Path, layout: Sheets) -> None:
    if layout.suffix == "png":
        sheet.save(path, optimize=True)
    elif max(layout.tile_width, layout.tile_height) <= _LOSSLESS_SIDE:
        sheet.save(path, lossless=True)
    else:
        sheet.save(path, quality=_QUALITY, method=2)
