"""The guard: which steps it lets pass, what it brings back, and that it leaves a sound training alone."""

import copy
import math

import pytest
import torch
from torch import nn

from gatcluster.learning.guard import Guard


def network() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 1))
    return module, torch.optim.Adam(module.parameters(), lr=0.1)


def step(module, optimizer, guard, poison: float = 1.0, image: float = 1.0) -> bool:
    optimizer.zero_grad()
    loss = module(torch.randn(4, 1, 3, 3) * image).sum() * poison
    loss.backward()
    allowed = guard.allows_step(loss)
    if allowed:
        optimizer.step()
    return allowed


def weights(module) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in module.state_dict().values()]


def same(one, other) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_sound_steps_pass_and_their_largest_gradient_is_noted():
    module, optimizer = network()
    guard = Guard(module, [optimizer], scaled=False)
    norms = []
    for _ in range(3):
        assert step(module, optimizer, guard)
        norms.append(math.sqrt(sum(float(weight.grad.square().sum()) for weight in module.parameters())))
    assert math.isclose(guard.largest_gradient, max(norms), rel_tol=1e-5)
    guard.end_iteration()
    assert guard.largest_gradient is None


def test_a_step_that_is_not_finite_is_left_out_and_running_statistics_are_repaired():
    module, optimizer = network()
    guard = Guard(module, [optimizer], scaled=False)
    step(module, optimizer, guard)
    guard.end_iteration()
    before = weights(module)
    assert not step(module, optimizer, guard, image=math.inf)  # the pass itself spoils the running statistics
    assert guard.skipped == 1
    assert all(torch.isfinite(buffer.float()).all() for buffer in module.buffers())
    assert same([weight.detach() for weight in module.parameters()], [before[i] for i in (0, 1, 2, 3, 7, 8)])
    assert step(module, optimizer, guard)


def test_after_three_on_end_weights_and_momenta_go_back_to_the_last_good_iteration():
    module, optimizer = network()
    guard = Guard(module, [optimizer], scaled=False)
    step(module, optimizer, guard)
    guard.end_iteration()
    good, momenta = weights(module), [state["exp_avg"].clone() for state in optimizer.state.values()]
    step(module, optimizer, guard)  # sound, but of an iteration that is not
    for _ in range(2):
        assert not step(module, optimizer, guard, poison=math.nan)
        assert guard.went_back == 0
    assert not step(module, optimizer, guard, poison=math.nan)
    assert guard.went_back == 1
    assert same(weights(module), good)
    assert same([state["exp_avg"] for state in optimizer.state.values()], momenta)


def test_an_iteration_with_a_step_left_out_is_not_the_good_one():
    module, optimizer = network()
    guard = Guard(module, [optimizer], scaled=False)
    good = weights(module)
    step(module, optimizer, guard)
    step(module, optimizer, guard, poison=math.nan)
    guard.end_iteration()
    for _ in range(2):  # with the one before, three
        step(module, optimizer, guard, poison=math.nan)
    assert same(weights(module), good)


def test_counts_go_on_from_their_state():
    module, optimizer = network()
    first, second = (Guard(module, [optimizer], scaled=False) for _ in range(2))
    step(module, optimizer, first)
    step(module, optimizer, first, poison=math.nan)
    step(module, optimizer, first, poison=math.nan)
    second.restore(first.state())
    assert (second.skipped, second.largest_gradient) == (2, first.largest_gradient)
    step(module, optimizer, second, poison=math.nan)
    assert second.went_back == 1


def test_a_guard_that_was_restored_goes_back_to_the_good_state_of_the_first():
    module, optimizer = network()
    first = Guard(module, [optimizer], scaled=False)
    step(module, optimizer, first)
    first.end_iteration()
    good, momenta = weights(module), [state["exp_avg"].clone() for state in optimizer.state.values()]
    step(module, optimizer, first)  # what is resumed from is not the good state
    now = weights(module)
    second = Guard(module, [optimizer], scaled=False)
    second.restore(copy.deepcopy(first.state()))
    assert same(weights(module), now)
    for _ in range(3):
        step(module, optimizer, second, poison=math.nan)
    assert same(weights(module), good)
    assert same([state["exp_avg"] for state in optimizer.state.values()], momenta)


def test_a_good_state_that_does_not_fit_is_refused_at_once():
    module, optimizer = network()
    guard = Guard(module, [optimizer], scaled=False)
    step(module, optimizer, guard)
    guard.end_iteration()
    for part, change in (
        ("weights", {"0.weight": torch.zeros(1)}),
        ("weights", {"unknown": torch.zeros(1)}),
        ("momenta", {"optimizers": []}),
    ):
        state = copy.deepcopy(guard.state())
        state["good"][part] |= change
        with pytest.raises((RuntimeError, ValueError)):
            guard.restore(state)


def test_scaled_gradients_are_left_to_their_scaler():
    module, optimizer = network()
    guard = Guard(module, [optimizer], scaled=True)
    loss = module(torch.randn(4, 1, 3, 3)).sum()
    loss.backward()
    next(module.parameters()).grad.fill_(math.inf)
    assert guard.allows_step(loss)
    assert guard.largest_gradient is None
    assert not guard.allows_step(loss * math.nan)
