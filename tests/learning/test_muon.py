"""Muon against linear algebra done the slow way: what a step is, and that every weight takes part in it."""

import copy

import pytest
import torch
from torch import nn

from gatcluster.learning.contrast import projection_head
from gatcluster.learning.muon import Muon, fast_optimizers, nearly_orthogonal
from gatcluster.model.network import build_network

SHAPES = {"wide": (6, 20), "tall": (20, 6), "square": (8, 8), "one row": (1, 9), "one column": (9, 1)}


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def matrix_of(shape, condition, seed=0):
    """A matrix whose singular values go evenly from 1 to 1 / ``condition``, and its singular vectors."""
    u, _, vh = torch.linalg.svd(random(*shape, seed=seed), full_matrices=False)
    values = torch.linspace(1, 1 / condition, min(shape), dtype=torch.float64)
    return u @ torch.diag(values) @ vh, u, vh


def quintic_by_svd(matrix):
    """The iteration, on the singular values alone: a polynomial of a matrix leaves its singular vectors."""
    u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
    s = s / (s.square().sum().sqrt() + 1e-7)
    for _ in range(3):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return u @ torch.diag(s) @ vh


@pytest.mark.parametrize("length", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_singular_vectors_stay_and_singular_values_come_near_1(shape, length):
    matrix, u, vh = matrix_of(shape, condition=4)
    made = nearly_orthogonal(length * matrix)
    assert made.shape == shape
    in_old_directions = u.T @ made @ vh.T
    values = in_old_directions.diagonal()
    torch.testing.assert_close(in_old_directions, torch.diag(values), atol=1e-9, rtol=0)
    assert values.min() > 0.5
    assert values.max() < 1.3
    torch.testing.assert_close(u @ torch.diag(values) @ vh, made)  # nothing outside these directions


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_singular_values_are_those_of_the_quintic(shape):
    matrix = random(*shape)
    torch.testing.assert_close(nearly_orthogonal(matrix), quintic_by_svd(matrix), rtol=1e-6, atol=1e-9)


def test_transposing_before_or_after_is_the_same():
    matrix = random(5, 11)
    torch.testing.assert_close(nearly_orthogonal(matrix.T), nearly_orthogonal(matrix).T)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("shape", [(6, 4, 3, 3), (40, 2, 3, 3), (18, 2, 3, 3), (4, 4, 1, 1), (5, 7)])
def test_a_step_moves_all_directions_of_a_weight_alike(shape, channels_last):
    if channels_last and len(shape) != 4:
        channels_last = False
    memory = torch.channels_last if channels_last else torch.contiguous_format
    rows = shape[0]
    gradient, u, vh = matrix_of((rows, random(*shape)[0].numel()), condition=4)
    weight = nn.Parameter(random(*shape, seed=1).to(memory_format=memory))
    before = weight.detach().clone()
    weight.grad = gradient.reshape(shape).to(memory_format=memory)
    Muon([weight], lr=0.1).step()
    moved = u.T @ (before - weight.detach()).reshape(rows, -1) @ vh.T / 0.1
    tallness = max(1, rows / gradient.shape[1]) ** 0.5
    torch.testing.assert_close(moved, torch.diag(moved.diagonal()), atol=1e-9, rtol=0)
    assert moved.diagonal().min() > 0.5 * tallness
    assert moved.diagonal().max() < 1.3 * tallness
    assert weight.is_contiguous(memory_format=memory)


@pytest.mark.parametrize(("shape", "is_rounded"), [((130, 140), True), ((140, 130), True), ((127, 200), False)])
def test_in_16_bits_large_steps_are_a_little_off_and_the_weight_keeps_its_own(shape, is_rounded):
    moved = []
    for in_16_bits in (False, True):
        weight = nn.Parameter(torch.zeros(shape))
        weight.grad = random(*shape).float()
        Muon([weight], lr=1.0, in_16_bits=in_16_bits).step()
        assert weight.dtype == torch.float32
        moved.append(weight.detach())
    off = ((moved[1] - moved[0]).norm() / moved[0].norm()).item()
    assert (0.001 < off < 0.05) if is_rounded else (off == 0)


def test_two_steps_worked_by_hand():
    # Momentum m: first g₁, then 0.5 g₁ + g₂. Nesterov looks one step ahead: g + 0.5 m is made orthogonal.
    weight = nn.Parameter(random(4, 3))
    expected = weight.detach().clone()
    optimizer = Muon([weight], lr=0.2, momentum=0.5)
    first, second = random(4, 3, seed=1), random(4, 3, seed=2)
    tallness = (4 / 3) ** 0.5
    for gradient, ahead in ((first, 1.5 * first), (second, second + 0.5 * (0.5 * first + second))):
        weight.grad = gradient.clone()
        optimizer.step()
        expected -= 0.2 * tallness * quintic_by_svd(ahead)
        torch.testing.assert_close(weight.detach(), expected, rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(weight.grad, gradient, rtol=0, atol=0)


def test_a_step_of_one_number_is_its_sign():
    # A 1x1 weight: the only orthogonal matrices are 1 and -1, however steep the loss.
    for gradient in (1e-3, 5.0, -40.0):
        weight = nn.Parameter(torch.zeros(1, 1, dtype=torch.float64))
        weight.grad = torch.full((1, 1), gradient, dtype=torch.float64)
        Muon([weight], lr=1.0).step()
        assert weight.item() * (-1 if gradient > 0 else 1) == pytest.approx(1, abs=0.5)


@pytest.mark.parametrize("gradient", [0.0, 1e-30])
def test_a_vanished_gradient_does_not_break_the_weights(gradient):
    weight = nn.Parameter(torch.ones(3, 4))
    optimizer = Muon([weight], lr=0.1)
    for _ in range(3):
        weight.grad = torch.full((3, 4), gradient)
        optimizer.step()
    torch.testing.assert_close(weight.detach(), torch.ones(3, 4))


def test_weights_without_a_gradient_stay_as_they_are():
    used, unused = nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(3, 2))
    optimizer = Muon([used, unused], lr=0.1)
    used.grad = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
    optimizer.step()
    assert not torch.equal(used, torch.ones(2, 3))
    assert torch.equal(unused, torch.ones(3, 2))
    assert unused not in optimizer.state


def test_descends_where_one_direction_is_a_hundred_times_flatter():
    target = random(3, 5)
    steepness = torch.tensor([1.0, 0.1, 0.01], dtype=torch.float64)[:, None]
    weight = nn.Parameter(torch.zeros(3, 5, dtype=torch.float64))
    optimizer = Muon([weight], lr=0.0)
    for step in range(200):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * (1 - step / 200)
        optimizer.zero_grad()
        (steepness * (weight - target) ** 2).sum().backward()
        optimizer.step()
    assert (weight - target).abs().max() < 0.1 * target.abs().max()


def test_fast_optimizers_train_every_parameter_exactly_once(paper_settings):
    module = nn.ModuleDict({"network": build_network(paper_settings()), "projection": projection_head(16)})
    muon, adam = fast_optimizers(module)
    covered = [
        id(weight) for optimizer in (muon, adam) for group in optimizer.param_groups for weight in group["params"]
    ]
    assert len(covered) == len(set(covered))
    assert set(covered) == {id(weight) for weight in module.parameters()}
    assert all(weight.ndim >= 2 for group in muon.param_groups for weight in group["params"])
    assert all(weight.ndim < 2 for group in adam.param_groups for weight in group["params"])


def test_saved_and_loaded_optimizer_goes_on_where_it_was():
    def descend(weight, optimizer, seeds):
        for seed in seeds:
            weight.grad = random(4, 6, seed=seed).float()
            optimizer.step()

    weight = nn.Parameter(random(4, 6).float())
    optimizer = Muon([weight], lr=0.1, momentum=0.8)
    descend(weight, optimizer, (1, 2))
    saved = copy.deepcopy(optimizer.state_dict())
    resumed_weight = nn.Parameter(weight.detach().clone())
    fresh_weight = nn.Parameter(weight.detach().clone())
    resumed = Muon([resumed_weight], lr=0.5)
    resumed.load_state_dict(saved)
    descend(weight, optimizer, (3, 4))
    descend(resumed_weight, resumed, (3, 4))
    descend(fresh_weight, Muon([fresh_weight], lr=0.1, momentum=0.8), (3, 4))
    assert torch.equal(resumed_weight, weight)
    assert not torch.equal(fresh_weight, weight)  # the momentum is part of what is saved
