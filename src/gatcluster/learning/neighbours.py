"""The neighbour graph of an embedding and its spectral partition: where `fast` takes relations from."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh
from sklearn.cluster import KMeans
from threadpoolctl import ThreadpoolController
from torch import Tensor

_ROWS_AT_A_TIME = 1024


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
    directed = sparse.csr_matrix((np.ones(rows.size, np.float32), (rows, neighbours.ravel())), (n_images, n_images))
    reach = directed + sparse.identity(n_images, dtype=np.float32, format="csr")
    joined = (directed + directed.T).sign()
    return joined.multiply(reach @ reach.T).tocsr()


def spectral_partition(graph: sparse.csr_matrix, n_clusters: int, seed: int) -> NDArray[np.int32]:
    """Cut a graph into ``n_clusters`` parts that few edges cross (normalised cut), (N,)."""
    n_images = graph.shape[0]
    random = np.random.default_rng(seed)
    root_degree = np.sqrt(np.maximum(np.asarray(graph.sum(axis=1)).ravel(), 1e-12))
    scale = sparse.diags(1 / root_degree)
    with ThreadpoolController().limit(limits=1):
        _, vectors = eigsh(
            scale @ graph @ scale, k=min(n_clusters, n_images - 1), which="LA", v0=random.random(n_images), tol=1e-4
        )
        rows = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        labels: NDArray[np.int32] = KMeans(n_clusters, n_init=20, random_state=seed).fit_predict(rows)
    return labels
