"""The neighbour graph of an embedding and its spectral partition: where `fast` takes relations from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse.linalg import eigsh
from sklearn.cluster import KMeans
from threadpoolctl import ThreadpoolController
from torch import Tensor

_ROWS_AT_A_TIME = 1024
_TINY = 1e-12
# Weight of an edge between neighbours that share no other neighbour, relative to one shared neighbour.
_BARE_EDGE = 1e-3
_SMOOTHING_STEPS = 2


class Partition(NamedTuple):
    """A cut of a graph into k parts."""

    parts: NDArray[np.int64]  # (N,)
    confidence: NDArray[np.float32]  # (N,), 0 where the neighbourhood is split evenly, 1 where it is all in one part


def nearest_neighbours(embedding: Tensor, n_neighbours: int) -> NDArray[np.int64]:
    """The ``n_neighbours`` rows of greatest cosine with each row, itself left out: (N, d) to (N, n_neighbours).

    >>> nearest_neighbours(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), 1).ravel().tolist()
    [1, 0, 1]
    """
    unit = torch.nn.functional.normalize(embedding, dim=1)
    parts = []
    for start in range(0, len(unit), _ROWS_AT_A_TIME):
        similarities = unit[start : start + _ROWS_AT_A_TIME] @ unit.T
        rows = torch.arange(len(similarities))
        similarities[rows, rows + start] = -torch.inf
        parts.append(similarities.topk(n_neighbours, dim=1).indices)
    return torch.cat(parts).numpy()


def shared_neighbour_graph(neighbours: NDArray[np.int64]) -> sparse.csr_matrix:
    """A symmetric graph (N, N): neighbours are joined as strongly as they have neighbours in common.

    Args:
        neighbours: (N, n), from :func:`nearest_neighbours`.
    """
    n_images, n = neighbours.shape
    rows = np.repeat(np.arange(n_images), n)
    directed = sparse.csr_matrix((np.ones(rows.size), (rows, neighbours.ravel())), shape=(n_images, n_images))
    reach = directed + sparse.identity(n_images, format="csr")
    joined = (directed + directed.T).sign()
    return sparse.csr_matrix(joined.multiply(reach @ reach.T) + _BARE_EDGE * joined)


def spectral_partition(graph: sparse.csr_matrix, n_clusters: int, seed: int) -> Partition:
    """Cut a graph into ``n_clusters`` parts that few edges cross (normalised cut).

    Each image then takes the part that most of the graph around it belongs to.
    """
    n_images = graph.shape[0]
    degree = np.maximum(np.asarray(graph.sum(axis=1)).ravel(), _TINY)
    scale = sparse.diags(1 / np.sqrt(degree))
    start = np.random.default_rng(seed).random(n_images)
    with ThreadpoolController().limit(limits=1):  # several threads would add in any order, and change the last digits
        _, vectors = eigsh(
            scale @ graph @ scale, k=min(n_clusters, n_images - 1), which="LA", v0=start, tol=1e-4, maxiter=5000
        )
        rows = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _TINY)  # (N, k)
        parts = KMeans(n_clusters, n_init=20, random_state=seed).fit_predict(rows)
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
