"""Running statistics are those of the images, also where not all fit into memory at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from gatcluster.data.images import ImageSet
from gatcluster.errors import InputError
from gatcluster.learning.normalisation import STATISTICS_IMAGES, even_batches, mixed_sample, refresh_statistics
from gatcluster.model.inference import infer
from gatcluster.model.network import GATNetwork, build_network

N = 40


def statistics(network: GATNetwork) -> list[torch.Tensor]:
    layers = [layer for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)]
    return [figure.clone() for layer in layers for figure in (layer.running_mean, layer.running_var)]


def means_over_batches(network: GATNetwork, images: torch.Tensor, size: int) -> list[torch.Tensor]:
    """Slow and obvious: the statistics of each batch by itself, and their mean."""
    found = []
    for batch in images.split(size):
        for layer in network.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.momentum = 1.0
        with torch.no_grad():
            network.train()(batch)
        found.append(statistics(network))
    return [torch.stack(figures).mean(dim=0) for figures in zip(*found, strict=True)]


class ShortOfMemory:
    """Lets a network take at most so many images at a time, from its second pass on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
        self.sizes: list[int] = []
        features = GATNetwork.features

        def limited(network: GATNetwork, batch: torch.Tensor) -> torch.Tensor:
            self.sizes.append(len(batch))
            if len(batch) > most and len(self.sizes) > 1:
                raise torch.OutOfMemoryError("CUDA out of memory. (as if)")
            return features(network, batch)

        monkeypatch.setattr(GATNetwork, "features", limited)


@pytest.fixture
def prepared(bars, paper_settings):
    settings = paper_settings(n_images=N, training={"target_sub_batch": 16})
    return build_network(settings), bars(N), settings


def expected_of(prepared, size: int) -> list[torch.Tensor]:
    _, images, settings = prepared
    return means_over_batches(build_network(settings), images.batch(mixed_sample(len(images))), size)


def test_statistics_are_means_over_batches_and_the_network_is_left_as_it_was(prepared):
    network, images, settings = prepared
    refresh_statistics(network.eval(), images, settings, tell=pytest.fail)
    torch.testing.assert_close(statistics(network), expected_of(prepared, 20))
    assert not network.training
    assert {layer.momentum for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)} == {0.1}


@pytest.mark.parametrize("n_images", [1, 40, 70_000])
def test_the_sample_is_of_all_parts_of_the_set_and_so_is_every_part_of_the_sample(n_images):
    sample = mixed_sample(n_images)
    assert len(set(sample)) == len(sample) == min(n_images, STATISTICS_IMAGES)
    assert {sample.min(), sample.max()} == {0, n_images - 1}
    if len(sample) == STATISTICS_IMAGES:
        for batch in sample.reshape(-1, 500):  # a folder of one kind after the other, each a tenth
            assert np.bincount(batch * 10 // n_images, minlength=10).min() > 25


def test_statistics_of_images_that_come_kind_by_kind_are_those_of_all_together(paper_settings):
    pixels = np.zeros((64, 8, 8, 1), np.uint8)
    pixels[32:] = 255
    settings = paper_settings(n_images=64, training={"target_sub_batch": 32})
    network = build_network(settings)
    images = ImageSet(pixels, [str(i) for i in range(64)])
    refresh_statistics(network, images, settings)
    together = means_over_batches(build_network(settings), images.batch(slice(None)), 64)
    torch.testing.assert_close(statistics(network)[:2], together[:2], rtol=0.2, atol=0.05)
    apart = means_over_batches(build_network(settings), images.batch(slice(None)), 32)
    assert float(apart[1].sum()) < 0.7 * float(together[1].sum())  # what the statistics would be, kind by kind


def test_out_of_memory_begins_anew_with_half_the_images_says_so_once_and_remembers(prepared, monkeypatch):
    network, images, settings = prepared
    with monkeypatch.context() as patch:
        short, told = ShortOfMemory(patch, most=7), []
        refresh_statistics(network, images, settings, tell=told.append)
        assert short.sizes[:5] == [20, 20, 14, 8, 4]
        assert told == ["out of memory: images are looked at 4 at a time, for batch normalisation, too"]
        n_passes = len(short.sizes)
        refresh_statistics(network, images, settings, tell=pytest.fail)
        infer(network, network.label_features, images, settings, tell=pytest.fail)
        assert set(short.sizes[n_passes:]) == {4}
    torch.testing.assert_close(statistics(network), expected_of(prepared, 4))


def test_a_size_that_fitted_is_never_more_than_m1(prepared, monkeypatch):
    network, images, settings = prepared
    few = settings.model_copy(update={"training": settings.training.model_copy(update={"target_sub_batch": 3})})
    short = ShortOfMemory(monkeypatch, most=7)
    refresh_statistics(network, images, few, tell=lambda message: None)
    n_passes = len(short.sizes)
    infer(network, network.label_features, images, few)
    assert max(short.sizes[n_passes:]) == 3


def test_not_even_two_images_is_an_error_and_the_network_is_left_as_it_was(prepared, monkeypatch):
    network, images, settings = prepared
    short = ShortOfMemory(monkeypatch, most=1)
    with pytest.raises(InputError, match="too little memory even for 2 images"):
        refresh_statistics(network.eval(), images, settings, tell=pytest.fail)
    assert min(short.sizes) == 2
    assert not network.training
    assert {layer.momentum for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)} == {0.1}


@given(n_images=st.integers(1, 300), most=st.integers(2, 40))
def test_batches_are_even_and_hold_every_image_but_a_single_one(n_images, most):
    batches = even_batches(np.arange(n_images), most)
    sizes = [len(batch) for batch in batches]
    assert max(sizes) <= most
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) > 1 or n_images == 1
    together = np.concatenate(batches).tolist()
    assert together == list(range(len(together)))
    assert len(together) == n_images or most == 2  # only of twos may one be left over


def test_two_images_more_than_a_batch_holds_do_not_count_for_half(prepared, bars):
    network, _, settings = prepared
    images = bars(34)
    refresh_statistics(network, images, settings)
    expected = means_over_batches(build_network(settings), images.batch(mixed_sample(34)), 17)
    torch.testing.assert_close(statistics(network), expected)
