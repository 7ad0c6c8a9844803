"""One picture of a clustering: a row for each cluster, its surest images from left to right."""

from __future__ import annotations

import io
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from gatcluster.data.images import ImageSet

_TILE: Final = 56  # side of a thumbnail, in pixels
_GAP: Final = 4
_MARGIN: Final = 96  # for the text at the left
_COLUMNS: Final = 12
_MOST_ROWS: Final = 100
_LAST_LINE: Final = 28  # height of the line that says how many clusters have no row
_PAPER: Final = (255, 255, 255)
_INK: Final = (40, 40, 40)
_FAINT: Final = (120, 120, 120)


def contact_sheet(images: ImageSet, label_features: NDArray[np.float32]) -> bytes:
    """A PNG with the surest images of every cluster.

    Args:
        images: N images.
        label_features: (N, k).
    """
    clusters, confidence = label_features.argmax(axis=1), label_features.max(axis=1)
    rows = min(label_features.shape[1], _MOST_ROWS)
    left_out = label_features.shape[1] - rows
    step = _TILE + _GAP
    height = rows * step + _GAP + (_LAST_LINE if left_out else 0)
    sheet = Image.new("RGB", (_MARGIN + _COLUMNS * step + _GAP, height), _PAPER)
    draw = ImageDraw.Draw(sheet)
    font, small = ImageFont.load_default(16), ImageFont.load_default(11)
    for cluster in range(rows):
        top = _GAP + cluster * step
        members = np.flatnonzero(clusters == cluster)
        draw.text((12, top + 10), f"cluster {cluster}", _INK, font)
        draw.text((12, top + 32), f"{len(members)} image{'' if len(members) == 1 else 's'}", _FAINT, small)
        surest = members[np.argsort(-confidence[members], kind="stable")][:_COLUMNS]
        for column, index in enumerate(surest):
            sheet.paste(_thumbnail(images, int(index)), (_MARGIN + column * step, top))
    if left_out:
        draw.text((12, rows * step + _GAP), f"and {left_out:,} more clusters", _INK, font)
    buffer = io.BytesIO()
    sheet.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def _thumbnail(images: ImageSet, index: int) -> Image.Image:
    """One image as RGB; small ones are enlarged smoothly, because shapes are easier to see than pixels."""
    pixels = images.batch(slice(index, index + 1))[0].clamp(0, 1).mul(255).byte().permute(1, 2, 0).numpy()
    picture = Image.fromarray(pixels[..., :3] if pixels.shape[2] >= 3 else pixels[..., 0]).convert("RGB")
    scale = _TILE / max(picture.size)
    filter_ = Image.Resampling.BICUBIC if scale > 1 else Image.Resampling.LANCZOS
    picture = picture.resize((max(1, round(picture.width * scale)), max(1, round(picture.height * scale))), filter_)
    tile = Image.new("RGB", (_TILE, _TILE), _PAPER)
    tile.paste(picture, ((_TILE - picture.width) // 2, (_TILE - picture.height) // 2))
    return tile
