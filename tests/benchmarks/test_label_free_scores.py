from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from comparison.label_free_scores import invariance_score


def slow_invariance(first: list[list[float]], second: list[list[float]]) -> float:
    n, k = len(first), len(first[0])
    joint = [
        [sum(a[g] * b[h] + b[g] * a[h] for a, b in zip(first, second, strict=True)) / (2 * n) for h in range(k)]
        for g in range(k)
    ]
    alone = [sum(row) for row in joint]
    return sum(
        joint[g][h] * math.log(joint[g][h] / (alone[g] * alone[h]))
        for g in range(k)
        for h in range(k)
        if joint[g][h] > 0
    ) / math.log(k)


@given(arrays(float, st.tuples(st.just(2), st.integers(1, 12), st.integers(2, 6)), elements=st.floats(0, 1)))
@settings(max_examples=60, deadline=None)
def test_the_invariance_agrees_with_a_slow_reference_and_does_not_ask_which_view_is_first(weights):
    first, second = (weights + 1e-9) / (weights + 1e-9).sum(axis=2, keepdims=True)
    score = invariance_score(first, second)
    assert score == pytest.approx(slow_invariance(first.tolist(), second.tolist()), abs=1e-9)
    assert score == pytest.approx(invariance_score(second, first), abs=1e-12)
    assert -1e-9 <= score <= 1 + 1e-9


@pytest.mark.parametrize("k", [2, 3, 10])
def test_sure_and_even_clusters_that_all_views_share_score_1(k):
    features = np.eye(k).repeat(4, axis=0)
    assert invariance_score(features, features) == pytest.approx(1)


def test_sure_clusters_that_change_from_view_to_view_score_0():
    assert invariance_score(np.eye(3).repeat(3, axis=0), np.tile(np.eye(3), (3, 1))) == pytest.approx(0)


def test_a_collapsed_clustering_is_invariant_and_scores_0_all_the_same():
    assert invariance_score([[1.0, 0.0]] * 4, [[1.0, 0.0]] * 4) == 0


def test_the_more_images_change_clusters_with_the_view_the_less_the_score():
    sure = np.eye(2).repeat(50, axis=0)
    scores = []
    for changed in (0, 5, 20, 50):
        other = sure.copy()
        other[:changed], other[50 : 50 + changed] = [0, 1], [1, 0]
        scores.append(invariance_score(sure, other))
    assert scores[0] > scores[1] > scores[2]
    assert scores[3] == pytest.approx(1)  # all of them: then clusters have only changed names
