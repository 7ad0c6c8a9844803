"""The neighbour graph of an embedding and its spectral partition: where `fast` takes relations from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import linear_sum_assignment
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score
from threadpoolctl import ThreadpoolController
from torch import Tensor

_TINY = 1e-12
_SIMILARITIES_AT_A_TIME = 2**23  # 32 MB of them
_LEAST_NEIGHBOURS = 3
_SCALE_NEIGHBOUR = 7  # the distance to the seventh neighbour is the scale of an image's surroundings
_SMOOTHING_STEPS = 2
_DENSE_SIZE = 400  # up to so many images the whole spectrum is quicker, and always converges


class Neighbours(NamedTuple):
    """The nearest neighbours of N images, nearest first."""

    indices: NDArray[np.int64]  # (N, n)
    distances: NDArray[np.float32]  # (N, n), between unit vectors

    def nearest(self, n: int) -> Neighbours:
        """Only the first n of each image."""
        return Neighbours(self.indices[:, :n], self.distances[:, :n])


class Partition(NamedTuple):
    """A cut of a graph into k parts."""

    parts: NDArray[np.int64]  # (N,)
    confidence: NDArray[np.float32]  # (N,), 0 where the surroundings are split evenly, 1 where they are all in one part


def nearest_neighbours(embedding: Tensor, n_neighbours: int) -> Neighbours:
    """The ``n_neighbours`` rows of greatest cosine with each row of an embedding (N, d), itself left out.

    >>> nearest_neighbours(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), 1).indices.ravel().tolist()
    [1, 0, 1]
    """
    unit = torch.nn.functional.normalize(embedding, dim=1)
    rows_at_a_time = max(1, _SIMILARITIES_AT_A_TIME // len(unit))
    indices, distances = [], []
    for start in range(0, len(unit), rows_at_a_time):
        cosines = unit[start : start + rows_at_a_time] @ unit.T
        rows = torch.arange(len(cosines))
        cosines[rows, rows + start] = -torch.inf
        nearest = cosines.topk(n_neighbours, dim=1)
        indices.append(nearest.indices)
        distances.append((2 - 2 * nearest.values).clamp_min(0).sqrt())
    return Neighbours(torch.cat(indices).numpy(), torch.cat(distances).numpy())


def self_tuning_graph(neighbours: Neighbours) -> sparse.csr_matrix:
    """A symmetric graph (N, N) whose edges fade with distance, measured by the scale of each end's surroundings.

    The weight of an edge is exp(-d² / (s_i s_j)), s being the distance to the seventh neighbour (Zelnik-Manor and
    Perona, "Self-tuning spectral clustering", 2004), so that dense and loose clusters are cut alike.
    """
    n_images, n = neighbours.indices.shape
    scale = neighbours.distances[:, min(_SCALE_NEIGHBOUR, n) - 1].astype(np.float64)  # (N,)
    squares = neighbours.distances.astype(np.float64) ** 2
    weights = np.exp(-squares / (scale[:, None] * scale[neighbours.indices] + _TINY))  # (N, n)
    rows = np.repeat(np.arange(n_images), n)
    directed = sparse.csr_matrix((weights.ravel(), (rows, neighbours.indices.ravel())), shape=(n_images, n_images))
    return sparse.csr_matrix((directed + directed.T) / 2)


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


def most_agreed(partitions: Sequence[NDArray[np.int64]]) -> int:
    """Which of several partitions has, on average, most in common with all the others (mean NMI).

    A cut that goes through a cluster, or joins two, differs from run to run; the right one comes out again.

    >>> right, wrong = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    >>> most_agreed([wrong, right, 1 - right])
    1
    """
    agreement = [
        sum(normalized_mutual_info_score(one, other) for other in partitions if other is not one) for one in partitions
    ]
    return int(np.argmax(agreement))


def agreed_partition(
    neighbours: Neighbours, n_clusters: int, sizes: Sequence[int], ridges: Sequence[float], seed: int
) -> Partition:
    """Cut the graph of several neighbourhood sizes, with several ridges, and keep the cut that is most agreed on.

    Each image then takes the part that most of the graph around it belongs to.
    """
    n_images, n = neighbours.indices.shape
    n = min(n, max(_LEAST_NEIGHBOURS, n_images // (2 * n_clusters)))  # a small cluster has few neighbours to offer
    cuts: list[tuple[int, NDArray[np.int64]]] = []
    for size in sorted({min(size, n) for size in sizes}):
        graph = self_tuning_graph(neighbours.nearest(size))  # one at a time: of many images, a graph is large
        cuts += [(size, spectral_partition(graph, n_clusters, ridge, seed)) for ridge in ridges]
    size, parts = cuts[most_agreed([parts for _, parts in cuts])]
    return smoothed(self_tuning_graph(neighbours.nearest(size)), parts, n_clusters)


def smoothed(graph: sparse.csr_matrix, parts: NDArray[np.int64], n_clusters: int) -> Partition:
    """The part that most of the graph around each image belongs to, and how clearly."""
    degree = np.maximum(np.asarray(graph.sum(axis=1)).ravel(), _TINY)
    membership = np.eye(n_clusters)[parts]  # (N, k)
    for _ in range(_SMOOTHING_STEPS):
        membership = sparse.diags(1 / degree) @ (graph @ membership)
    evenly = 1 / n_clusters
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
