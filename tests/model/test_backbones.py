"""The paper's backbones against its own table, and the lean family against every size a user may bring."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gatcluster.config import PRESETS
from gatcluster.errors import InputError
from gatcluster.model.backbones import BACKBONES, Backbone, lean_backbone, paper_backbone

# Side of the attention map of each preset, from the paper's text and table.
PAPER_MAP_SIDES = {
    "stl10": 6,
    "imagenet10": 6,
    "imagenet10-128": 6,
    "imagenet10-128-att10": 10,
    "imagenet10-128-att8": 8,
    "imagenet10-128-att6": 6,
    "imagenet10-128-att4": 4,
    "imagenet10-128-att2": 2,
    "imagenet10-160": 6,
    "imagenet10-192": 6,
    "imagenet-dog": 4,
    "imagenet-dog-128": 4,
    "cifar10": 5,
    "cifar100-20": 5,
}

# Parameters of the appendix's rows: kernel x kernel x in x out weights, then a scale and a shift for each channel that
# the batch normalisation has (a convolution's own shift would be undone by it, so there is none).
GREY_3x3_64 = 3 * 3 * 1 * 64 + 2 * 64
COLOUR_5x5_64 = 5 * 5 * 3 * 64 + 2 * 64
COLOUR_7x7_64 = 7 * 7 * 3 * 64 + 2 * 64
CONV_64 = 3 * 3 * 64 * 64 + 2 * 64
CONV_64_TO_128 = 3 * 3 * 64 * 128 + 2 * 128
CONV_128 = 3 * 3 * 128 * 128 + 2 * 128
CONV_128_TO_256 = 3 * 3 * 128 * 256 + 2 * 256
CONV_256 = 3 * 3 * 256 * 256 + 2 * 256
CONV_256_TO_10 = 1 * 1 * 256 * 10 + 2 * 10
CONV_256_TO_15 = 1 * 1 * 256 * 15 + 2 * 15
CONV_128_TO_10 = 1 * 1 * 128 * 10 + 2 * 10
CONV_128_TO_20 = 1 * 1 * 128 * 20 + 2 * 20
# The second and third row of the first block, and the second and third block, are the same wherever they occur.
REST_OF_BLOCK_1 = CONV_64 + CONV_64
BLOCK_2 = CONV_64_TO_128 + CONV_128 + CONV_128
BLOCK_3 = CONV_128_TO_256 + CONV_256 + CONV_256
THREE_BLOCKS = GREY_3x3_64 + REST_OF_BLOCK_1 + BLOCK_2 + BLOCK_3

HAND_COUNTED_PARAMETERS = {
    "stl10": THREE_BLOCKS + CONV_256_TO_10,
    "imagenet10": THREE_BLOCKS + CONV_256_TO_10,
    "imagenet10-128": THREE_BLOCKS + CONV_256 + CONV_256 + CONV_256_TO_10,
    "imagenet10-128-att10": THREE_BLOCKS + CONV_256_TO_10,
    "imagenet10-128-att8": THREE_BLOCKS + CONV_256 + CONV_256_TO_10,
    "imagenet10-128-att6": THREE_BLOCKS + CONV_256 + CONV_256 + CONV_256_TO_10,
    "imagenet10-128-att4": THREE_BLOCKS + CONV_256 + CONV_256 + CONV_256 + CONV_256_TO_10,
    "imagenet10-128-att2": THREE_BLOCKS + CONV_256 + CONV_256 + CONV_256 + CONV_256 + CONV_256_TO_10,
    "imagenet10-160": THREE_BLOCKS + CONV_256 + CONV_256 + CONV_256 + CONV_256 + CONV_256_TO_10,
    "imagenet10-192": THREE_BLOCKS + CONV_256 * 6 + CONV_256_TO_10,
    "imagenet-dog": COLOUR_5x5_64 + REST_OF_BLOCK_1 + BLOCK_2 + BLOCK_3 + CONV_256 + CONV_256_TO_15,
    "imagenet-dog-128": COLOUR_7x7_64
    + REST_OF_BLOCK_1
    + BLOCK_2
    + BLOCK_3
    + CONV_256
    + CONV_256
    + CONV_256
    + CONV_256_TO_15,
    "cifar10": GREY_3x3_64 + REST_OF_BLOCK_1 + BLOCK_2 + CONV_128_TO_10,
    "cifar100-20": GREY_3x3_64 + REST_OF_BLOCK_1 + BLOCK_2 + CONV_128_TO_20,
}

# Image side below which nothing is left of the map, worked out backwards from one pixel: a pool doubles, a valid 3x3
# convolution adds 2, a 3x3 convolution with padding 1 adds nothing, a 5x5 (7x7) convolution with padding 1 adds 2 (4).
HAND_WORKED_LEAST_SIDES = {
    "cifar10": (1 * 2 + 6) * 2,  # 16
    "stl10": ((1 * 2 + 6) * 2 + 6) * 2 + 6,  # 50
    "imagenet-dog": (((1 + 2) * 2 + 6) * 2 + 6) * 2 + 4 + 2,  # 66
    "imagenet-dog-128": (((1 + 6) * 2 + 6) * 2 + 6) * 2 + 4 + 4,  # 100
    "imagenet10-192": (((1 + 12) * 2 + 6) * 2 + 6) * 2 + 6,  # 146
}


def preset_backbone(preset: str) -> Backbone:
    chosen = PRESETS[preset]
    return paper_backbone(preset, 1 if chosen.grey else 3, chosen.n_clusters, (chosen.size, chosen.size))


def map_of(backbone: Backbone, channels: int, size: tuple[int, int]) -> torch.Tensor:
    backbone.eval()
    with torch.inference_mode():
        return backbone(torch.rand(1, channels, *size))


def test_every_preset_has_a_backbone_and_every_backbone_a_preset():
    assert set(BACKBONES) == set(PRESETS) == set(PAPER_MAP_SIDES) == set(HAND_COUNTED_PARAMETERS)


@pytest.mark.parametrize("preset", PAPER_MAP_SIDES)
def test_preset_makes_the_papers_map_of_an_image_of_its_size(preset):
    chosen = PRESETS[preset]
    backbone = preset_backbone(preset)
    features = map_of(backbone, 1 if chosen.grey else 3, (chosen.size, chosen.size))
    side = PAPER_MAP_SIDES[preset]
    assert features.shape == (1, chosen.n_clusters, side, side)
    assert backbone.map_size == (side, side)
    assert backbone.channels == chosen.n_clusters


@pytest.mark.parametrize("preset", HAND_COUNTED_PARAMETERS)
def test_preset_has_as_many_parameters_as_the_papers_table(preset):
    counted = sum(parameter.numel() for parameter in preset_backbone(preset).parameters())
    assert counted == HAND_COUNTED_PARAMETERS[preset]


def test_parameter_totals_are_the_ones_on_paper():
    # The same sums carried to the end with pencil and paper, in case a constant above is wrong.
    assert HAND_COUNTED_PARAMETERS["stl10"] == 1_922_772
    assert HAND_COUNTED_PARAMETERS["cifar10"] == 445_396
    assert HAND_COUNTED_PARAMETERS["cifar100-20"] == 446_696


@pytest.mark.parametrize("preset", ["stl10", "cifar10", "imagenet-dog"])
def test_preset_has_the_papers_channels_layer_by_layer(preset):
    convolutions = [module for module in preset_backbone(preset) if isinstance(module, torch.nn.Conv2d)]
    expected = {
        "stl10": [64, 64, 64, 128, 128, 128, 256, 256, 256, 10],
        "cifar10": [64, 64, 64, 128, 128, 128, 10],
        "imagenet-dog": [64, 64, 64, 128, 128, 128, 256, 256, 256, 256, 15],
    }
    assert [convolution.out_channels for convolution in convolutions] == expected[preset]


def test_preset_map_may_be_oblong():
    backbone = paper_backbone("cifar10", 3, 4, (32, 48))
    assert map_of(backbone, 3, (32, 48)).shape == (1, 4, 5, 9)
    assert backbone.map_size == (5, 9)


@pytest.mark.parametrize(("preset", "least"), HAND_WORKED_LEAST_SIDES.items())
def test_least_side_works_and_one_less_is_refused_with_the_least_in_the_message(preset, least):
    features = map_of(paper_backbone(preset, 1, 3, (least, least)), 1, (least, least))
    assert features.shape == (1, 3, 1, 1)
    for size in [(least - 1, least - 1), (least, least - 1), (least - 1, least), (1, 1)]:
        with pytest.raises(InputError, match=rf"'{preset}'.* at least {least}\b"):
            paper_backbone(preset, 1, 3, size)


@pytest.mark.parametrize("preset", BACKBONES)
def test_no_preset_refuses_its_own_image_size_and_each_refuses_a_tiny_one(preset):
    preset_backbone(preset)
    with pytest.raises(InputError, match="too small"):
        paper_backbone(preset, 1, 2, (8, 8))


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "size", [(8, 8), (9, 9), (16, 16), (28, 28), (32, 32), (33, 33), (64, 64), (96, 96), (8, 40), (40, 8), (1, 64)]
)
def test_lean_backbone_takes_any_image_and_says_the_map_it_makes(size, channels):
    backbone = lean_backbone(channels, size, width=4)
    features = map_of(backbone, channels, size)
    assert features.shape == (1, backbone.channels, *backbone.map_size)


@settings(deadline=None, max_examples=60)
@given(height=st.integers(1, 150), width=st.integers(1, 150), channels=st.integers(1, 5))
def test_lean_map_is_never_empty_and_never_larger_than_8(height, width, channels):
    backbone = lean_backbone(channels, (height, width), width=4)
    features = map_of(backbone, channels, (height, width))
    assert features.shape[2:] == backbone.map_size
    assert min(backbone.map_size) >= 1
    assert max(backbone.map_size) <= 8
    assert torch.isfinite(features).all()


@settings(deadline=None, max_examples=30)
@given(side=st.integers(8, 200))
def test_lean_map_keeps_several_positions_a_side_so_that_attention_can_choose(side):
    assert min(lean_backbone(1, (side, side), width=4).map_size) >= 2


@pytest.mark.parametrize("size", [(8, 8), (1, 7), (1, 1)])
def test_lean_backbone_trains_on_the_smallest_images(size):
    backbone = lean_backbone(1, size, width=4).train()
    backbone(torch.rand(2, 1, *size)).sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in backbone.parameters())
