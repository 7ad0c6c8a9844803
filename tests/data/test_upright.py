"""Which images have an upright: on drawings whose turns are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gatcluster.data.upright import has_no_upright, turn_is_told

RANDOM = np.random.default_rng(0)


def triangles(degrees: np.ndarray, side: int = 28) -> torch.Tensor:
    """White triangles on black, somewhere, of some size, each turned by its own angle: (n, 1, side, side)."""
    y, x = np.mgrid[:side, :side] - (side - 1) / 2
    images = np.empty((len(degrees), 1, side, side), np.float32)
    for image, turn in zip(images, np.radians(degrees), strict=True):
        radius = RANDOM.uniform(0.12, 0.2) * side
        left, up = RANDOM.uniform(-0.1, 0.1, 2) * side
        directions = turn + np.array([0, 2, 4]) * math.pi / 3
        outside = np.max([np.cos(d) * (x - left) + np.sin(d) * (y - up) - radius for d in directions], axis=0)
        image[0] = (0.5 - outside).clip(0, 1)
    return torch.from_numpy(images)


def stripes(degrees: np.ndarray, side: int = 32) -> torch.Tensor:
    """Waves that run in the given directions, (n, 1, side, side)."""
    y, x = np.mgrid[:side, :side]
    phases, turns = RANDOM.uniform(0, 2 * math.pi, (len(degrees), 1, 1)), np.radians(degrees)[:, None, None]
    waves = np.sin(0.8 * (x * np.cos(turns) + y * np.sin(turns)) + phases)
    return torch.from_numpy(waves[:, None].astype(np.float32) / 2 + 0.5)


@pytest.mark.parametrize("side", [28, 48])
def test_what_lies_any_way_has_no_upright(side):
    assert has_no_upright(triangles(RANDOM.uniform(0, 360, 400), side))


@pytest.mark.parametrize("side", [16, 28, 48])
def test_what_always_stands_the_same_way_has(side):
    assert not has_no_upright(triangles(RANDOM.normal(90, 8, 300), side))


def test_noise_and_flat_images_have_none():
    assert has_no_upright(torch.from_numpy(RANDOM.random((300, 1, 24, 24), dtype=np.float32)))
    assert has_no_upright(torch.full((300, 1, 24, 24), 0.5))


@pytest.mark.parametrize("n_directions", [1, 2, 3, 4])
def test_kinds_that_are_directions_are_not_taken_for_images_without_an_upright(n_directions):
    directions = 180 / n_directions * RANDOM.integers(0, n_directions, 400) + RANDOM.normal(0, 3, 400)
    assert not has_no_upright(stripes(directions))
    assert has_no_upright(stripes(RANDOM.uniform(0, 180, 400)))


def test_light_from_above_gives_the_upright_away():
    images = RANDOM.random((300, 1, 24, 24), dtype=np.float32) + np.linspace(0.5, 0, 24, dtype=np.float32)[:, None]
    assert turn_is_told(torch.from_numpy(images), 45) > 0.9


def test_images_of_other_shapes_are_judged_too():
    wide = torch.from_numpy(RANDOM.random((120, 1, 9, 40), dtype=np.float32))
    assert 0 <= turn_is_told(wide, 22.5) <= 1


def test_of_few_images_nothing_is_said():
    assert not has_no_upright(triangles(RANDOM.uniform(0, 360, 99)))
