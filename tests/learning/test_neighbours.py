"""The neighbour graph and its cuts: against brute force, and on graphs whose parts are known beforehand."""

import tracemalloc
from functools import partial
from itertools import permutations

import numpy as np
import pytest
import scipy.sparse as sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gatcluster.evaluation.metrics import clustering_accuracy
from gatcluster.learning import neighbours as neighbours_module
from gatcluster.learning.neighbours import (
    Neighbours,
    Partition,
    best_partition,
    evenness,
    has_islet,
    least_cut,
    nearest_neighbours,
    normalised_cut,
    renumbered,
    self_tuning_graph,
    smoothed,
    spectral_partition,
)

SOLVERS = {"dense": 10_000, "sparse": 0}  # and the size up to which the whole spectrum is computed


@pytest.fixture(params=SOLVERS.values(), ids=SOLVERS)
def _each_solver(request, monkeypatch):
    monkeypatch.setattr(neighbours_module, "_DENSE_SIZE", request.param)


def random_embedding(n, d=5, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def blobs(sizes, spread=0.1, seed=0, d=8):
    """Embeddings about orthogonal directions, mixed up, and which direction each is of."""
    random = np.random.default_rng(seed)
    labels = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    points = np.eye(d)[labels] + spread * random.normal(size=(len(labels), d))
    return torch.from_numpy(points.astype(np.float32)), labels


def separate_cliques(sizes, seed=0):
    """A graph (N, N) of one clique of random weights for each size, no edge between them."""
    random = np.random.default_rng(seed)
    labels = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    weights = random.uniform(0.2, 1, (len(labels), len(labels)))
    weights = (weights + weights.T) * (labels[:, None] == labels)
    np.fill_diagonal(weights, 0)
    return sparse.csr_matrix(weights), labels


def graph_of(edges, n_images):
    """A symmetric graph from {(i, j): weight}."""
    weights = np.zeros((n_images, n_images))
    for (i, j), weight in edges.items():
        weights[i, j] = weights[j, i] = weight
    return sparse.csr_matrix(weights)


# Nearest neighbours.


@settings(deadline=None, max_examples=50)
@given(n=st.integers(2, 30), d=st.integers(1, 6), seed=st.integers(0, 10_000), data=st.data())
def test_neighbours_are_those_of_brute_force(n, d, seed, data):
    n_neighbours = data.draw(st.integers(1, n - 1))
    embedding = random_embedding(n, d, seed)
    found = nearest_neighbours(embedding, n_neighbours)
    unit = embedding.numpy().astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    distances = np.linalg.norm(unit[:, None] - unit[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert found.indices.shape == found.distances.shape == (n, n_neighbours)
    # By distance rather than index: with d = 1 there are ties.
    np.testing.assert_allclose(found.distances, np.sort(distances, axis=1)[:, :n_neighbours], atol=2e-3)
    np.testing.assert_allclose(found.distances, np.take_along_axis(distances, found.indices, axis=1), atol=2e-3)
    for i, row in enumerate(found.indices.tolist()):
        assert i not in row
        assert len(set(row)) == n_neighbours


def test_distances_worked_by_hand():
    # Directions at 0, 60 and 180 degrees, of any length: chords of 60, 120 and 180 degrees are 1, √3 and 2.
    embedding = torch.tensor([[2.0, 0.0], [0.5, np.sqrt(3) / 2], [-3.0, 0.0]])
    found = nearest_neighbours(embedding, 2)
    assert found.indices.tolist() == [[1, 2], [0, 2], [1, 0]]
    expected = [[1, 2], [1, np.sqrt(3)], [np.sqrt(3), 2]]
    np.testing.assert_allclose(found.distances, expected, rtol=1e-5)


@pytest.mark.parametrize("similarities_at_a_time", [1, 50, 51 * 7, 51 * 50, 10**6])
def test_memory_limit_does_not_change_the_neighbours(monkeypatch, similarities_at_a_time):
    embedding = random_embedding(51)
    whole = nearest_neighbours(embedding, 9)
    monkeypatch.setattr(neighbours_module, "_SIMILARITIES_AT_A_TIME", similarities_at_a_time)
    parts = nearest_neighbours(embedding, 9)
    np.testing.assert_array_equal(parts.indices, whole.indices)
    np.testing.assert_allclose(parts.distances, whole.distances, atol=1e-6)


def test_an_image_is_not_its_own_neighbour_even_among_copies_of_it():
    found = nearest_neighbours(torch.ones(6, 3), 5)
    assert [sorted(row) for row in found.indices.tolist()] == [[j for j in range(6) if j != i] for i in range(6)]
    assert (found.distances < 1e-3).all()
    assert np.isfinite(found.distances).all()


def test_all_zero_embeddings_have_finite_distances():
    assert np.isfinite(nearest_neighbours(torch.zeros(4, 3), 2).distances).all()


def test_nearest_keeps_the_first_ones():
    found = nearest_neighbours(random_embedding(20), 6)
    fewer = found.nearest(2)
    np.testing.assert_array_equal(fewer.indices, nearest_neighbours(random_embedding(20), 2).indices)
    np.testing.assert_array_equal(fewer.distances, found.distances[:, :2])


# The graph.


@pytest.mark.parametrize("n_neighbours", [1, 3, 7, 10])
def test_edges_fade_with_distance_by_the_scale_of_both_ends(n_neighbours):
    found = nearest_neighbours(random_embedding(25), n_neighbours)
    expected = np.zeros((25, 25))
    scale = [row[min(7, n_neighbours) - 1] for row in found.distances.astype(float)]
    for i in range(25):
        for j, distance in zip(found.indices[i], found.distances[i].astype(float), strict=True):
            weight = np.exp(-(distance**2) / (scale[i] * scale[j]))
            expected[i, j] += weight / 2
            expected[j, i] += weight / 2
    graph = self_tuning_graph(found).toarray()
    np.testing.assert_allclose(graph, expected, rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(graph, graph.T)
    assert not graph.diagonal().any()
    assert graph.max() <= 1


def test_weights_do_not_depend_on_the_unit_of_distance():
    found = nearest_neighbours(random_embedding(25), 8)
    tighter = Neighbours(found.indices, found.distances * np.float32(0.01))
    np.testing.assert_allclose(self_tuning_graph(tighter).toarray(), self_tuning_graph(found).toarray(), rtol=1e-4)


def test_copies_of_images_have_finite_and_strong_edges():
    embedding = random_embedding(6).repeat(4, 1)  # each image four times
    embedding[-1] = 1.0
    found = nearest_neighbours(embedding, 8)
    exact = Neighbours(found.indices, np.where(found.distances < 1e-2, 0, found.distances).astype(np.float32))
    for some in (found, exact, Neighbours(found.indices, np.zeros_like(found.distances))):
        graph = self_tuning_graph(some)
        assert np.isfinite(graph.data).all()
        assert (graph.data >= 0).all()
    assert self_tuning_graph(exact)[0, 6] == 1


# Cuts.


@pytest.mark.usefixtures("_each_solver")
@pytest.mark.parametrize("ridge", [0.3, 1.0])
@pytest.mark.parametrize("sizes", [(30, 30), (60, 40, 20), (25, 25, 25, 25, 25)])
def test_well_separated_blobs_are_the_parts(sizes, ridge):
    embedding, labels = blobs(sizes)
    graph = self_tuning_graph(nearest_neighbours(embedding, 10))
    assert clustering_accuracy(labels, spectral_partition(graph, len(sizes), ridge, seed=0)) == 1


# Without a ridge, components have one eigenvalue in common; only the dense solver finds all vectors of it for certain.
@pytest.mark.parametrize(("solver", "ridge"), [("dense", 0.0), ("dense", 0.3), ("sparse", 0.3), ("sparse", 1.0)])
@pytest.mark.parametrize("sizes", [(20, 20), (12, 25, 40), (15, 15, 15, 15)])
def test_components_of_a_graph_are_its_parts(monkeypatch, sizes, solver, ridge):
    monkeypatch.setattr(neighbours_module, "_DENSE_SIZE", SOLVERS[solver])
    graph, labels = separate_cliques(sizes)
    assert clustering_accuracy(labels, spectral_partition(graph, len(sizes), ridge, seed=0)) == 1


def test_dense_and_sparse_solver_cut_alike_where_clusters_touch(monkeypatch):
    embedding, labels = blobs((80, 60, 50), spread=0.3)
    graph = self_tuning_graph(nearest_neighbours(embedding, 15))
    parts = []
    for size in SOLVERS.values():
        monkeypatch.setattr(neighbours_module, "_DENSE_SIZE", size)
        parts.append(spectral_partition(graph, 3, 0.3, seed=0))
    assert clustering_accuracy(*parts) >= 0.99
    assert 0.8 < clustering_accuracy(labels, parts[0]) < 1  # neither too easy to differ, nor hopeless


@pytest.mark.usefixtures("_each_solver")
def test_a_ridge_keeps_an_islet_of_three_images_from_being_a_part():
    # Two clusters of 20 with many weak edges between them, and three images that hang by one thin edge.
    labels = np.repeat([0, 1, 2], [20, 20, 3])
    edges = {
        (i, j): 1.0 if labels[i] == labels[j] else 0.05
        for i in range(43)
        for j in range(i)
        if labels[i] == labels[j] or 2 not in (labels[i], labels[j])
    }
    graph = graph_of(edges | {(0, 40): 0.01}, 43)
    without = spectral_partition(graph, 2, ridge=0.0, seed=0)
    assert sorted(np.bincount(without)) == [3, 40]
    with_ridge = spectral_partition(graph, 2, ridge=0.3, seed=0)
    assert clustering_accuracy(labels[:40], with_ridge[:40]) == 1


@pytest.mark.usefixtures("_each_solver")
def test_same_seed_is_the_same_cut_bit_for_bit():
    graph = self_tuning_graph(nearest_neighbours(random_embedding(120), 8))
    first = spectral_partition(graph, 5, 0.3, seed=3)
    np.testing.assert_array_equal(spectral_partition(graph, 5, 0.3, seed=3), first)
    assert any(not np.array_equal(spectral_partition(graph, 5, 0.3, seed), first) for seed in (4, 5, 6))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("n", [2, 3, 4, 9])
def test_as_many_parts_as_images_puts_each_in_its_own(n, ridge):
    graph = self_tuning_graph(nearest_neighbours(random_embedding(n), min(3, n - 1)))
    assert sorted(spectral_partition(graph, n, ridge, seed=0)) == list(range(n))


@pytest.mark.usefixtures("_each_solver")
@pytest.mark.parametrize(("n", "k"), [(3, 2), (4, 3), (9, 8)])
def test_one_image_more_than_parts_is_cut_without_complaint(n, k):
    graph = self_tuning_graph(nearest_neighbours(random_embedding(n), min(3, n - 1)))
    parts = spectral_partition(graph, k, 0.3, seed=0)
    assert sorted(set(parts)) == list(range(k))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.usefixtures("_each_solver")
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_copies_of_one_image_are_cut_somehow(ridge):
    graph = self_tuning_graph(nearest_neighbours(torch.ones(40, 3), 10))
    parts = spectral_partition(graph, 3, ridge, seed=0)
    assert parts.shape == (40,)
    assert set(parts) <= {0, 1, 2}


def test_a_graph_without_edges_is_cut_somehow():
    parts = spectral_partition(sparse.csr_matrix((6, 6)), 2, 0.3, seed=0)
    assert set(parts) <= {0, 1}


# Choosing, smoothing, numbering.


@settings(deadline=None, max_examples=40)
@given(n=st.integers(4, 25), k=st.integers(1, 5), seed=st.integers(0, 1000))
def test_the_normalised_cut_is_that_of_a_loop_over_edges(n, k, seed):
    graph = self_tuning_graph(nearest_neighbours(random_embedding(n, seed=seed), 3))
    parts = np.random.default_rng(seed).integers(0, k, n)
    dense, shares = graph.toarray(), []
    for part in range(k):
        edges = [(i, j) for i in range(n) for j in range(n) if parts[i] == part]
        all_weight = sum(dense[edge] for edge in edges)
        leaving = sum(dense[i, j] for i, j in edges if parts[j] != part)
        shares.append(leaving / all_weight if all_weight else 1)
    assert normalised_cut(graph, parts, k) == pytest.approx(np.mean(shares))


def test_a_part_is_an_islet_below_a_quarter_of_an_even_share():
    assert not has_islet(np.repeat([0, 1, 2], [10, 55, 55]), 3)  # an even share is 40
    assert has_islet(np.repeat([0, 1, 2], [9, 55, 56]), 3)
    assert has_islet(np.repeat([0, 2], [60, 60]), 3)  # an empty part


def test_the_cut_that_leaves_most_whole_is_chosen_whatever_its_numbers():
    graph, labels = separate_cliques((30, 40, 50))
    halved = np.where(labels == 2, np.arange(120) % 2 + 1, labels)
    for turn in range(3):
        assert least_cut([graph], [halved, (labels + turn) % 3, (halved + 1) % 3], 3) == 1
    assert least_cut([graph], [labels, labels.copy()], 3) == 0  # the first of equals


def test_the_cut_is_chosen_by_all_graphs_together():
    pairs, crosses = graph_of({(0, 1): 1.0, (2, 3): 1.0}, 4), graph_of({(0, 2): 1.0, (1, 3): 1.0}, 4)
    by_pairs, by_crosses = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    assert least_cut([pairs, crosses, pairs], [by_crosses, by_pairs], 2) == 1
    assert least_cut([pairs, crosses, crosses], [by_crosses, by_pairs], 2) == 0


def test_evenness_is_the_entropy_of_the_sizes():
    assert evenness(np.repeat([0, 1, 2], [1, 1, 2]), 3) == pytest.approx(1.5 * np.log(2) / np.log(3))
    assert evenness(np.repeat([0, 2], [5, 5]), 4) == pytest.approx(0.5)  # as even as two parts can be, but of four
    assert evenness(np.arange(7), 7) == pytest.approx(1)


def test_of_cuts_that_cost_about_the_same_the_more_even_is_kept_and_a_far_cheaper_one_all_the_same():
    # A chain of four groups; the first is a little less tied to its neighbour than the two halves are to each other.
    def chain(first, middle):
        groups, labels = separate_cliques((20, 20, 20, 20))
        joined = groups.tolil()
        for group, weight in ((0, first), (1, middle), (2, 1.0)):
            for one, other in zip(np.flatnonzero(labels == group), np.flatnonzero(labels == group + 1), strict=True):
                joined[one, other] = joined[other, one] = weight
        return joined.tocsr(), np.minimum(labels, 1), labels // 2

    graph, uneven, halves = chain(first=0.6, middle=1.0)
    assert normalised_cut(graph, uneven, 2) < normalised_cut(graph, halves, 2)
    assert least_cut([graph], [uneven, halves], 2) == 1
    graph, uneven, halves = chain(first=0.1, middle=1.0)
    assert least_cut([graph], [halves, uneven], 2) == 1


def test_an_islet_is_believed_only_if_most_cuts_have_it():
    # Three kinds, of which the last two touch, and four loose images: to cut these off and join two kinds costs less.
    graph, labels = separate_cliques((4, 40, 40, 40))
    touching = graph.tolil()
    for one, other in zip(np.flatnonzero(labels == 2), np.flatnonzero(labels == 3), strict=True):
        touching[one, other] = touching[other, one] = 1.0
    touching = touching.tocsr()
    islet, kinds = np.minimum(labels, 2), np.maximum(labels, 1) - 1
    assert normalised_cut(touching, islet, 3) < normalised_cut(touching, kinds, 3)
    assert least_cut([touching], [islet, kinds], 3) == 1
    assert least_cut([touching], [islet, kinds, islet, kinds], 3) == 1
    assert least_cut([touching], [kinds, islet, islet], 3) == 1


def test_an_image_among_images_of_another_part_moves_there():
    labels = np.repeat([0, 1], 6)
    edges = {(i, j): 1.0 for i in range(12) for j in range(i) if labels[i] == labels[j]}
    wrong = labels.copy()
    wrong[2] = 1
    parts, confidence = smoothed(graph_of(edges, 12), wrong, 2)
    np.testing.assert_array_equal(parts, labels)
    # Two steps lead from a right image of part 0 to image 2 with chance 4/25: the four ways that go by another image.
    np.testing.assert_allclose(confidence[[0, 2]], [2 * (1 - 4 / 25) - 1, 2 * (1 - 5 / 25) - 1], rtol=1e-6)
    np.testing.assert_allclose(confidence[6:], 1)


def test_confidence_is_0_between_two_parts_and_1_inside_one():
    # 0 - 1 - 2 - 3 - 4, the middle one torn between both ends.
    graph = graph_of({(0, 1): 1.0, (1, 2): 1.0, (2, 3): 1.0, (3, 4): 1.0}, 5)
    _, confidence = smoothed(graph, np.array([0, 0, 0, 1, 1]), 2)
    # Two steps from the middle end in 0 or 4 a quarter of the time each, else where they began: 3/4 in part 0.
    assert confidence[2] == pytest.approx(0.5)
    _, confidence = smoothed(graph, np.array([0, 1, 0, 1, 1]), 2)  # an end, and two steps on: all the same part
    assert confidence[0] == pytest.approx(1)


@settings(deadline=None, max_examples=40)
@given(n=st.integers(4, 25), k=st.integers(2, 5), seed=st.integers(0, 1000))
def test_confidence_stays_between_0_and_1(n, k, seed):
    graph = self_tuning_graph(nearest_neighbours(random_embedding(n, seed=seed), 3))
    partition = smoothed(graph, np.random.default_rng(seed).integers(0, k, n), k)
    assert partition.parts.shape == partition.confidence.shape == (n,)
    assert ((partition.confidence >= 0) & (partition.confidence <= 1)).all()
    assert ((partition.parts >= 0) & (partition.parts < k)).all()


def test_an_image_without_edges_has_no_confidence():
    partition = smoothed(graph_of({(0, 1): 1.0}, 3), np.array([0, 0, 1]), 2)
    assert partition.confidence[2] == 0
    assert np.isfinite(partition.confidence).all()


@settings(deadline=None, max_examples=60)
@given(
    st.integers(2, 6).flatmap(
        lambda k: st.tuples(st.permutations(range(k)), arrays(np.int64, 20, elements=st.integers(0, k - 1)))
    )
)
def test_the_same_partition_under_other_numbers_gets_its_numbers_back(case):
    permutation, before = case
    confidence = np.linspace(0, 1, len(before), dtype=np.float32)
    again = renumbered(Partition(np.array(permutation)[before], confidence), before, len(permutation))
    np.testing.assert_array_equal(again.parts, before)
    np.testing.assert_array_equal(again.confidence, confidence)


@settings(deadline=None, max_examples=60)
@given(arrays(np.int64, 20, elements=st.integers(0, 3)), arrays(np.int64, 20, elements=st.integers(0, 3)))
def test_new_numbers_keep_the_parts_and_as_many_images_as_possible(parts, before):
    again = renumbered(Partition(parts, np.ones(20, np.float32)), before, 4).parts
    np.testing.assert_array_equal(again[:, None] == again, parts[:, None] == parts)
    counts = {tuple(pair): 0 for pair in np.ndindex(4, 4)}
    for pair in zip(parts.tolist(), before.tolist(), strict=True):
        counts[pair] += 1
    best = max(sum(counts[part, number] for part, number in enumerate(order)) for order in permutations(range(4)))
    assert (again == before).sum() == best


# All of it.


@pytest.mark.parametrize("sizes", [(40, 40), (60, 25, 12), (90, 10)])
def test_clusters_of_an_embedding_are_found_with_confidence(sizes):
    embedding, labels = blobs(sizes)
    found = nearest_neighbours(embedding, 20)
    partition = best_partition(found, len(sizes), sizes=(8, 12, 20), ridges=(0.3, 1.0), seed=0)
    assert clustering_accuracy(labels, partition.parts) == 1
    assert partition.confidence.mean() > 0.8


def test_a_single_right_cut_is_chosen_among_wrong_ones(monkeypatch):
    embedding, labels = blobs((40, 40, 40), spread=0.02)
    wrong = np.where(labels == 2, np.arange(120) % 2 * 2, np.minimum(labels, 1))

    def hardly_ever_right(graph, n_clusters, ridge, seed):
        return labels if ridge == 1.5 else wrong

    monkeypatch.setattr(neighbours_module, "spectral_partition", hardly_ever_right)
    found = nearest_neighbours(embedding, 20)
    partition = best_partition(found, 3, sizes=(8, 12), ridges=(0.3, 1.0, 1.5, 2.0), seed=0)
    assert clustering_accuracy(labels, partition.parts) == 1


def test_once_it_is_enough_no_further_cut_is_made(monkeypatch):
    embedding, labels = blobs((40, 40, 40), spread=0.02)
    made: list[tuple[int, float]] = []

    def noted(graph, n_clusters, ridge, seed):
        made.append((graph.getnnz(), ridge))
        return labels

    monkeypatch.setattr(neighbours_module, "spectral_partition", noted)
    found = nearest_neighbours(embedding, 20)
    options = {"sizes": (8, 12), "ridges": (0.3, 1.0), "seed": 0}
    best_partition(found, 3, **options)
    everything = made.copy()
    assert len(everything) == 4
    for most in (1, 3):
        made.clear()
        partition = best_partition(found, 3, **options, is_enough=lambda most=most: len(made) >= most)
        assert made == everything[:most]
        assert clustering_accuracy(labels, partition.parts) == 1


def test_an_image_between_two_clusters_is_less_sure_than_those_inside():
    embedding, _ = blobs((40, 40), spread=0.05, d=3)
    between = torch.tensor([[1.0, 1.0, 0.0]])
    found = nearest_neighbours(torch.cat([embedding, between]), 10)
    partition = best_partition(found, 2, sizes=(10,), ridges=(0.3,), seed=0)
    assert partition.confidence[-1] < np.median(partition.confidence[:-1])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("n", "k"), [(2, 2), (3, 2), (5, 2), (5, 5), (12, 11)])
def test_a_handful_of_images_is_partitioned(n, k):
    found = nearest_neighbours(random_embedding(n), min(30, n - 1))
    partition = best_partition(found, k, sizes=(15, 20, 30), ridges=(0.3, 1.0), seed=0)
    assert set(partition.parts) <= set(range(k))
    assert np.isfinite(partition.confidence).all()


# Landmarks.


def test_landmarks_are_all_images_or_a_random_few():
    random = np.random.default_rng(0)
    assert neighbours_module.choose_landmarks(random_embedding(5), 2, 5, random).tolist() == [0, 1, 2, 3, 4]
    many = random_embedding(1000)
    few = neighbours_module.choose_landmarks(many, 2, 50, random)
    assert len(few) == 50
    assert (np.diff(few) > 0).all()
    assert few.max() < 1000
    assert not np.array_equal(few, neighbours_module.choose_landmarks(many, 2, 50, random))
    assert len(neighbours_module.choose_landmarks(many, 40, 50, random)) == 80


def test_of_copies_one_is_a_landmark_unless_hardly_anything_else_is_there():
    five = random_embedding(5)
    copies = five[[0, 1, 0, 2, 1, 3, 4, 4]] * torch.tensor([1.0, 1, 3, 1, 1 + 1e-6, 1, 1, 1])[:, None]
    choose = partial(neighbours_module.choose_landmarks, copies, random=np.random.default_rng(0))
    assert choose(n_clusters=4, most=100).tolist() == [0, 1, 3, 5, 6]
    assert set(choose(n_clusters=2, most=3)) < {0, 1, 3, 5, 6}
    assert choose(n_clusters=5, most=100).tolist() == list(range(8))


def test_copies_of_images_do_not_take_them_out_of_their_clusters():
    embedding, labels = blobs((60, 50, 70), spread=0.15)
    counts = np.where(np.arange(180) % 4 == 0, 30, 1)  # more copies than the graph has neighbours
    copied, kinds = embedding[np.repeat(np.arange(180), counts)], np.repeat(labels, counts)
    accuracies = []
    for landmarks in (neighbours_module.choose_landmarks(copied, 3, 10_000, np.random.default_rng(0)), None):
        found = nearest_neighbours(copied, 12, landmarks)
        partition = best_partition(found, 3, sizes=(8, 12), ridges=(0.3, 1.0), seed=0, landmarks=landmarks)
        accuracies.append(clustering_accuracy(kinds, partition.parts))
    assert accuracies[0] == 1
    assert accuracies[1] < 0.7


@settings(deadline=None, max_examples=30)
@given(n=st.integers(6, 40), n_landmarks=st.integers(3, 6), seed=st.integers(0, 10_000))
def test_neighbours_among_landmarks_are_those_of_brute_force(n, n_landmarks, seed):
    embedding = random_embedding(n, seed=seed)
    landmarks = neighbours_module.choose_landmarks(embedding, 2, n_landmarks, np.random.default_rng(seed))
    found = nearest_neighbours(embedding, 2, landmarks)
    unit = torch.nn.functional.normalize(embedding, dim=1).numpy()
    for i in range(n):
        others = [j for j in landmarks if j != i]
        nearest = sorted(others, key=lambda j: np.linalg.norm(unit[i] - unit[j]))[:2]
        assert found.indices[i].tolist() == nearest


def test_with_all_images_as_landmarks_nothing_changes():
    embedding, _ = blobs((40, 30, 50))
    everything = np.arange(120)
    plain, among = nearest_neighbours(embedding, 20), nearest_neighbours(embedding, 20, everything)
    np.testing.assert_array_equal(plain.indices, among.indices)
    choices = {"sizes": (8, 12), "ridges": (0.3,), "seed": 0}
    one, other = best_partition(plain, 3, **choices), best_partition(among, 3, **choices, landmarks=everything)
    np.testing.assert_array_equal(one.parts, other.parts)
    np.testing.assert_array_equal(one.confidence, other.confidence)


def test_images_that_are_no_landmarks_follow_their_neighbours():
    embedding, labels = blobs((300, 200, 250), spread=0.15)
    landmarks = neighbours_module.choose_landmarks(embedding, 3, 150, np.random.default_rng(1))
    found = nearest_neighbours(embedding, 20, landmarks)
    partition = best_partition(found, 3, sizes=(8, 12), ridges=(0.3, 1.0), seed=0, landmarks=landmarks)
    assert clustering_accuracy(labels, partition.parts) == 1
    assert partition.confidence.shape == (750,)
    assert partition.confidence.mean() > 0.9


def test_memberships_spread_in_three_times_their_size():
    # memory.py counts on it.
    n, k = 20_000, 60
    embedding = torch.from_numpy(np.random.default_rng(0).standard_normal((n, 4), np.float32))
    landmarks = np.arange(0, n, 20)
    found = nearest_neighbours(embedding, 3, landmarks)
    membership = np.full((len(landmarks), k), 1 / k)
    tracemalloc.start()
    neighbours_module.spread_membership(found, landmarks, membership)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.1 * 3 * 8 * n * k


def test_memberships_spread_by_hand():
    # Landmarks 0 and 2 belong to one part each; image 1 lies at equal distance from both, image 3 upon landmark 2.
    distances = np.array([[1, 1], [1, 1], [1, 1], [0, 1]], dtype=np.float32)
    found = Neighbours(np.array([[2, 0], [0, 2], [0, 2], [2, 0]], dtype=np.int32), distances)
    spread = neighbours_module.spread_membership(found, np.array([0, 2]), np.eye(2))
    np.testing.assert_allclose(spread[:3], [[1, 0], [0.5, 0.5], [0, 1]], atol=1e-6)
    near, far = 1, np.exp(-1)  # the scale of every image is 1
    np.testing.assert_allclose(spread[3], np.array([far, near]) / (near + far), atol=1e-6)
