from __future__ import annotations

import json
import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gatcluster.errors import InputError
from gatcluster.evaluation.metrics import clustering_accuracy, evaluate_clusters

PARTITIONS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=25)


def brute_force_accuracy(labels: list[int], clusters: list[int]) -> float:
    """ACC (A13): the best over every way to name clusters after labels, each label used at most once."""
    names = sorted(set(clusters))
    candidates = [*sorted(set(labels)), *[None] * len(names)]  # None: a cluster that is named after no label
    best = 0
    for naming in set(permutations(candidates, len(names))):
        named = dict(zip(names, naming, strict=True))
        best = max(best, sum(named[q] == r for r, q in zip(labels, clusters, strict=True)))
    return best / len(labels)


def sets_of(partition: list[int]) -> list[set[int]]:
    return [{i for i, part in enumerate(partition) if part == name} for name in sorted(set(partition))]


def nmi_as_written(labels: list[int], clusters: list[int]) -> float:
    """NMI (A15), term by term."""
    n = len(labels)
    upper = sum(
        len(u & v) * math.log(n * len(u & v) / (len(u) * len(v)))
        for u in sets_of(clusters)
        for v in sets_of(labels)
        if u & v
    )
    of_u = sum(len(u) * math.log(len(u) / n) for u in sets_of(clusters))
    of_v = sum(len(v) * math.log(len(v) / n) for v in sets_of(labels))
    return upper / math.sqrt(of_u * of_v)


def ari_as_written(labels: list[int], clusters: list[int]) -> float:
    """ARI (A16), term by term."""
    pairs = sum(math.comb(len(u & v), 2) for u in sets_of(clusters) for v in sets_of(labels))
    of_rows = sum(math.comb(len(u), 2) for u in sets_of(clusters))
    of_columns = sum(math.comb(len(v), 2) for v in sets_of(labels))
    by_chance = of_rows * of_columns / math.comb(len(labels), 2)
    return (pairs - by_chance) / ((of_rows + of_columns) / 2 - by_chance)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_accuracy_is_the_best_of_all_matchings(pairs):
    labels, clusters = map(list, zip(*pairs, strict=True))
    expected = brute_force_accuracy(labels, clusters)
    assert clustering_accuracy(labels, clusters) == pytest.approx(expected)
    assert clustering_accuracy(clusters, labels) == pytest.approx(expected)


def test_accuracy_when_there_are_more_clusters_than_labels():
    # Both labels keep one cluster; the images of clusters 1 and 3 count as wrong.
    assert clustering_accuracy([0, 0, 0, 1, 1, 1], [0, 0, 1, 2, 2, 3]) == pytest.approx(4 / 6)


def test_accuracy_when_there_are_fewer_clusters_than_labels():
    assert clustering_accuracy([0, 0, 1, 1, 2, 2, 2], [0, 0, 0, 0, 1, 1, 1]) == pytest.approx(5 / 7)


def test_accuracy_takes_the_best_matching_and_not_the_first_best_pair():
    # Greedy matching takes the 4 of (0, 0) and leaves 0 of (1, 1): 4. The best is 3 + 3.
    labels = [0] * 7 + [1] * 3
    clusters = [0] * 4 + [1] * 3 + [0] * 3
    assert clustering_accuracy(labels, clusters) == pytest.approx(6 / 10)


@given(PARTITIONS)
@settings(max_examples=100, deadline=None)
def test_nmi_and_ari_are_those_of_the_paper(pairs):
    labels, clusters = map(list, zip(*pairs, strict=True))
    for partition in (labels, clusters):  # in the extremes (A15) or (A16) divides by zero
        assume(1 < len(set(partition)) < len(partition))
    metrics = evaluate_clusters(labels, clusters)
    assert metrics.nmi_geometric == pytest.approx(nmi_as_written(labels, clusters), abs=1e-9)
    assert metrics.ari == pytest.approx(ari_as_written(labels, clusters), abs=1e-9)


def test_scores_worked_out_by_hand():
    metrics = evaluate_clusters(["a", "a", "b", "b"], [0, 0, 0, 1])
    assert metrics.accuracy == 0.75
    # (A15): [2 ln(4·2/(3·2)) + ln(4/(3·2)) + ln(4/(1·2))] / sqrt[(3 ln 3/4 + ln 1/4)(2·2 ln 1/2)]
    upper = 2 * math.log(4 / 3) + math.log(2 / 3) + math.log(2)
    lower = math.sqrt((3 * math.log(3 / 4) + math.log(1 / 4)) * 4 * math.log(1 / 2))
    assert metrics.nmi_geometric == pytest.approx(upper / lower)
    assert metrics.nmi_geometric == pytest.approx(0.345592, abs=1e-6)
    # (A16): pairs 1, rows 3, columns 1 + 1, all 6: (1 - 3·2/6) / ((3 + 2)/2 - 3·2/6) = 0
    assert metrics.ari == pytest.approx(0)


def test_nmi_is_normalised_by_the_geometric_mean_and_not_the_arithmetic_one():
    labels, clusters = [0, 0, 0, 0, 1, 1, 1, 1], [0, 1, 2, 3, 4, 5, 6, 7]
    # Information ln 2, entropies ln 2 and ln 8.
    assert evaluate_clusters(labels, clusters).nmi_geometric == pytest.approx(1 / math.sqrt(3))


@given(PARTITIONS, st.permutations(range(5)), st.permutations(range(5)))
@settings(max_examples=60, deadline=None)
def test_scores_do_not_depend_on_the_names_of_clusters_or_labels(pairs, label_names, cluster_names):
    labels, clusters = map(list, zip(*pairs, strict=True))
    plain = evaluate_clusters(labels, clusters)
    renamed = evaluate_clusters([f"class {label_names[r]}" for r in labels], [cluster_names[q] + 7 for q in clusters])
    for name in ("accuracy", "nmi_geometric", "ari"):
        assert getattr(renamed, name) == pytest.approx(getattr(plain, name), abs=1e-9)


def test_a_perfect_clustering_scores_1_in_everything():
    metrics = evaluate_clusters(["cat", "dog", "cat", "owl"], [2, 0, 2, 1])
    assert (metrics.accuracy, metrics.nmi_geometric, metrics.ari) == pytest.approx((1, 1, 1))


def test_one_cluster_for_everything_tells_nothing():
    metrics = evaluate_clusters([0, 0, 1, 1, 1], [4, 4, 4, 4, 4])
    assert (metrics.accuracy, metrics.nmi_geometric, metrics.ari) == pytest.approx((0.6, 0, 0))


def test_random_clusters_have_an_ari_near_0():
    random = np.random.default_rng(0)
    metrics = evaluate_clusters(random.integers(0, 10, 5000).tolist(), random.integers(0, 10, 5000))
    assert abs(metrics.ari) < 0.01
    assert metrics.accuracy < 0.15


def test_the_numbers_of_images_clusters_and_labels_are_reported():
    metrics = evaluate_clusters(["cat", "cat", "dog"], [1, 8, 8])
    assert (metrics.n_images, metrics.n_clusters_used, metrics.n_labels) == (3, 2, 2)


def test_scores_can_be_written_as_json_and_nmi_names_its_averaging():
    tree = json.loads(json.dumps(evaluate_clusters(["cat", "dog"], np.array([1, 0])).as_json()))
    assert tree["accuracy"] == 1
    assert "nmi_geometric" in tree


def test_another_number_of_labels_than_of_images_is_refused():
    with pytest.raises(InputError, match="2 labels for 3 images"):
        evaluate_clusters(["cat", "dog"], [0, 1, 1])
