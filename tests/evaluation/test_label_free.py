from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gatcluster.evaluation.label_free import information_score


def slow_score(rows: list[list[float]]) -> float:
    n, k = len(rows), len(rows[0])
    mean = [sum(row[h] for row in rows) / n for h in range(k)]
    entropy = [-sum(p * math.log(p) for p in row if p > 0) for row in [mean, *rows]]
    return (entropy[0] - sum(entropy[1:]) / n) / math.log(k)


@given(arrays(float, st.tuples(st.integers(1, 12), st.integers(2, 6)), elements=st.floats(0, 1)))
@settings(max_examples=60, deadline=None)
def test_the_score_agrees_with_a_slow_reference_and_lies_between_0_and_1(weights):
    features = (weights + 1e-9) / (weights + 1e-9).sum(axis=1, keepdims=True)
    score = information_score(features)
    assert score == pytest.approx(slow_score(features.tolist()), abs=1e-9)
    assert -1e-9 <= score <= 1 + 1e-9


@pytest.mark.parametrize("k", [2, 3, 10])
def test_sure_and_even_clusters_score_1(k):
    assert information_score(np.eye(k).repeat(4, axis=0)) == pytest.approx(1)


def test_a_collapsed_clustering_scores_0_however_sure_it_is():
    assert information_score([[1.0, 0.0, 0.0]] * 5) == 0


def test_an_unsure_clustering_scores_0_however_even_it_is():
    assert information_score(np.full((5, 4), 0.25)) == pytest.approx(0)


def test_clusters_that_stay_empty_cost_score():
    assert information_score(np.eye(4)[[0, 0, 1, 1]]) == pytest.approx(math.log(2) / math.log(4))


def test_single_precision_features_lose_nothing():
    assert information_score(np.eye(3, dtype=np.float32)) == pytest.approx(1, abs=1e-12)
