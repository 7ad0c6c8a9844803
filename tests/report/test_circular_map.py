"""The map of label features: against the paper's sums, written out, and for what a reader of it relies on."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gatcluster.report.circular_map import circular_map, cluster_corners


def sums_of_the_paper(row: list[float]) -> tuple[float, float]:
    k = len(row)
    x = sum(row[h - 1] * math.sin(2 * math.pi * h / k) for h in range(1, k + 1))
    y = sum(row[h - 1] * math.cos(2 * math.pi * h / k) for h in range(1, k + 1))
    return x, y


@pytest.mark.parametrize("k", [2, 3, 7, 20])
def test_equals_the_sums_of_the_paper(k):
    features = np.random.default_rng(k).dirichlet(np.full(k, 0.3), 50).astype(np.float32)
    expected = [sums_of_the_paper(row) for row in features.tolist()]
    np.testing.assert_allclose(circular_map(features), expected, atol=1e-6)


@pytest.mark.parametrize("k", [2, 5, 100])
def test_sure_images_lie_on_the_corners_and_undecided_ones_in_the_middle(k):
    np.testing.assert_allclose(circular_map(np.eye(k)), cluster_corners(k), atol=1e-6)
    np.testing.assert_allclose(np.hypot(*cluster_corners(k).T), 1)
    np.testing.assert_allclose(circular_map(np.full((1, k), 1 / k)), [[0, 0]], atol=1e-6)


def test_all_images_lie_in_the_circle():
    features = np.random.default_rng(0).dirichlet(np.full(6, 0.1), 500)
    assert np.hypot(*circular_map(features).T).max() <= 1 + 1e-6


def test_no_images_make_an_empty_map():
    assert circular_map(np.empty((0, 4))).shape == (0, 2)
