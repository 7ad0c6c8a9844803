"""When rounds end, and which is the last."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatcluster.learning.fast_course import Cut, FastCourse
from gatcluster.learning.neighbours import Partition

CUT = Cut(np.zeros((2, 1), np.int64), Partition(np.zeros(2, np.int64), np.ones(2, np.float32)))


def ends(rounds: int, warm_up: float, cost: float, delay: float = 0.0) -> list[float]:
    """The ends of all rounds, where each begins ``cost`` and the first ``delay`` after the end of what was before."""
    course, spent, found = FastCourse(2, 2, rounds, warm_up), warm_up + delay, []
    while not course.over:
        spent = min(1.0, spent + cost)
        course.begin_round(CUT, spent, cost)
        spent = course.end_of_round
        found.append(spent)
        course.end_round()
    return found


def test_where_cuts_cost_nothing_rounds_are_equally_long():
    assert ends(3, warm_up=0.4, cost=0.0) == pytest.approx([0.6, 0.8, 1.0])
    assert ends(1, warm_up=0.4, cost=0.0) == [1.0]


def test_what_a_round_loses_at_its_beginning_is_lost_to_all_alike():
    assert ends(3, warm_up=0.4, cost=0.0, delay=0.3) == pytest.approx([0.8, 0.9, 1.0])


def test_a_cut_that_takes_half_of_a_round_or_more_is_the_last():
    assert ends(2, warm_up=0.3, cost=0.1) == pytest.approx([0.7, 1.0])  # 0.6 is left after the cut: 0.3 for each round
    assert ends(2, warm_up=0.5, cost=0.1) == [1.0]  # 0.2 for each
    assert ends(3, warm_up=1.0, cost=0.0) == [1.0]  # the time is over


def test_where_time_does_not_do_for_all_rounds_there_are_fewer():
    # 0.48 is left after the cut: 0.16 for each of three rounds is too little for cuts of 0.1, 0.24 for two is enough.
    assert ends(3, warm_up=0.42, cost=0.1) == pytest.approx([0.76, 1.0])


@pytest.mark.parametrize(
    ("share", "look", "end"),
    [
        (0.75, 0.0, 0.75),  # epochs are counted, or looks take no time
        (0.75, 0.05, 0.75),  # a cut, and as long again to learn it, fit into the 0.25 that are left
        (0.75, 0.1, 0.6),  # two looks for the cut, as much to learn it: 0.4
        (0.55, 0.1, 0.55),
        (0.75, 0.5, 0.3),  # too little time for everything: some warm-up all the same
        (0.1, 0.5, 0.1),
        (0.0, 0.1, 0.0),
    ],
)
def test_a_warm_up_leaves_time_for_a_cut_and_for_learning_it(share, look, end):
    course = FastCourse(2, 2, 3, share)
    course.plan_warm_up(look)
    assert course.end_of_warm_up == pytest.approx(end)


@given(
    rounds=st.integers(1, 6),
    warm_up=st.floats(0, 1),
    cost=st.floats(0, 1),
    delay=st.floats(0, 1),
)
def test_rounds_follow_each_other_and_end_with_the_budget(rounds, warm_up, cost, delay):
    found = ends(rounds, warm_up, cost, delay)
    assert 1 <= len(found) <= rounds
    assert found[-1] == 1
    assert found == sorted(found)
