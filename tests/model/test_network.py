"""The network as a whole: what a user's settings build, and that its outputs agree with each other."""

import pytest
import torch

from gatcluster.config import ImageSettings, Settings, make_settings
from gatcluster.errors import InputError
from gatcluster.model import GATNetwork, build_network


def settings(size=(16, 16), channels=1, grey=False, k=3, seed=0, preset=None) -> Settings:
    return make_settings(
        n_clusters=k,
        n_images=100,
        images=ImageSettings(size=size, channels=channels, grey=grey, augment="none"),
        seed=seed,
        recipe="paper",
        preset=preset,
        epochs=1,
    )


def images(n=4, channels=1, size=(16, 16)):
    return torch.rand(n, channels, *size, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def network() -> GATNetwork:
    return build_network(settings()).eval()


def test_both_heads_give_probabilities_and_the_map_comes_with_them(network):
    output = network(images())
    assert output.label_features.shape == output.attention_label_features.shape == (4, 3)
    assert output.attention_map.shape == (4, *network.backbone.map_size)
    for probabilities in output[:2]:
        assert (probabilities >= 0).all()
        torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(4))
    assert ((output.attention_map >= 0) & (output.attention_map <= 1)).all()


def test_what_is_asked_for_alone_equals_what_training_sees(network):
    output = network(images())
    torch.testing.assert_close(network.label_features(images()), output.label_features)
    torch.testing.assert_close(network.attention_maps(images()), output.attention_map)
    assert network.embedding(images()).shape == (4, network.backbone.channels)
    torch.testing.assert_close(network.embedding(images()), network.backbone(images()).mean(dim=(2, 3)))


def test_heads_stay_in_32_bits_while_the_backbone_trains_in_16(network):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = network.features(images())
        output = network.heads(features)
    assert all(part.dtype == torch.float32 for part in output)
    for part, expected in zip(output, network.heads(features.float()), strict=True):
        torch.testing.assert_close(part, expected)
    assert (network(images()).label_features - output.label_features).abs().max() < 0.02


def test_one_image_is_clustered_alike_whatever_comes_with_it(network):
    together = network.label_features(images())
    alone = torch.cat([network.label_features(image[None]) for image in images()])
    torch.testing.assert_close(alone, together)


def test_cluster_depends_on_the_image(network):
    black, white = torch.zeros(1, 1, 16, 16), torch.ones(1, 1, 16, 16)
    assert not torch.equal(network.label_features(black), network.label_features(white))


def test_same_seed_same_weights_and_another_seed_others():
    first, again, other = (build_network(settings(seed=seed)).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_weights_do_not_depend_on_the_users_random_state_nor_change_it():
    torch.manual_seed(123)
    before = torch.get_rng_state()
    first = build_network(settings()).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(5)
    again = build_network(settings()).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_preset_network_has_the_parameters_of_the_papers_three_tables():
    k = 10
    backbone = 445_396  # test_backbones works this out
    label_head = (k * k + 2 * k) + 3 * (k * k + k)
    attention_head = (3 * (5 * 5 * k) + 3) + 3 * (k * k + k)
    network = build_network(settings(size=(32, 32), channels=3, grey=True, k=k, preset="cifar10"))
    assert sum(parameter.numel() for parameter in network.parameters()) == backbone + label_head + attention_head


@pytest.mark.parametrize(("channels", "grey", "taken"), [(3, True, 1), (3, False, 3), (1, True, 1), (5, True, 5)])
def test_network_takes_the_channels_that_are_left_after_grey(channels, grey, taken):
    network = build_network(settings(channels=channels, grey=grey)).eval()
    assert network.label_features(images(channels=taken)).shape == (4, 3)


def test_preset_too_large_for_the_images_is_refused():
    with pytest.raises(InputError, match="at least 50"):
        build_network(settings(size=(32, 32), preset="stl10"))


def test_all_weights_learn():
    network = build_network(settings()).train()
    output = network(images(n=8))
    (output.label_features[:, 0].sum() + output.attention_label_features[:, 1].sum()).backward()
    silent = [name for name, weight in network.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert silent == []
