"""Gradients of convolutions of small maps: as PyTorch's own, whatever the shape."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from gatcluster.model.convolution import PaddedConvolution, weight_gradient


def gradients(convolution: nn.Conv2d, maps: torch.Tensor, outer: torch.Tensor, in_16_bits: bool) -> list[torch.Tensor]:
    """Of the input and of the weights, and before them the result."""
    maps = maps.clone().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=in_16_bits):
        result = convolution(maps)
    result.float().backward(outer)
    return [result.float(), maps.grad, convolution.weight.grad]


def test_weight_gradient_of_one_position_is_the_product_of_both_sides():
    # Of a map of one position only the middle of the kernel sees anything.
    expected = torch.zeros(2, 1, 3, 3)
    expected[:, 0, 1, 1] = torch.tensor([3.0 * 5, 3.0 * 7])
    found = weight_gradient(torch.full((1, 1, 1, 1), 3.0), torch.tensor([5.0, 7.0]).reshape(1, 2, 1, 1))
    assert torch.equal(found, expected)


@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(1, 3),
    channels=st.integers(1, 4),
    outputs=st.integers(1, 4),
    height=st.integers(1, 5),
    width=st.integers(1, 5),
    channels_last=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_weight_gradient_is_pytorchs(n, channels, outputs, height, width, channels_last, seed):
    generator = torch.Generator().manual_seed(seed)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    maps = torch.randn(n, channels, height, width, generator=generator, dtype=torch.float64)
    outer = torch.randn(n, outputs, height, width, generator=generator, dtype=torch.float64)
    weight = torch.zeros(outputs, channels, 3, 3, dtype=torch.float64, requires_grad=True)
    nn.functional.conv2d(maps, weight, padding=1).backward(outer)
    found = weight_gradient(maps.to(memory_format=layout), outer.to(memory_format=layout))
    torch.testing.assert_close(found, weight.grad)


@pytest.mark.parametrize("in_16_bits", [False, True])
@pytest.mark.parametrize("size", [(1, 1), (3, 3), (4, 4), (2, 8), (5, 5)])  # the last is not small
def test_it_learns_as_an_ordinary_convolution_does(size, in_16_bits):
    generator = torch.Generator().manual_seed(0)
    # Whole numbers, small enough that 16 bits hold every sum exactly.
    maps = torch.randint(-2, 3, (4, 3, *size), generator=generator).float()
    outer = torch.randint(-1, 2, (4, 5, *size), generator=generator).float()
    own = PaddedConvolution(3, 5)
    with torch.no_grad():
        own.weight.copy_(torch.randint(-1, 2, own.weight.shape, generator=generator))
    ordinary = nn.Conv2d(3, 5, 3, padding=1, bias=False)
    ordinary.load_state_dict(copy.deepcopy(own.state_dict()))
    for found, expected in zip(
        gradients(own, maps, outer, in_16_bits), gradients(ordinary, maps, outer, in_16_bits), strict=True
    ):
        assert torch.equal(found, expected)


def test_without_gradients_nothing_is_kept():
    own = PaddedConvolution(2, 2)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert own(torch.ones(1, 2, 2, 2)).grad_fn is None
