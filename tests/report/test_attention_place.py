"""Attention is where the object is: on drawn images with one bright object on noise, at a random place in each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from gatcluster import GATCluster
from gatcluster.model.inference import attention_gaussians
from gatcluster.model.map_geometry import map_axes
from gatcluster.prepare import read_like
from gatcluster.report.overlay import attention_centres, attention_over_image

SIDE, OBJECT = 16, 6


class Drawn(NamedTuple):
    images: np.ndarray  # (n, 16, 16), in [0, 1]
    corners: np.ndarray  # (n, 2): top and left of the square around each object


def draw(n: int, seed: int) -> Drawn:
    """A bright disc, cross or frame of 6x6 pixels on dark noise."""
    random = np.random.default_rng(seed)
    images = random.random((n, SIDE, SIDE)).astype(np.float32) * 0.35
    corners = random.integers(0, SIDE - OBJECT + 1, (n, 2))
    away = np.abs(np.mgrid[:OBJECT, :OBJECT] - (OBJECT - 1) / 2)  # rows and columns from the middle
    shapes = [np.hypot(*away) <= 2.7, away.min(axis=0) <= 1, away.max(axis=0) >= 1.5]
    for image, (top, left), shape in zip(images, corners, random.integers(0, len(shapes), n), strict=True):
        mask = shapes[shape]
        image[top : top + OBJECT, left : left + OBJECT][mask] = 0.85 + 0.15 * random.random(mask.sum())
    return Drawn(images, corners)


def share_inside(centres: np.ndarray, drawn: Drawn) -> float:
    """How often the centre, in pixels, lies in the square around the object."""
    return float(((centres >= drawn.corners) & (centres <= drawn.corners + OBJECT)).all(axis=1).mean())


def best_fixed_place(drawn: Drawn) -> float:
    """How often the best of all fixed places would be inside: at least as often as the middle of the image."""
    places = [(y, x) for y in np.arange(0.5, SIDE) for x in np.arange(0.5, SIDE)] + [(SIDE / 2, SIDE / 2)]
    return max(share_inside(np.array([place]), drawn) for place in places)


@pytest.fixture(scope="module")
def model() -> GATCluster:
    return GATCluster(3, epochs=80, random_state=0).fit(draw(200, seed=0).images)


def gaussians_of(model: GATCluster, drawn: Drawn) -> np.ndarray:
    images = read_like(drawn.images, model.settings_.images)
    return attention_gaussians(model.network_, images, model.settings_)


def test_the_centre_of_attention_lies_in_the_object(model):
    new = draw(300, seed=1)
    centres = attention_centres(gaussians_of(model, new), map_axes(model.network_.backbone))
    assert share_inside(centres, new) > best_fixed_place(new) + 0.25


def test_the_overlay_is_brighter_on_the_object_than_beside_it(model):
    new = draw(300, seed=2)
    axes = map_axes(model.network_.backbone)
    maps = attention_over_image(gaussians_of(model, new), axes, (SIDE, SIDE), model.network_.attention_head.alpha)
    rows, columns = np.mgrid[:SIDE, :SIDE][:, None]  # (1, 16, 16) each
    top, left = new.corners.T[:, :, None, None]
    inside = (rows >= top) & (rows < top + OBJECT) & (columns >= left) & (columns < left + OBJECT)
    share = (maps * inside).sum(axis=(1, 2)) / maps.sum(axis=(1, 2))
    middle = attention_over_image(np.array([[0.5, 0.5, 0.5]]), axes, (SIDE, SIDE), model.network_.attention_head.alpha)
    share_of_middle = (middle * inside).sum(axis=(1, 2)) / middle.sum()
    assert share.mean() > 1.3 * share_of_middle.mean()
