"""The neighbour graph of an embedding and its spectral partition: where `fast` takes relations from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import linear_sum_assignment
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.cluster import KMeans
from threadpoolctl import ThreadpoolController
from torch import Tensor

_TINY = 1e-12
_SAME = 1e-3  # unit vectors that agree to this in every direction are those of one image
_SIMILARITIES_AT_A_TIME = 2**23  # 32 MB of them
_LEAST_NEIGHBOURS = 3
_SCALE_NEIGHBOUR = 7  # the distance to the seventh neighbour is the scale of an image's surroundings
_SMOOTHING_STEPS = 2
_ISLET_SHARE = 0.25  # of an even share: a smaller part is an islet
_DENSE_SIZE = 400  # up to so many images the whole spectrum is quicker, and always converges


class Neighbours(NamedTuple):
    """The nearest neighbours of N images, nearest first."""

    indices: NDArray[np.int32]  # (N, n)
    distances: NDArray[np.float32]  # (N, n), between unit vectors

    def nearest(self, n: int) -> Neighbours:
        """Only the first n of each image."""
        return Neighbours(self.indices[:, :n], self.distances[:, :n])


class Partition(NamedTuple):
    """A cut of a graph into k parts."""

    parts: NDArray[np.int64]  # (N,)
    confidence: NDArray[np.float32]  # (N,), 0 where the surroundings are split evenly, 1 where they are all in one part


def choose_landmarks(embedding: Tensor, n_clusters: int, most: int, random: np.random.Generator) -> NDArray[np.int64]:
    """The images that a graph is made of, in rising order: all that differ, or of many a random ``most``.

    Copies of an image would have only each other for neighbours, and be cut off from all others like them. They follow
    the one that stands for them. Where not even ``n_clusters`` images differ, all are landmarks.

    Args:
        embedding: (N, d).
        n_clusters: k.
        most: how many landmarks there may be; twice k at the least, so that there is something to cut.
        random: draws them.
    """
    most = max(most, 2 * n_clusters)
    landmarks = distinct_rows(embedding)
    if len(landmarks) <= n_clusters:
        landmarks = np.arange(len(embedding))
    return landmarks if len(landmarks) <= most else np.sort(random.permutation(landmarks)[:most])


def distinct_rows(embedding: Tensor) -> NDArray[np.int64]:
    """The first of each direction among the rows of an embedding (N, d), in rising order.

    >>> distinct_rows(torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 1.0], [1.0, 0.1]])).tolist()
    [0, 1, 4]
    """
    directions = torch.nn.functional.normalize(embedding, dim=1)
    steps = (directions / _SAME).round().to(torch.int16).numpy()
    return np.sort(np.unique(steps, axis=0, return_index=True)[1])


def nearest_neighbours(embedding: Tensor, n_neighbours: int, landmarks: NDArray[np.int64] | None = None) -> Neighbours:
    """The ``n_neighbours`` rows of greatest cosine with each row of an embedding (N, d), itself left out.

    Args:
        embedding: (N, d).
        n_neighbours: how many; fewer than there are landmarks.
        landmarks: the rows, in rising order, that may be neighbours; all by default.

    >>> nearest_neighbours(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), 1).indices.ravel().tolist()
    [1, 0, 1]
    """
    n_images = len(embedding)
    if landmarks is None:
        landmarks = np.arange(n_images)
    column = np.full(n_images, -1)  # of each image among the landmarks
    column[landmarks] = np.arange(len(landmarks))
    others = torch.nn.functional.normalize(embedding[torch.from_numpy(landmarks)], dim=1)
    found = Neighbours(np.empty((n_images, n_neighbours), np.int32), np.empty((n_images, n_neighbours), np.float32))
    rows_at_a_time = max(1, _SIMILARITIES_AT_A_TIME // len(landmarks))
    for start in range(0, n_images, rows_at_a_time):
        rows = slice(start, start + rows_at_a_time)
        cosines = torch.nn.functional.normalize(embedding[rows], dim=1) @ others.T
        own = column[rows]
        itself = np.flatnonzero(own >= 0)
        cosines[itself, own[itself]] = -torch.inf
        nearest = cosines.topk(n_neighbours, dim=1)
        found.indices[rows] = landmarks[nearest.indices.numpy()]
        found.distances[rows] = (2 - 2 * nearest.values).clamp_min(0).sqrt().numpy()
    return found


def self_tuning_graph(neighbours: Neighbours) -> sparse.csr_matrix:
    """A symmetric graph (N, N) whose edges fade with distance, measured by the scale of each end's surroundings.

    The weight of an edge is exp(-d² / (s_i s_j)), s being the distance to the seventh neighbour (Zelnik-Manor and
    Perona, "Self-tuning spectral clustering", 2004), so that dense and loose clusters are cut alike.
    """
    n_images, n = neighbours.indices.shape
    weights = _weights(neighbours, _scales(neighbours))
    rows = np.repeat(np.arange(n_images), n)
    directed = sparse.csr_matrix((weights.ravel(), (rows, neighbours.indices.ravel())), shape=(n_images, n_images))
    return sparse.csr_matrix((directed + directed.T) / 2)


def _scales(neighbours: Neighbours) -> NDArray[np.float64]:
    """The scale of each image's surroundings, (N,)."""
    n = neighbours.distances.shape[1]
    return neighbours.distances[:, min(_SCALE_NEIGHBOUR, n) - 1].astype(np.float64)


def _weights(neighbours: Neighbours, scales: NDArray[np.float64]) -> NDArray[np.float64]:
    """exp(-d² / (s_i s_j)) for each image and each of its neighbours, (N, n)."""
    squares = neighbours.distances.astype(np.float64) ** 2
    return np.exp(-squares / (scales[:, None] * scales[neighbours.indices] + _TINY))


def spectral_partition(graph: sparse.csr_matrix, n_clusters: int, ridge: float, seed: int) -> NDArray[np.int64]:
    """Cut a graph into parts that few edges cross: the normalised cut, regularised.

    Args:
        graph: (N, N), symmetric.
        n_clusters: k, how many parts.
        ridge: every pair of images is joined by this share of the mean degree, spread over all pairs. Without it, a
            loose islet of a few images would be cut off as a part of its own.
        seed: fixes the starts of the eigensolver and of k-means.

    Returns:
        (N,), the part of each image.
    """
    n_images = graph.shape[0]
    degree = np.asarray(graph.sum(axis=1)).ravel()
    added = ridge * degree.mean()
    scale = 1 / np.sqrt(np.maximum(degree + added, _TINY))
    scaled = sparse.diags(scale) @ graph @ sparse.diags(scale)

    with ThreadpoolController().limit(limits=1):  # several threads would add in any order, and change the last digits
        vectors = _leading_eigenvectors(scaled, np.sqrt(added / n_images) * scale, n_clusters, seed)
        rows = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _TINY)  # (N, k)
        return np.asarray(KMeans(n_clusters, n_init=10, random_state=seed).fit_predict(rows), dtype=np.int64)


def _leading_eigenvectors(
    matrix: sparse.csr_matrix, ridge: NDArray[np.float64], count: int, seed: int
) -> NDArray[np.float64]:
    """Eigenvectors (N, count) of the largest eigenvalues of ``matrix`` (N, N) + ``ridge`` ``ridge``ᵀ."""
    n = len(ridge)
    if n <= _DENSE_SIZE:
        return np.asarray(eigh(matrix.toarray() + np.outer(ridge, ridge), subset_by_index=(n - count, n - 1))[1])
    operator = LinearOperator((n, n), matvec=lambda v: matrix @ v + ridge * (ridge @ v), dtype=np.float64)
    start = np.random.default_rng(seed).random(n)
    count = min(count, n - 1)
    try:
        vectors = eigsh(operator, k=count, which="LA", v0=start, tol=1e-6, maxiter=5000)[1]
    except ArpackNoConvergence:  # roughly is better than not at all: the cut is one of several
        vectors = eigsh(operator, k=count, which="LA", v0=start, tol=1e-2, maxiter=50_000)[1]
    return np.asarray(vectors)


def normalised_cut(graph: sparse.csr_matrix, parts: NDArray[np.int64], n_clusters: int) -> float:
    """The share of a part's edges that leave it, mean over the parts; of an empty part, 1.

    Args:
        graph: (N, N), symmetric.
        parts: (N,), the part of each image.
        n_clusters: k, how many parts.

    >>> chain = sparse.csr_matrix(np.eye(4, k=1) + np.eye(4, k=-1))
    >>> round(normalised_cut(chain, np.array([0, 0, 1, 1]), 2), 3), normalised_cut(chain, np.zeros(4, int), 2)
    (0.333, 0.5)
    """
    edges = graph.tocoo()
    within = parts[edges.row] == parts[edges.col]
    weight = np.bincount(parts[edges.row], edges.data, n_clusters)
    kept = np.bincount(parts[edges.row][within], edges.data[within], n_clusters)
    return float(np.mean(1 - kept / np.maximum(weight, _TINY)))


def has_islet(parts: NDArray[np.int64], n_clusters: int) -> bool:
    """Whether one of k parts (N,) is far smaller than an even share.

    >>> has_islet(np.repeat([0, 1], [3, 7]), 2), has_islet(np.repeat([0, 1], [1, 9]), 2)
    (False, True)
    """
    return bool(np.bincount(parts, minlength=n_clusters).min() < _ISLET_SHARE * len(parts) / n_clusters)


def evenness(parts: NDArray[np.int64], n_clusters: int) -> float:
    """How even the sizes of k parts (N,) are: their entropy, 1 where all are the same, 0 where one part is all.

    >>> evenness(np.array([0, 0, 1, 1]), 2), evenness(np.zeros(4, int), 2)
    (1.0, 0.0)
    """
    shares = np.bincount(parts, minlength=n_clusters) / len(parts)
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum() / np.log(n_clusters)) + 0.0  # not -0.0


def least_cut(graphs: Sequence[sparse.csr_matrix], cuts: Sequence[NDArray[np.int64]], n_clusters: int) -> int:
    """Which of several cuts leaves most of the graphs whole: that of the least normalised cut, mean over the graphs.

    A small part is cheaply cut off, although another then has to hold two kinds. So the cost of a cut is divided by its
    evenness: of cuts that cost about the same, the one of more even parts is kept, as the paper's L_E would have it.
    And cuts with an islet are left out, unless most cuts have one: then it is a kind of its own.

    Args:
        graphs: (N, N) each, of the same images.
        cuts: (N,) each, the part of each image.
        n_clusters: k, how many parts.
    """
    islets = np.array([has_islet(parts, n_clusters) for parts in cuts])
    costs = [
        np.mean([normalised_cut(graph, parts, n_clusters) for graph in graphs])
        / max(evenness(parts, n_clusters), _TINY)
        for parts in cuts
    ]
    return int(np.argmin(np.where(islets & (islets.mean() <= 0.5), np.inf, costs)))


def best_partition(
    neighbours: Neighbours,
    n_clusters: int,
    sizes: Sequence[int],
    ridges: Sequence[float],
    seed: int,
    landmarks: NDArray[np.int64] | None = None,
    is_enough: Callable[[], bool] = lambda: False,
) -> Partition:
    """Cut the graph of several neighbourhood sizes, with several ridges, and keep the cut that cuts least.

    Each image then takes the part that most of the graph around it belongs to.

    Args:
        neighbours: of all N images, among the landmarks.
        n_clusters: k, how many parts.
        sizes: of the neighbourhoods.
        ridges: see :func:`spectral_partition`.
        seed: fixes the cuts.
        landmarks: the images, in rising order, of which the graph is made; all by default.
        is_enough: asked after every cut whether to do without the others; each takes the longer, the more parts.
    """
    among = neighbours if landmarks is None else _within(neighbours, landmarks)
    n_landmarks, n = among.indices.shape
    n = min(n, max(_LEAST_NEIGHBOURS, n_landmarks // (2 * n_clusters)))  # a small cluster has few neighbours to offer
    graphs = {size: self_tuning_graph(among.nearest(size)) for size in sorted({min(size, n) for size in sizes})}
    tries = [(size, ridge) for size in graphs for ridge in ridges]
    cuts: list[NDArray[np.int64]] = []
    for size, ridge in tries:
        cuts.append(spectral_partition(graphs[size], n_clusters, ridge, seed))
        if is_enough():
            break
    best = least_cut(list(graphs.values()), cuts, n_clusters)
    size = tries[best][0]
    membership = smoothed_membership(graphs[size], cuts[best], n_clusters)
    if landmarks is not None and len(landmarks) < len(neighbours.indices):
        membership = spread_membership(neighbours.nearest(size), landmarks, membership)
    return partition_of(membership)


def _within(neighbours: Neighbours, landmarks: NDArray[np.int64]) -> Neighbours:
    """The neighbours of the landmarks alone, which are counted from 0."""
    places = np.searchsorted(landmarks, neighbours.indices[landmarks]).astype(np.int32)
    return Neighbours(places, neighbours.distances[landmarks])


def smoothed_membership(graph: sparse.csr_matrix, parts: NDArray[np.int64], n_clusters: int) -> NDArray[np.float64]:
    """The share of each part in the graph around each image, (N, k)."""
    degree = np.maximum(np.asarray(graph.sum(axis=1)).ravel(), _TINY)
    membership: NDArray[np.float64] = np.eye(n_clusters)[parts]
    for _ in range(_SMOOTHING_STEPS):
        membership = sparse.diags(1 / degree) @ (graph @ membership)
    return membership


def smoothed(graph: sparse.csr_matrix, parts: NDArray[np.int64], n_clusters: int) -> Partition:
    """The part that most of the graph around each image belongs to, and how clearly."""
    return partition_of(smoothed_membership(graph, parts, n_clusters))


def spread_membership(
    neighbours: Neighbours, landmarks: NDArray[np.int64], membership: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Memberships (N, k) of all images: the landmarks' own (L, k), and for the rest the mean of their neighbours'."""
    weights = _weights(neighbours, _scales(neighbours)) + _TINY  # (N, n)
    spread = np.zeros((len(weights), membership.shape[1]))
    for place in range(weights.shape[1]):
        of_neighbour = membership[np.searchsorted(landmarks, neighbours.indices[:, place])]
        spread += weights[:, place, None] * of_neighbour
    spread /= weights.sum(axis=1, keepdims=True)
    spread[landmarks] = membership
    return spread


def partition_of(membership: NDArray[np.float64]) -> Partition:
    """The part of which each image has most, from memberships (N, k), and how clearly.

    >>> partition_of(np.array([[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]]))
    Partition(parts=array([0, 0, 1]), confidence=array([1. , 0. , 0.5], dtype=float32))
    """
    evenly = 1 / membership.shape[1]
    confidence = ((membership.max(axis=1) - evenly) / (1 - evenly)).clip(0, 1)
    return Partition(membership.argmax(axis=1), confidence.astype(np.float32))


def renumbered(partition: Partition, before: NDArray[np.int64], n_clusters: int) -> Partition:
    """The same partition, its parts numbered so that as many images as possible keep the number they had before.

    >>> ones = np.ones(4, np.float32)
    >>> renumbered(Partition(np.array([1, 1, 0, 0]), ones), np.array([0, 0, 0, 1]), 2).parts.tolist()
    [0, 0, 1, 1]
    """
    counts = np.zeros((n_clusters, n_clusters), np.int64)  # parts now, parts before
    np.add.at(counts, (partition.parts, before), 1)
    _, number = linear_sum_assignment(counts, maximize=True)
    return partition._replace(parts=number[partition.parts])
