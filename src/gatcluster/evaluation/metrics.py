"""The paper's three scores of a clustering against labels: ACC, NMI and ARI. Nothing here is used in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from gatcluster.errors import InputError


@dataclass(frozen=True)
class Metrics:
    """ACC, NMI and ARI of N images."""

    accuracy: float  # ACC (A13), by Hungarian matching
    nmi_geometric: float  # NMI (A15), normalised by the geometric mean of both entropies, as in the paper
    ari: float  # ARI (A16)
    n_images: int
    n_clusters_used: int
    n_labels: int

    def as_json(self) -> dict[str, Any]:
        """The scores as plain data."""
        return asdict(self)


def clustering_accuracy(labels: ArrayLike, clusters: ArrayLike) -> float:
    """ACC (A13): the share of images in the right cluster, under the best one-to-one matching with the labels.

    The numbers of clusters and of labels may differ: what is left over matches nothing.

    >>> clustering_accuracy([0, 0, 1, 1], [5, 5, 5, 7])
    0.75
    >>> clustering_accuracy([0, 0, 0, 0], [1, 2, 3, 3])
    0.5
    """
    counts: NDArray[np.int64] = contingency_matrix(labels, clusters)  # (labels, clusters)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    return float(counts[rows, columns].sum() / counts.sum())


def evaluate_clusters(labels: Sequence[Any], clusters: ArrayLike) -> Metrics:
    """All scores of a clustering.

    >>> evaluate_clusters(["cat", "cat", "dog"], [1, 1, 0]).ari
    1.0
    """
    clusters = np.asarray(clusters)
    if len(labels) != len(clusters):
        raise InputError(f"there are {len(labels)} labels for {len(clusters)} images")
    names, known = np.unique(np.asarray(labels), return_inverse=True)
    return Metrics(
        accuracy=clustering_accuracy(known, clusters),
        nmi_geometric=float(normalized_mutual_info_score(known, clusters, average_method="geometric")),
        ari=float(adjusted_rand_score(known, clusters)),
        n_images=len(clusters),
        n_clusters_used=len(np.unique(clusters)),
        n_labels=len(names),
    )
