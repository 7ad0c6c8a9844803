"""What the first convolution begins with: filters that see all directions of the images' patches alike."""

import numpy as np
import pytest
import torch
from torch import nn

from gatcluster.learning.first_layer import begin_whitened, patch_covariance, whitening_filters
from gatcluster.model.backbones import Backbone
from gatcluster.model.network import GATNetwork


def photos(n=40, channels=3, side=16, seed=0):
    """Smooth pictures: neighbouring pixels are nearly alike, as in photos."""
    random = torch.Generator().manual_seed(seed)
    rough = torch.rand(n, channels, side // 4, side // 4, generator=random)
    smooth = nn.functional.interpolate(rough, size=(side, side), mode="bilinear")
    return (smooth + 0.05 * torch.rand(n, channels, side, side, generator=random)).clamp(0, 1)


def network(channels=3, width=8, kernel=3, stride=1, side=16, mean=0.4):
    layers = [nn.Conv2d(channels, width, kernel, stride=stride, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    map_side = (side - kernel) // stride + 1
    return GATNetwork(Backbone(layers, width, (map_side, map_side)), 2, width, 0.05, mean)


def covariance_by_loop(images, kernel, stride):
    patches = [
        image[:, y : y + kernel, x : x + kernel].ravel()
        for image in images.double().numpy()
        for y in range(0, image.shape[1] - kernel + 1, stride)
        for x in range(0, image.shape[2] - kernel + 1, stride)
    ]
    return np.cov(np.stack(patches).T, bias=True)


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (5, 2)])
def test_covariance_is_that_of_all_patches_however_images_are_divided(kernel, stride):
    images = photos(7, channels=2)
    convolution = nn.Conv2d(2, 4, kernel, stride=stride)
    expected = covariance_by_loop(images, kernel, stride)
    for size in (1, 3, 7):
        found = patch_covariance(images.split(size), convolution)
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


def test_large_images_are_looked_at_in_fewer_places(monkeypatch):
    seen = []
    unfold = nn.functional.unfold

    def noted(images, kernel, stride):
        patches = unfold(images, kernel, stride=stride)
        seen.append(patches.shape[2])
        return patches

    monkeypatch.setattr(nn.functional, "unfold", noted)
    patch_covariance([torch.rand(2, 1, 256, 128)], nn.Conv2d(1, 4, 3))
    assert seen[0] <= 16 * 16 + 16  # the last few begin before the edge


def test_images_smaller_than_a_patch_are_no_error():
    found = patch_covariance([torch.rand(5, 1, 8, 2)], nn.Conv2d(1, 4, 5))
    assert found.shape == (25, 25)
    assert torch.isfinite(found).all()


def test_filters_make_patches_white():
    covariance = torch.from_numpy(covariance_by_loop(photos(), 3, 1))
    filters = whitening_filters(covariance, 20)
    half = filters[:10]
    torch.testing.assert_close(filters[10:], -half)
    seen = half @ covariance @ half.T  # (10, 10): what the filters see varies alike, and each by itself
    torch.testing.assert_close(seen, torch.diag(seen.diagonal()), atol=1e-6, rtol=0)
    assert seen.diagonal().max() <= 1 + 1e-9
    assert seen.diagonal().min() > 0.8


def test_widest_directions_come_first():
    covariance = torch.diag(torch.tensor([1.0, 9.0, 4.0, 0.25])).double()
    assert whitening_filters(covariance, 6)[:3].abs().argmax(dim=1).tolist() == [1, 2, 0]


@pytest.mark.parametrize(("variances", "n_filters"), [([0.0, 0.0], 0), ([1.0, 0.0], 2), ([1.0, 1e-9], 2)])
def test_directions_in_which_nothing_varies_get_no_filter(variances, n_filters):
    filters = whitening_filters(torch.diag(torch.tensor(variances)).double(), 8)
    assert len(filters) == n_filters
    assert torch.isfinite(filters).all()


def test_the_first_convolution_sees_its_images_white():
    images, made = photos(), network()
    begin_whitened(made, images.split(10))
    seen = made.backbone[0](images - made.mean)  # (N, 8, H, W)
    spread = seen.transpose(0, 1).flatten(1).std(dim=1)
    torch.testing.assert_close(spread, torch.ones(8), atol=0.1, rtol=0)


def test_filters_beyond_the_directions_stay_as_drawn():
    images, made = photos(channels=1), network(channels=1, width=32)
    drawn = made.backbone[0].weight.detach().clone()
    begin_whitened(made, [images])
    assert (made.backbone[0].weight[:18] != drawn[:18]).any(dim=(1, 2, 3)).all()  # 9 directions and their negatives
    torch.testing.assert_close(made.backbone[0].weight[18:], drawn[18:])


@pytest.mark.parametrize("case", ["flat images", "patches of many numbers"])
def test_where_there_is_nothing_to_learn_filters_stay_as_drawn(case):
    channels = 3 if case == "flat images" else 120
    images = torch.full((4, 3, 16, 16), 0.5) if case == "flat images" else torch.rand(4, 120, 16, 16)
    made = network(channels=channels)
    drawn = made.backbone[0].weight.detach().clone()
    begin_whitened(made, [images])
    torch.testing.assert_close(made.backbone[0].weight, drawn)


def test_weights_can_still_be_learned():
    images, made = photos(), network()
    begin_whitened(made, [images])
    made(images).label_features.square().sum().backward()
    assert made.backbone[0].weight.grad.abs().sum() > 0
