"""What `auto` decides about images, from their pixels alone."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gatcluster.config import Augment
from gatcluster.data.augment import plain
from gatcluster.data.images import ImageSet

_SAMPLE = 500
# A glyph (a letter, a digit, a symbol, a silhouette) is ink on paper: this share of its pixels is paper.
_PAPER_SHARE = 0.3
_PAPER_TOLERANCE = 0.08
_COLOURLESS = 0.02


def choose_augment(images: ImageSet) -> Augment:
    """The kind of transformations that suit the images: "glyph" for ink on paper, else "photo".

    Ink on paper is colourless, and in most images a good part of the pixels has the lightness of the paper: the
    lightest or the darkest that the image has. Images of one row or column have nothing to transform: "none".
    """
    if min(images.size) == 1:
        return "none"
    sample = _sample(images)
    if images.channels not in (1, 3) or colourfulness(sample) > _COLOURLESS:
        return "photo"
    return "glyph" if float(paper_share(plain(sample, grey=True)).median()) > _PAPER_SHARE else "photo"


def colourfulness(images: Tensor) -> float:
    """Mean distance of the channels of images (n, C, H, W) from grey, 0 for grey images."""
    return float((images - images.mean(dim=1, keepdim=True)).abs().mean())


def paper_share(images: Tensor) -> Tensor:
    """The share of each grey image's pixels that is paper: grey images (n, 1, H, W) to (n,).

    Paper is what is about as light as the lightest pixel, or about as dark as the darkest, whichever is more.
    """
    flat = images.flatten(1)
    low, high = flat.min(dim=1, keepdim=True).values, flat.max(dim=1, keepdim=True).values
    reach = _PAPER_TOLERANCE * (high - low)
    dark, light = (flat <= low + reach).float().mean(dim=1), (flat >= high - reach).float().mean(dim=1)
    return torch.maximum(dark, light)


def _sample(images: ImageSet) -> Tensor:
    """Up to 500 images, evenly spaced."""
    return images.batch(np.unique(np.linspace(0, len(images) - 1, _SAMPLE).astype(np.int64)))
