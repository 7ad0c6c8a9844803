"""Budgets: what ends a run, and what schedules follow. No test here waits for a real clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatcluster.learning.budget import EpochBudget, StageBudget, TimeBudget


class FakeClock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def test_epochs_are_spent_by_training_alone():
    budget = EpochBudget(4)
    assert budget.spent == 0
    budget.spend(1)
    assert budget.spent == 0.25
    budget.spend(0.5)
    assert budget.spent == 0.375
    budget.spend(2.5)
    assert budget.spent == 1
    budget.spend(1)
    assert budget.spent == 1


@given(epochs=st.integers(1, 40), per_epoch=st.integers(1, 60))
def test_a_run_has_exactly_epochs_times_batches_iterations_however_fractions_round(epochs, per_epoch):
    budget = EpochBudget(epochs)
    iterations = 0
    while budget.spent < 1:
        budget.spend(1 / per_epoch)
        iterations += 1
    assert iterations == epochs * per_epoch


def test_a_long_run_is_not_cut_short_or_lengthened_by_rounding():
    budget = EpochBudget(462)  # the paper's 6,000 iterations on 13,000 images
    for _ in range(462 * 13 - 1):
        budget.spend(1 / 13)
    assert budget.spent < 1
    budget.spend(1 / 13)
    assert budget.spent == 1


def test_time_is_spent_by_the_clock_alone_from_the_moment_the_budget_is_made():
    clock = FakeClock(now=5000.0)
    budget = TimeBudget(60, clock)
    assert budget.spent == 0
    budget.spend(100)
    assert budget.spent == 0
    clock.now += 15
    assert budget.spent == 0.25
    clock.now += 44.9
    assert budget.spent < 1
    clock.now += 0.1
    assert budget.spent == 1
    clock.now += 1000
    assert budget.spent == 1


def test_stage_spends_the_whole_and_ends_at_its_share():
    whole = EpochBudget(10)
    warm_up = StageBudget(whole, end=0.6)
    warm_up.spend(3)
    assert warm_up.spent == pytest.approx(0.5)
    assert whole.spent == pytest.approx(0.3)
    warm_up.spend(3)
    assert warm_up.spent == 1
    clustering = StageBudget(whole, end=1)
    assert clustering.spent == 0
    clustering.spend(2)
    assert clustering.spent == pytest.approx(0.5)
    clustering.spend(2)
    assert clustering.spent == whole.spent == 1


def test_stage_gets_what_an_earlier_stage_left_when_that_one_took_too_long():
    clock = FakeClock()
    whole = TimeBudget(100, clock)
    first = StageBudget(whole, end=0.5)
    clock.now += 80
    assert first.spent == 1
    second = StageBudget(whole, end=1)
    assert second.spent == 0
    clock.now += 10
    assert second.spent == pytest.approx(0.5)
    clock.now += 10
    assert second.spent == 1


def test_stage_whose_time_is_over_before_it_begins_is_spent():
    clock = FakeClock()
    whole = TimeBudget(100, clock)
    clock.now += 80
    assert StageBudget(whole, end=0.5).spent == 1
    assert StageBudget(whole, end=0.8).spent == 1


@given(st.lists(st.floats(0, 3), max_size=10), st.floats(0.01, 20), st.floats(0, 1))
def test_share_spent_never_falls_and_stays_between_0_and_1(steps, epochs, end):
    whole = EpochBudget(epochs)
    stage = StageBudget(whole, end)
    shares = [(whole.spent, stage.spent)]
    for step in steps:
        stage.spend(step)
        shares.append((whole.spent, stage.spent))
    for column in zip(*shares, strict=True):
        assert list(column) == sorted(column)
        assert column[0] >= 0
        assert column[-1] <= 1


def test_what_is_kept_back_shortens_training_and_is_remembered():
    clock = FakeClock(now=0.0)
    budget = TimeBudget(100, clock)
    budget.keep_back(20)
    budget.keep_back(10)  # less than what is kept already
    assert budget.share_of(20) == pytest.approx(0.25)
    assert budget.share_of(500) == 1
    clock.now += 40
    assert budget.spent == pytest.approx(0.5)
    again = TimeBudget(100, clock)
    again.restore(budget.state())
    assert again.spent == pytest.approx(0.5)
    clock.now += 40
    assert budget.spent == again.spent == 1
    budget.keep_back(1000)  # half of the time is for training, whatever follows
    assert budget.state()["kept_back"] == 50
