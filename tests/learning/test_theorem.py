"""The Label Feature Theorem, checked by numbers on problems small enough to try everything.

N images, k clusters, relations r_ij, label features l_i. Eq. "opt1" is DAC's objective, Eq. "opt2" the paper's: both
are written out here literally, without the guards that the package's losses have.
"""

import itertools
import math

import numpy as np
import pytest
import torch

from gatcluster.config import LossWeights
from gatcluster.learning.losses import separability_loss, total_loss, transformation_loss
from gatcluster.learning.targets import balanced_targets, relation_targets, sharpened_targets


def binary_cross_entropy(r, d):
    """L(r, d) with 0 log 0 = 0; infinite where a certain answer is wrong."""
    d = min(max(d, 0.0), 1.0)
    if abs(d - r) < 1e-12:
        return 0.0
    if d in (0.0, 1.0):
        return math.inf
    return -r * math.log(d) - (1 - r) * math.log(1 - d)


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def unit(row):
    norm = math.sqrt(dot(row, row))
    return [x / norm for x in row]


def objective_of_dac(rows, r):
    """Eq. "opt1"; its constraint is ||l_i||_2 = 1 and l_ih >= 0."""
    assert all(abs(dot(row, row) - 1) < 1e-9 and min(row) >= 0 for row in rows)
    n = len(rows)
    return sum(binary_cross_entropy(r[i][j], dot(rows[i], rows[j])) for i in range(n) for j in range(n))


def objective(rows, r):
    """Eq. "opt2"; the probability constraint is asserted, the nonempty cluster constraint is :func:`is_nonempty`."""
    assert all(abs(sum(row) - 1) < 1e-9 and min(row) >= 0 and max(row) <= 1 + 1e-12 for row in rows)
    n = len(rows)
    units = [unit(row) for row in rows]
    pairs = sum(binary_cross_entropy(r[i][j], dot(units[i], units[j])) for i in range(n) for j in range(n))
    return pairs - sum(dot(row, row) for row in rows)


def is_nonempty(rows):
    return all(sum(row[h] for row in rows) > 0 for h in range(len(rows[0])))


def relations(clusters):
    return [[1 if a == b else 0 for b in clusters] for a in clusters]


def one_hot(clusters, k):
    return [[1.0 if h == c else 0.0 for h in range(k)] for c in clusters]


def simplex_grid(k, steps):
    """All vectors of k multiples of 1/steps that sum to 1."""
    return [
        tuple(count / steps for count in counts)
        for counts in itertools.product(range(steps + 1), repeat=k)
        if sum(counts) == steps
    ]


def all_partitions(n, k):
    """Cluster ids of n images, all k clusters used, one naming of each partition."""
    for clusters in itertools.product(range(k), repeat=n):
        if len(set(clusters)) == k and list(dict.fromkeys(clusters)) == list(range(k)):
            yield clusters


@pytest.mark.parametrize(("n", "k"), [(2, 2), (3, 2), (4, 2), (3, 3), (5, 3), (5, 4)])
def test_one_hot_label_features_that_follow_the_relations_reach_the_lower_bound(n, k):
    # Cross entropies are >= 0 and l . l <= 1, so nothing is below -N; every partition into k clusters reaches it.
    for clusters in all_partitions(n, k):
        rows = one_hot(clusters, k)
        assert is_nonempty(rows)
        assert objective(rows, relations(clusters)) == -n


@pytest.mark.parametrize(("n", "k", "steps"), [(2, 2, 20), (3, 2, 10), (4, 2, 5), (3, 3, 4)])
def test_on_a_grid_of_all_label_features_only_the_one_hot_partition_is_a_minimum(n, k, steps):
    grid = simplex_grid(k, steps)
    for clusters in all_partitions(n, k):
        r = relations(clusters)
        minima = [
            rows for rows in itertools.product(grid, repeat=n) if is_nonempty(rows) and objective(rows, r) <= -n + 1e-9
        ]
        named = {
            tuple(map(tuple, one_hot([names[c] for c in clusters], k))) for names in itertools.permutations(range(k))
        }
        assert set(minima) == named  # the partition itself, under each of the k! names of its clusters


@pytest.mark.parametrize(("n", "k"), [(4, 2), (6, 3), (8, 4)])
def test_no_random_feasible_point_is_lower(n, k):
    random = np.random.default_rng(0)
    clusters = [i % k for i in range(n)]
    r = relations(clusters)
    corners = np.array(one_hot(clusters, k))
    for concentration in (0.05, 0.3, 1.0, 10.0):
        for _ in range(50):
            drawn = random.dirichlet(np.full(k, concentration), n)
            assert objective(drawn.tolist(), r) > -n
    for size in (1e-4, 1e-2, 0.3):  # and none near the minimum either
        for _ in range(50):
            nearby = (1 - size) * corners + size * random.dirichlet(np.ones(k), n)
            assert objective(nearby.tolist(), r) > -n


@pytest.mark.parametrize(("n", "k"), [(4, 2), (6, 3)])
def test_descending_the_objective_ends_at_one_hot_partitions_and_never_below(n, k):
    clusters = torch.arange(n) % k
    r = relation_targets(clusters).double()

    def descend(seed):
        logits = torch.randn(n, k, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()
        optimizer = torch.optim.Adam([logits], lr=0.5)
        for _ in range(150):
            rows = torch.softmax(logits, dim=1)
            units = rows / rows.norm(dim=1, keepdim=True)
            d = (units @ units.T).clamp(1e-15, 1 - 1e-15)
            value = (-r * d.log() - (1 - r) * (1 - d).log()).sum() - rows.square().sum()
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            assert value.item() > -n
        return value.item(), rows.detach()

    value, rows = min((descend(seed) for seed in range(4)), key=lambda end: end[0])
    assert value == pytest.approx(-n, abs=0.05)
    assert (rows.max(dim=1).values > 0.98).all()
    assert torch.equal(relation_targets(rows.argmax(dim=1)).double(), r)


@pytest.mark.parametrize(("n", "k"), [(3, 2), (5, 3), (6, 4)])
def test_collapse_is_a_minimum_for_dac(n, k):
    # The relations that a collapsed network implies are all 1, and DAC's objective is at its bound, 0, then; even by
    # a vector that is no one-hot vector at all.
    r = relations([0] * n)
    assert objective_of_dac(one_hot([0] * n, k), r) == 0
    slanted = [0.6, 0.8] + [0.0] * (k - 2)
    assert objective_of_dac([slanted] * n, r) == pytest.approx(0)


@pytest.mark.parametrize(("n", "k", "steps"), [(3, 2, 12), (4, 2, 6), (3, 3, 5)])
def test_collapse_is_excluded_by_the_nonempty_cluster_constraint(n, k, steps):
    r = relations([0] * n)
    collapsed = one_hot([0] * n, k)
    assert objective(collapsed, r) == -n  # without the constraint it would be a minimum of ours as well
    assert not is_nonempty(collapsed)
    grid = simplex_grid(k, steps)
    feasible = [rows for rows in itertools.product(grid, repeat=n) if is_nonempty(rows)]
    assert min(objective(rows, r) for rows in feasible) > -n + 1e-3  # with it, these relations cannot be met at all


@pytest.mark.parametrize("k", [2, 3, 5])
def test_collapse_costs_more_in_the_loss_that_is_trained_and_only_because_of_the_entropy(k):
    def trained_loss(clusters, weights):
        features = torch.tensor(one_hot(clusters, k), dtype=torch.float64)
        r = relation_targets(torch.tensor(clusters)).double()
        targets = balanced_targets(features), sharpened_targets(features)
        return total_loss(features, features, *targets, r, weights).total.item()

    collapsed, spread = [0] * (4 * k), list(range(k)) * 4
    assert trained_loss(collapsed, LossWeights()) == pytest.approx(-5, abs=1e-3)
    assert trained_loss(spread, LossWeights()) == pytest.approx(-5 - 3 * 2 * math.log(k), abs=1e-3)
    without = LossWeights(entropy=0)
    assert trained_loss(collapsed, without) == pytest.approx(trained_loss(spread, without), abs=1e-3)


def test_two_clusters_of_three_cost_more_than_three():
    values = []
    for clusters in ([0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2]):
        rows = torch.tensor(one_hot(clusters, 3), dtype=torch.float64)
        r = relation_targets(torch.tensor(clusters)).double()
        values.append(total_loss(rows, rows, rows, rows, r, LossWeights()).total.item())
    assert values[0] > values[1] + 1 > values[2] + 2


def test_package_losses_are_the_two_terms_of_the_objective():
    random = np.random.default_rng(0)
    n, k = 6, 3
    r = relations([i % k for i in range(n)])
    for _ in range(20):
        rows = random.dirichlet(np.ones(k), n)
        features = torch.tensor(rows)
        ours = n**2 * separability_loss(features, torch.tensor(r)) + n * transformation_loss(features, features)
        assert ours.item() == pytest.approx(objective(rows.tolist(), r), rel=1e-3)
