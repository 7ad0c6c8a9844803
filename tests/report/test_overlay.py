"""The attention over its image: the values that weighted the features, at the places that they weighted."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gatcluster.model.attention import gaussian_attention_map
from gatcluster.model.backbones import lean_backbone, paper_backbone
from gatcluster.model.map_geometry import Axis, map_axes
from gatcluster.report.overlay import attention_centres, attention_over_image

GAUSSIANS = np.array([[0.2, 0.9, 0.7], [0.5, 0.5, 0.3]], np.float32)


def test_has_the_networks_values_at_the_middles_of_the_maps_positions():
    axes = (Axis(8.5, 4.0, 5), Axis(7.5, 4.0, 6))  # on pixels, so that the drawing has exactly these places
    drawn = attention_over_image(GAUSSIANS, axes, (32, 36), alpha=0.05)
    mu, delta = torch.from_numpy(GAUSSIANS[:, :2]), torch.from_numpy(GAUSSIANS[:, 2])
    expected = gaussian_attention_map(mu, delta, 5, 6, alpha=0.05).numpy()
    np.testing.assert_allclose(drawn[:, 8:28:4][:, :, 7:31:4], expected, rtol=1e-4)


@pytest.mark.parametrize("shown", [None, (64, 64), (50, 90)])
def test_the_strongest_pixel_is_the_centre(shown):
    for backbone in (lean_backbone(1, (32, 32), 4), paper_backbone("cifar10", 1, 4, (32, 32))):
        axes = map_axes(backbone)
        drawn = attention_over_image(GAUSSIANS, axes, (32, 32), 0.05, shown)
        centres = attention_centres(GAUSSIANS, axes)
        for picture, centre in zip(drawn, centres, strict=True):
            strongest = np.unravel_index(picture.argmax(), picture.shape)
            scale = np.array(picture.shape) / 32
            assert np.abs((np.array(strongest) + 0.5) / scale - centre).max() <= 0.51 / scale.min()


def test_a_map_without_padding_does_not_reach_the_border():
    axes = map_axes(paper_backbone("cifar10", 1, 4, (32, 32)))
    corner = attention_centres(np.array([[0.0, 0.0, 0.5]]), axes)
    assert corner.tolist() == [[8.0, 8.0]]
