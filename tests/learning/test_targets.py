"""The pseudo-targets against the paper's equations taken one entry at a time."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gatcluster.learning.targets import (
    NEAR_EMPTY_SHARE,
    balanced_targets,
    cluster_label_features,
    cluster_mass,
    relation_targets,
    sharpened_targets,
)

TARGETS = {"balanced": (balanced_targets, 1), "sharpened": (sharpened_targets, 2)}  # and the power of l_ih


@st.composite
def label_features(draw, max_images=7, max_clusters=5):
    """Rows that sum to 1, from nearly even to nearly one-hot."""
    m, k = draw(st.integers(1, max_images)), draw(st.integers(2, max_clusters))
    logits = draw(st.lists(st.lists(st.floats(-12, 12), min_size=k, max_size=k), min_size=m, max_size=m))
    return torch.softmax(torch.tensor(logits, dtype=torch.float64), dim=1)


def targets_by_loop(rows, power):
    """Eqs. "T-target" (power 1) and "A-target" (power 2): (l^power / z) / sum over h' of the same."""
    m, k = len(rows), len(rows[0])
    z = [sum(rows[j][h] for j in range(m)) for h in range(k)]
    return [
        [(rows[i][h] ** power / z[h]) / sum(rows[i][g] ** power / z[g] for g in range(k)) for h in range(k)]
        for i in range(m)
    ]


@pytest.mark.parametrize("name", TARGETS)
@settings(deadline=None, max_examples=60)
@given(features=label_features())
def test_targets_are_the_equation_at_every_entry(name, features):
    function, power = TARGETS[name]
    expected = torch.tensor(targets_by_loop(features.tolist(), power), dtype=torch.float64)
    torch.testing.assert_close(function(features), expected, rtol=1e-9, atol=1e-12)


@settings(deadline=None, max_examples=40)
@given(features=label_features())
def test_cluster_mass_adds_up_each_column(features):
    expected = [sum(row[h] for row in features.tolist()) for h in range(features.shape[1])]
    assert cluster_mass(features).tolist() == pytest.approx(expected)
    assert cluster_mass(features).sum().item() == pytest.approx(len(features))


def test_balanced_targets_worked_by_hand():
    # z = (1.5, 0.5). Row 1: 0.6/1.5 = 0.4 and 0.4/0.5 = 0.8, so 1/3 and 2/3. Row 2: 0.9/1.5 = 0.6, 0.1/0.5 = 0.2.
    features = torch.tensor([[0.6, 0.4], [0.9, 0.1]])
    torch.testing.assert_close(balanced_targets(features), torch.tensor([[1 / 3, 2 / 3], [0.75, 0.25]]))


def test_sharpened_targets_worked_by_hand():
    # z = (1.5, 0.5). Row 1: 0.36/1.5 = 0.24 and 0.16/0.5 = 0.32, so 3/7 and 4/7. Row 2: 0.54 and 0.02, so 27/28, 1/28.
    features = torch.tensor([[0.6, 0.4], [0.9, 0.1]])
    torch.testing.assert_close(sharpened_targets(features), torch.tensor([[3 / 7, 4 / 7], [27 / 28, 1 / 28]]))


@pytest.mark.parametrize("name", TARGETS)
@settings(deadline=None, max_examples=60)
@given(features=label_features(), data=st.data())
def test_targets_are_probabilities_and_do_not_care_for_the_order_of_images_or_clusters(name, features, data):
    function, _ = TARGETS[name]
    targets = function(features)
    torch.testing.assert_close(targets.sum(dim=1), torch.ones(len(features), dtype=torch.float64))
    assert (targets >= 0).all()
    images = data.draw(st.permutations(range(features.shape[0])))
    clusters = data.draw(st.permutations(range(features.shape[1])))
    torch.testing.assert_close(function(features[images]), targets[images])
    torch.testing.assert_close(function(features[:, clusters]), targets[:, clusters])


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(
    "features",
    [
        torch.eye(3),
        torch.full((4, 3), 1 / 3),
        torch.tensor([[1.0, 0.0, 0.0]] * 4),  # two clusters without any mass
        torch.tensor([[1.0, 1e-38, 1e-45]] * 4),  # and with hardly any
        torch.tensor([[1.0, 0.0]]),
    ],
    ids=["one-hot", "uniform", "collapsed", "denormal", "single image"],
)
def test_targets_and_gradients_are_finite_in_degenerate_batches(name, features):
    function, _ = TARGETS[name]
    features = features.clone().requires_grad_()
    targets = function(features)
    targets.square().sum().backward()
    assert torch.isfinite(features.grad).all()
    torch.testing.assert_close(targets.detach().sum(dim=1), torch.ones(len(features)))


@pytest.mark.parametrize("name", TARGETS)
def test_one_hot_and_uniform_label_features_are_their_own_targets(name):
    function, _ = TARGETS[name]
    for features in (torch.eye(4), torch.full((5, 4), 0.25)):
        torch.testing.assert_close(function(features), features)


def test_balancing_moves_images_to_the_small_cluster_and_sharpening_makes_them_surer():
    features = torch.tensor([[0.8, 0.2], [0.8, 0.2], [0.7, 0.3]])
    assert (balanced_targets(features)[:, 1] > features[:, 1]).all()
    even = torch.tensor([[0.8, 0.2], [0.2, 0.8]])
    assert (sharpened_targets(even).max(dim=1).values > even.max(dim=1).values).all()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(-2, 4), min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_relations_are_the_equation_at_every_pair(clusters, random):
    relations = relation_targets(torch.tensor(clusters))
    m = len(clusters)
    expected = [
        [1.0 if i == j or (clusters[i] == clusters[j] and clusters[i] >= 0) else 0.0 for j in range(m)]
        for i in range(m)
    ]
    assert relations.tolist() == expected
    assert torch.equal(relations, relations.T)
    assert (relations.diagonal() == 1).all()
    order = random.sample(range(m), m)
    assert torch.equal(relation_targets(torch.tensor(clusters)[order]), relations[order][:, order])
    renamed = [c if c < 0 else 10 - c for c in clusters]
    assert torch.equal(relation_targets(torch.tensor(renamed)), relations)


def test_after_a_fallback_every_image_is_related_to_itself_alone():
    assert torch.equal(relation_targets(torch.full((5,), -1)), torch.eye(5))


def separated(sizes, seed=0):
    """Label features around the corners of the simplex, in mixed order, and the corner of each."""
    random = np.random.default_rng(seed)
    corners = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    noise = random.dirichlet(np.ones(len(sizes)), len(corners))
    return torch.tensor(0.9 * np.eye(len(sizes))[corners] + 0.1 * noise, dtype=torch.float32), corners


@pytest.mark.parametrize("sizes", [(20, 20), (30, 20, 10), (10, 11, 12, 13, 14)])
@pytest.mark.parametrize("seed", range(3))
def test_kmeans_finds_clusters_that_stand_apart(sizes, seed):
    features, corners = separated(sizes)
    clusters, fell_back = cluster_label_features(features, seed)
    assert not fell_back
    same = torch.from_numpy(corners[:, None] == corners[None, :]).float()
    assert torch.equal(relation_targets(clusters), same)


def test_same_seed_gives_the_same_clusters_and_the_users_random_state_is_left_alone():
    features = torch.softmax(torch.randn(300, 5, generator=torch.Generator().manual_seed(0)), dim=1)
    np.random.seed(1)  # noqa: NPY002 (the global state is what is tested)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (cluster_label_features(features, seed).clusters for seed in (7, 7, 8))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def test_near_empty_cluster_falls_back_to_no_relations():
    # Of 200 images in two clusters an even split is 100; 5% of it is 5.
    for lonely, expected in [(1, True), (4, True), (5, False), (20, False)]:
        features, _ = separated((200 - lonely, lonely))
        clusters, fell_back = cluster_label_features(features, seed=0)
        assert fell_back is expected, lonely
        assert (clusters == -1).all().item() is expected
    assert NEAR_EMPTY_SHARE == 0.05


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "features",
    [
        torch.full((20, 3), 1 / 3),
        torch.eye(3)[[0] * 20],
        torch.eye(3)[[0] * 10 + [1] * 10],
        torch.tensor([[1.0, 0.0]]),
    ],
    ids=["all the same", "collapsed", "two corners of three", "fewer images than clusters"],
)
def test_fewer_distinct_label_features_than_clusters_is_a_fallback_not_a_crash_or_a_warning(features):
    clusters, fell_back = cluster_label_features(features, seed=0)
    assert fell_back
    assert (clusters == -1).all()
    assert len(clusters) == len(features)


def test_kmeans_does_not_need_label_features_without_gradient():
    features, _ = separated((10, 10))
    clusters = cluster_label_features(features.requires_grad_(), seed=0).clusters
    assert clusters.dtype == torch.int64
    assert set(clusters.tolist()) == {0, 1}
