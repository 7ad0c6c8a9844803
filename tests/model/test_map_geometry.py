"""Where a feature map's positions lie in the image: checked by lighting one pixel after the other."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from gatcluster.model.backbones import lean_backbone, paper_backbone
from gatcluster.model.map_geometry import Axis, map_axes


def middle_of_what_is_seen(backbone: nn.Module, size: tuple[int, int], row: int, column: int) -> tuple[float, float]:
    """The middle of the pixels that the output at one position depends on, far from the border, by gradients."""
    backbone = backbone.double().eval()
    for module in backbone.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.constant_(module.weight, 1.0)
    # A maximum looks at one of its inputs only: an average of the same window looks at all of them.
    layers = [nn.AvgPool2d(m.kernel_size) if isinstance(m, nn.MaxPool2d) else m for m in backbone]
    image = torch.ones(1, 1, *size, dtype=torch.double, requires_grad=True)
    nn.Sequential(*layers)(image)[0, :, row, column].sum().backward()
    seen = image.grad[0, 0].numpy()
    rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    return (rows[0] + rows[-1] + 1) / 2, (columns[0] + columns[-1] + 1) / 2


@pytest.mark.parametrize(
    ("backbone", "size", "position"),
    [
        (lambda: paper_backbone("cifar10", 1, 4, (32, 32)), (32, 32), (2, 2)),
        (lambda: paper_backbone("cifar10", 1, 4, (48, 32)), (48, 32), (4, 2)),
        (lambda: paper_backbone("stl10", 1, 4, (96, 96)), (96, 96), (2, 3)),
        (lambda: paper_backbone("imagenet-dog", 1, 4, (96, 96)), (96, 96), (1, 2)),
        (lambda: lean_backbone(1, (64, 64), 4), (256, 256), (7, 8)),  # any size will do, if far from the border
        (lambda: lean_backbone(1, (20, 20), 4), (80, 80), (9, 10)),
    ],
)
def test_positions_lie_in_the_middle_of_what_they_see(backbone, size, position):
    built = backbone()
    places = [axis.first + axis.step * i for axis, i in zip(map_axes(built), position, strict=True)]
    assert places == pytest.approx(middle_of_what_is_seen(built, size, *position))


@pytest.mark.parametrize("size", [(8, 8), (28, 28), (32, 32), (64, 64), (96, 128), (1, 30)])
def test_padded_maps_cover_the_image_evenly(size):
    for axis, side in zip(map_axes(lean_backbone(1, size, 4)), size, strict=True):
        outer = axis.first + axis.step * (axis.length - 1)
        assert abs((axis.first + outer) / 2 - side / 2) <= 0.15 * side


def test_coordinates_and_pixels_are_inverse():
    axis = Axis(8.0, 4.0, 5)
    assert axis.pixels(np.array([0.0, 0.5, 1.0])).tolist() == [8, 16, 24]
    np.testing.assert_allclose(axis.coordinates(axis.pixels(np.linspace(0, 1, 7))), np.linspace(0, 1, 7))


def test_a_single_position_is_the_middle_from_everywhere():
    assert Axis(16.0, 8.0, 1).coordinates(np.array([0.0, 31.0])).tolist() == [0.5, 0.5]
