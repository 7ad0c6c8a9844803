"""Inference over many images: what a user gets must not depend on how the work was cut up."""

import numpy as np
import pytest
import torch

from gatcluster.config import ImageSettings, Settings, make_settings
from gatcluster.data.images import ImageSet
from gatcluster.model import build_network
from gatcluster.model.inference import attention_maps, infer, label_features

N = 23


def settings(m1: int, channels: int = 1, grey: bool = False) -> Settings:
    made = make_settings(
        n_clusters=4,
        n_images=N,
        images=ImageSettings(size=(8, 8), channels=channels, grey=grey, augment="photo"),
        seed=0,
        recipe="paper",
        epochs=1,
    )
    return made.model_copy(update={"training": made.training.model_copy(update={"target_sub_batch": m1})})


@pytest.fixture
def images() -> ImageSet:
    pixels = np.random.default_rng(0).integers(0, 256, (N, 8, 8, 1), dtype=np.uint8)
    return ImageSet(pixels, names=[str(i) for i in range(N)])


@pytest.fixture
def network():
    network = build_network(settings(m1=500))
    with torch.no_grad():  # running statistics that are not those of a fresh network
        for _ in range(5):
            network.train()(torch.rand(16, 1, 8, 8, generator=torch.Generator().manual_seed(1)))
    return network


@pytest.mark.parametrize("m1", [1, 2, 7, 22, 23, 24, 1000])
def test_label_features_do_not_depend_on_the_sub_batch(network, images, m1):
    whole = label_features(network, images, settings(m1=N))
    np.testing.assert_allclose(label_features(network, images, settings(m1)), whole, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        attention_maps(network, images, settings(m1)),
        attention_maps(network, images, settings(m1=N)),
        rtol=1e-4,
        atol=1e-6,
    )


def test_rows_come_in_the_order_of_the_indices(network, images):
    whole = infer(network, network.label_features, images, settings(m1=5))
    some = np.array([20, 3, 3, 0, 22])
    torch.testing.assert_close(infer(network, network.label_features, images, settings(m1=2), some), whole[some])
    assert not torch.allclose(whole[20], whole[3])


def test_inference_is_not_random_although_training_augments(network, images):
    first, again = (label_features(network, images, settings(m1=7)) for _ in range(2))
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("training", [True, False])
def test_network_is_left_as_it_was(network, images, training):
    network.train(training)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    label_features(network, images, settings(m1=4))
    assert network.training is training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_result_is_plain_float32_that_may_take_part_in_training(network, images):
    features = infer(network, network.label_features, images, settings(m1=4))
    assert features.dtype == torch.float32
    assert not features.is_inference()
    assert not features.requires_grad
    weight = torch.ones(4, requires_grad=True)
    (features * weight).sum().backward()
    assert weight.grad is not None


def test_shapes_for_all_images(network, images):
    assert label_features(network, images, settings(m1=5)).shape == (N, 4)
    assert attention_maps(network, images, settings(m1=5)).shape == (N, *network.backbone.map_size)


def test_colour_images_reach_a_grey_network_by_their_lightness():
    colour = np.zeros((2, 8, 8, 3), dtype=np.uint8)
    colour[0, :, :4, 0] = 255  # half of it red
    lightness = np.zeros((2, 8, 8, 1), dtype=np.float32)
    lightness[0, :, :4, 0] = 0.299
    network = build_network(settings(m1=5, channels=3, grey=True))
    by_colour = label_features(network, ImageSet(colour, ["a", "b"]), settings(m1=5, channels=3, grey=True))
    by_lightness = label_features(network, ImageSet(lightness, ["a", "b"]), settings(m1=5))
    np.testing.assert_allclose(by_colour, by_lightness, rtol=1e-5, atol=1e-6)
