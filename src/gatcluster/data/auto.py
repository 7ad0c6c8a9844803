"""What `auto` decides about images, from their pixels alone."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from gatcluster.choices import Augment
from gatcluster.data.augment import apply_affine, backgrounds, plain
from gatcluster.data.images import ImageSet

_SAMPLE = 2000
# A glyph (a letter, a digit, a symbol, a silhouette) is ink on paper: this share of its pixels is paper.
_PAPER_SHARE = 0.3
_PAPER_TOLERANCE = 0.08
_COLOURLESS = 0.02

_TURN = math.radians(10)
_THUMBNAIL = 16
# From this ratio on a turned image is foreign to its set; it takes this much less for it to be entirely at home.
_FOREIGN = 1.35
_FOREIGN_SPAN = 0.15
_NEAREST = 5


def choose_augment(images: ImageSet) -> Augment:
    """The kind of transformations that suit the images: "glyph" for ink on paper, else "photo".

    Ink on paper is colourless, and in most images a good part of the pixels has the lightness of the paper: the
    lightest or the darkest that the image has. Images of one row or column have nothing to transform: "none".
    """
    if min(images.size) == 1:
        return "none"
    if images.channels not in (1, 3) or not is_colourless(images):
        return "photo"
    return "glyph" if float(paper_share(plain(_sample(images), grey=True)).median()) > _PAPER_SHARE else "photo"


def is_colourless(images: ImageSet) -> bool:
    """Whether the channels of images are all but the same."""
    return colourfulness(_sample(images)) <= _COLOURLESS


def choose_geometry(images: ImageSet, kind: Augment) -> float:
    """How far glyphs may be moved and turned, relative to the most that suits any: 0.25 to 1.

    Where an image that is turned by ten degrees is much farther from all other images than it was before (clothes,
    always upright), turning is not something to be blind to. Photos are not judged: they differ too much from each
    other for distances of pixels to mean anything.
    """
    if kind != "glyph":
        return 1.0
    foreignness = turn_foreignness(plain(_sample(images), grey=True))
    return float(np.clip((_FOREIGN - foreignness) / _FOREIGN_SPAN, 0.25, 1.0))


def turn_foreignness(images: Tensor) -> float:
    """How much farther from its set a grey image (n, 1, H, W) is once it is turned by ten degrees: a ratio."""
    upright = _thumbnails(images, 0.0)  # (n, d)
    own = _distance_to_others(upright, upright)
    turned = [_distance_to_others(_thumbnails(images, angle), upright) for angle in (-_TURN, _TURN)]
    return float(sum((distance / own).median() for distance in turned) / 2)


def _thumbnails(images: Tensor, angle: float) -> Tensor:
    """Images turned by an angle, made small, as unit vectors (n, d)."""
    cos, sin = math.cos(angle), math.sin(angle)
    matrices = images.new_tensor([[cos, -sin, 0], [sin, cos, 0]]).expand(len(images), 2, 3)
    turned = apply_affine(images, matrices, background_fill=True) - backgrounds(images)
    small = torch.nn.functional.adaptive_avg_pool2d(
        turned, (min(_THUMBNAIL, images.shape[2]), min(_THUMBNAIL, images.shape[3]))
    )
    return torch.nn.functional.normalize(small.flatten(1), dim=1)


def _distance_to_others(images: Tensor, others: Tensor) -> Tensor:
    """Distance of each image to its fifth nearest among the others, (n,); the nearest may be a duplicate."""
    cosines = images @ others.T
    cosines.fill_diagonal_(-1)
    nearest = cosines.topk(min(_NEAREST, len(others)), dim=1).values[:, -1]
    return (2 - 2 * nearest).clamp_min(1e-6).sqrt()


def mean_lightness(images: ImageSet) -> float:
    """The mean over all pixels and channels of a sample."""
    return float(_sample(images).mean())


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
    """Up to 2,000 images, evenly spaced."""
    return images.batch(np.unique(np.linspace(0, len(images) - 1, _SAMPLE).astype(np.int64)))
