"""The Gaussian map, against the paper's formula taken pixel by pixel."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gatcluster.model.attention import gaussian_attention_map, gaussian_parameters, grid_positions

shares = st.floats(0, 1)
sides = st.integers(1, 12)


def coordinate(index: int, length: int) -> float:
    return 0.5 if length == 1 else index / (length - 1)


def map_by_loop(mu_x, mu_y, delta, height, width, alpha):
    """A(x, y) = exp(-(u - mu)' Sigma^-1 (u - mu) / alpha), one pixel after the other."""
    rows = []
    for x in range(height):
        row = []
        for y in range(width):
            u = (coordinate(x, height), coordinate(y, width))
            inverse = ((1 / delta, 0.0), (0.0, 1 / delta))
            difference = (u[0] - mu_x, u[1] - mu_y)
            form = sum(difference[i] * inverse[i][j] * difference[j] for i in range(2) for j in range(2))
            row.append(math.exp(-form / alpha))
        rows.append(row)
    return rows


def one_map(mu_x, mu_y, delta, height, width, alpha=0.05):
    mu = torch.tensor([[mu_x, mu_y]], dtype=torch.float64)
    return gaussian_attention_map(mu, torch.tensor([delta], dtype=torch.float64), height, width, alpha)[0]


@settings(deadline=None, max_examples=80)
@given(shares, shares, st.floats(0.001, 1), sides, sides, st.sampled_from([0.05, 0.5, 1.0]))
def test_map_is_the_formula_at_every_pixel(mu_x, mu_y, delta, height, width, alpha):
    attention = one_map(mu_x, mu_y, delta, height, width, alpha)
    expected = torch.tensor(map_by_loop(mu_x, mu_y, delta, height, width, alpha), dtype=torch.float64)
    torch.testing.assert_close(attention, expected, rtol=1e-9, atol=1e-12)


def test_map_worked_by_hand():
    # mu in the corner (0, 0), delta = 0.5, alpha = 0.05: the exponent is -(x^2 + y^2) / 0.025.
    attention = one_map(0.0, 0.0, 0.5, 3, 2)
    assert attention[0, 0].item() == 1.0
    assert attention[1, 0].item() == pytest.approx(math.exp(-10))  # x = 0.5
    assert attention[2, 0].item() == pytest.approx(math.exp(-40))  # x = 1
    assert attention[0, 1].item() == pytest.approx(math.exp(-40))  # y = 1
    assert attention[1, 1].item() == pytest.approx(math.exp(-50))


@settings(deadline=None, max_examples=80)
@given(shares, shares, st.floats(0.2, 1), sides, sides)
def test_map_peaks_at_the_grid_point_nearest_to_mu(mu_x, mu_y, delta, height, width):
    peak = int(one_map(mu_x, mu_y, delta, height, width).flatten().argmax())
    distances = [
        math.hypot(coordinate(x, height) - mu_x, coordinate(y, width) - mu_y)
        for x in range(height)
        for y in range(width)
    ]
    assert distances[peak] == pytest.approx(min(distances), abs=1e-6)


def test_map_is_one_at_mu_and_the_first_axis_of_mu_runs_down_the_rows():
    attention = one_map(0.25, 1.0, 0.3, 5, 3)
    assert divmod(int(attention.flatten().argmax()), 3) == (1, 2)
    assert attention[1, 2].item() == 1.0


@settings(deadline=None, max_examples=60)
@given(shares, shares, st.floats(0.01, 1))
def test_map_falls_with_the_distance_from_mu_alike_in_all_directions(mu_x, mu_y, delta):
    attention = one_map(mu_x, mu_y, delta, 7, 5)
    by_distance = sorted(
        ((coordinate(x, 7) - mu_x) ** 2 + (coordinate(y, 5) - mu_y) ** 2, attention[x, y].item())
        for x in range(7)
        for y in range(5)
    )
    values = [value for _, value in by_distance]
    assert all(near >= far - 1e-12 for near, far in itertools.pairwise(values))


def test_wider_delta_looks_at_more():
    narrow, wide = one_map(0.5, 0.5, 0.1, 9, 9), one_map(0.5, 0.5, 0.9, 9, 9)
    assert narrow.sum() < wide.sum()
    assert narrow[4, 4] == wide[4, 4] == 1


def test_each_image_gets_its_own_map():
    mu = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    maps = gaussian_attention_map(mu, torch.tensor([0.5, 0.1]), 4, 6, alpha=0.05)
    assert maps.shape == (2, 4, 6)
    assert maps[0].flatten().argmax() == 0
    assert maps[1].flatten().argmax() == 23


@pytest.mark.parametrize("which", ["mu_x", "mu_y", "delta"])
def test_gradient_reaches_each_parameter_when_it_alone_may_learn(which):
    raw = {name: torch.tensor(value, dtype=torch.float64) for name, value in
           {"mu_x": 0.3, "mu_y": -0.2, "delta": 0.5}.items()}  # fmt: skip
    raw[which].requires_grad_()
    mu, delta = gaussian_parameters(torch.stack([raw["mu_x"], raw["mu_y"], raw["delta"]])[None])
    attention = gaussian_attention_map(mu, delta, 4, 5, alpha=0.05)
    (attention * torch.arange(20.0).reshape(4, 5)).sum().backward()
    assert abs(raw[which].grad.item()) > 1e-3
    assert all(tensor.grad is None for name, tensor in raw.items() if name != which)


def test_gradients_agree_with_finite_differences():
    raw = torch.tensor([[0.3, -0.2, 0.5], [-1.0, 2.0, -0.4]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda numbers: gaussian_attention_map(*gaussian_parameters(numbers), 3, 4, alpha=0.5), raw
    )


def test_each_raw_number_sets_one_parameter():
    base = torch.zeros(1, 3)
    mu, delta = gaussian_parameters(base)
    for position in range(3):
        moved = base.clone()
        moved[0, position] = 1.0
        mu_moved, delta_moved = gaussian_parameters(moved)
        changes = [mu_moved[0, 0] > mu[0, 0], mu_moved[0, 1] > mu[0, 1], delta_moved[0] > delta[0]]
        assert changes == [position == 0, position == 1, position == 2]


@pytest.mark.parametrize("raw", [-1e4, -100.0, 0.0, 100.0, 1e4])
def test_extreme_raw_values_give_finite_maps_and_gradients(raw):
    for mixture in ([raw, raw, raw], [raw, -raw, raw], [0.0, 0.0, raw], [raw, 0.0, 0.0]):
        numbers = torch.tensor([mixture], requires_grad=True)
        mu, delta = gaussian_parameters(numbers)
        attention = gaussian_attention_map(mu, delta, 5, 5, alpha=0.05)
        attention.sum().backward()
        assert ((attention >= 0) & (attention <= 1)).all()
        assert ((mu >= 0) & (mu <= 1)).all()
        assert 0 < delta.item() <= 1
        assert torch.isfinite(numbers.grad).all()


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_grid_spans_the_unit_interval_and_a_single_line_lies_in_the_middle(length):
    positions = grid_positions(length, torch.ones(1, dtype=torch.float64))
    assert positions.tolist() == pytest.approx([coordinate(i, length) for i in range(length)])
    assert positions.dtype == torch.float64
