"""Whether images have an upright, so that it can be told, from their pixels alone, which way they were turned.

A letter has, a leaf on a table or a cell under a microscope has not. What has none may be turned by any angle, and
clusters should not care.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from gatcluster.data.augment import turned

# Turned by so much one way and the other. Both are resampled alike, so that only the direction can be told. Kinds that
# are directions themselves (stripes that lie, stand and slant) give themselves away at one of these angles.
_TURNS = (10.0, 22.5, 45.0)
_TOLD = 0.62  # share of right answers: by chance 0.5; letters, clothes, and photos of all sorts have 0.75 and more
_LEAST_IMAGES = 100  # of fewer, chance alone says too much
_SIDE = 32
_BLURS = 2
_THUMBNAIL = 6
_DIRECTIONS = 36
_DISC = 0.97  # of half the side: beyond it, a turned image shows what was not in it
_FOLDS = 5
_FAINT = 1e-3
_DECIMALS = 4  # of lightness; beyond them there is nothing but the rounding of the arithmetic


def has_no_upright(images: Tensor) -> bool:
    """Whether no one can tell which way grey images (n, 1, H, W) were turned."""
    return len(images) >= _LEAST_IMAGES and all(turn_is_told(images, turn) < _TOLD for turn in _TURNS)


def turn_is_told(images: Tensor, degrees: float) -> float:
    """How often a classifier tells images turned one way from the same turned the other way: 0.5 by guessing.

    It is asked about images that it was not trained on, either way.
    """
    views = [_looks(_calmly_turned(images, angle)) for angle in (-degrees, degrees)]
    answers, names = np.repeat([0, 1], len(images)), np.tile(np.arange(len(images)), 2)
    classifier = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=200))
    scores = cross_val_score(classifier, np.concatenate(views), answers, groups=names, cv=GroupKFold(_FOLDS))
    return float(scores.mean())


def _calmly_turned(images: Tensor, degrees: float) -> Tensor:
    """Images (n, 1, H, W) turned about their centre, blurred and at most 32x32: the grid of pixels must not show."""
    side = min(_SIDE, *images.shape[2:])
    small = torch.nn.functional.adaptive_avg_pool2d(images, side)
    for _ in range(_BLURS):
        small = torch.nn.functional.avg_pool2d(torch.nn.functional.pad(small, (1, 1, 1, 1), mode="replicate"), 3, 1)
    return turned(small, degrees, background_fill=False).round(decimals=_DECIMALS)


def _looks(images: Tensor) -> NDArray[np.float32]:
    """What tells directions, within the disc that no turn leaves: which way edges run, and what is where.

    Returns:
        (n, d).
    """
    place = torch.linspace(-1, 1, images.shape[2])
    disc = (place[:, None].square() + place.square() < _DISC**2).float()
    grey = images[:, 0]
    down = grey[:, 2:, 1:-1] - grey[:, :-2, 1:-1]
    across = grey[:, 1:-1, 2:] - grey[:, 1:-1, :-2]
    strength = (torch.hypot(down, across) * disc[1:-1, 1:-1]).flatten(1)
    position = (torch.atan2(down, across) % (2 * math.pi)).flatten(1) * (_DIRECTIONS / (2 * math.pi))
    below = position.floor()
    share = position - below
    edges = torch.zeros(len(images), _DIRECTIONS)  # each goes to the two directions that it lies between
    edges.scatter_add_(1, below.long() % _DIRECTIONS, (1 - share) * strength)
    edges.scatter_add_(1, (below.long() + 1) % _DIRECTIONS, share * strength)
    edges /= edges.sum(dim=1, keepdim=True).clamp_min(_FAINT)
    around_mean = (images - images.mean(dim=(2, 3), keepdim=True)) * disc
    thumbnail = torch.nn.functional.adaptive_avg_pool2d(around_mean, _THUMBNAIL).flatten(1)
    thumbnail /= thumbnail.std(dim=1, keepdim=True).clamp_min(_FAINT)
    return torch.cat([edges, thumbnail], dim=1).numpy()
