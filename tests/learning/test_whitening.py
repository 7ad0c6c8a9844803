"""Whitening: directions become as wide as is asked for, and nothing else changes."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gatcluster.learning.whitening import whitened


def turned(degrees: float) -> torch.Tensor:
    angle = math.radians(degrees)
    return torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


@pytest.mark.parametrize(("whitening", "wide", "narrow"), [(0.0, 9.0, 4.0), (0.5, 3.0, 2.0), (1.0, 1.0, 1.0)])
def test_a_worked_example_in_any_direction_and_place(whitening, wide, narrow):
    # Standard deviations of 9 and 4 along two turned axes, around (5, -7).
    corners = torch.tensor([[9.0, 4.0], [9.0, -4.0], [-9.0, 4.0], [-9.0, -4.0]])
    found = whitened(corners @ turned(30).T + torch.tensor([5.0, -7.0]), whitening)
    # Directions come in the order of their variance, with either sign.
    torch.testing.assert_close(found.abs(), torch.tensor([[narrow, wide]]).expand(4, 2), atol=1e-4, rtol=1e-4)
    assert torch.unique(found.sign(), dim=0).shape == (4, 2)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 40), st.integers(1, 12), st.floats(0, 1), st.integers(0, 2**31))
def test_standard_deviations_are_raised_to_the_power_that_is_left(n, channels, whitening, seed):
    random = torch.Generator().manual_seed(seed)
    embedding = torch.randn(n, channels, generator=random) * torch.rand(channels, generator=random).add(0.1)
    wide = torch.linalg.svdvals((embedding - embedding.mean(dim=0)).double()) / math.sqrt(n)
    found = torch.linalg.svdvals(whitened(embedding, whitening).double()) / math.sqrt(n)
    large = wide > 1e-2 * wide[0]  # those beyond are the noise of the arithmetic
    torch.testing.assert_close(found[large], wide[large].pow(1 - whitening), atol=1e-3, rtol=1e-2)


def test_without_whitening_distances_stay():
    embedding = torch.randn(30, 5, generator=torch.Generator().manual_seed(0))
    found = whitened(embedding, 0.0)
    for i in range(30):
        expected = (embedding - embedding[i]).norm(dim=1)
        torch.testing.assert_close((found - found[i]).norm(dim=1), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("whitening", [0.0, 0.5, 1.0])
def test_what_is_the_same_everywhere_becomes_nothing(whitening):
    assert torch.equal(whitened(torch.full((6, 3), 2.0), whitening), torch.zeros(6, 3))


def test_a_direction_that_does_not_vary_is_not_blown_up():
    embedding = torch.zeros(8, 3)
    embedding[:, 1] = torch.linspace(-1, 1, 8)
    assert whitened(embedding, 0.5).isfinite().all()
    assert int((whitened(embedding, 0.5).std(dim=0) > 1e-6).sum()) == 1
