"""The pseudo-targets of step 1, one pure function per equation of the paper.

Symbols: M images of a batch, k clusters, l = ``label_features`` (M, k) with rows that sum to 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import ThreadpoolController
from torch import Tensor

from gatcluster.learning.watch import check_finite

# Only ever divides zeros: a cluster whose column is all zeros, or a row that lost all its mass to rounding.
_TINY = 1e-30
# A k-means cluster below this share of an even split says more of k-means than of the images.
NEAR_EMPTY_SHARE = 0.05


def cluster_mass(label_features: Tensor) -> Tensor:
    """z_h = Σ_j l_jh of Eq. "T-target": how much of the batch each cluster holds, (k,).

    >>> cluster_mass(torch.tensor([[1.0, 0.0], [0.5, 0.5]])).tolist()
    [1.5, 0.5]
    """
    return label_features.sum(dim=0)


def balanced_targets(label_features: Tensor) -> Tensor:
    """Eq. "T-target": l̂_ih = (l_ih / z_h) / Σ_h' (l_ih' / z_h'), with z_h summed over the whole batch of M.

    Dividing by the mass of a cluster makes room in small clusters and keeps them from emptying.

    Args:
        label_features: (M, k).

    Returns:
        (M, k), rows that sum to 1.

    >>> balanced_targets(torch.tensor([[0.6, 0.4], [0.9, 0.1]]).double()).round(decimals=2).tolist()
    [[0.33, 0.67], [0.75, 0.25]]
    """
    return _normalised_rows(label_features / cluster_mass(label_features).clamp_min(_TINY))


def sharpened_targets(label_features: Tensor) -> Tensor:
    """Eq. "A-target": l̂ᵃ_ih = (l_ih² / z_h) / Σ_h' (l_ih'² / z_h'), a surer version of l for the attention head.

    Args:
        label_features: (M, k).

    Returns:
        (M, k), rows that sum to 1.

    >>> sharpened_targets(torch.tensor([[0.6, 0.4], [0.9, 0.1]]).double()).round(decimals=2).tolist()
    [[0.43, 0.57], [0.96, 0.04]]
    """
    return _normalised_rows(label_features.square() / cluster_mass(label_features).clamp_min(_TINY))


def relation_targets(assignments: Tensor) -> Tensor:
    """Eq. "relations": r_ij = 1 where c_i = c_j or i = j, else 0.

    Call it on a sub-batch: the matrix has as many rows and columns as there are assignments.

    Args:
        assignments: (m,), the cluster of each image; a negative number stands for "alone".

    Returns:
        (m, m) of 0.0 and 1.0.

    >>> relation_targets(torch.tensor([2, 0, 2])).tolist()
    [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """
    known = assignments >= 0  # (m,)
    same = (assignments[:, None] == assignments[None, :]) & known[:, None]
    same.fill_diagonal_(True)
    return same.float()


class Assignments(NamedTuple):
    """Who belongs with whom in a batch."""

    clusters: Tensor  # (M,), integer; negative: related to itself only
    fell_back: bool  # True where a near-empty cluster made every relation fall back to identity


def cluster_label_features(label_features: Tensor, seed: int) -> Assignments:
    """The cluster ids c_i of Eq. "relations": k-means on the label features of the whole batch.

    Early in training k-means may leave a cluster almost empty (fewer than ``NEAR_EMPTY_SHARE`` of an even split).
    Its partition is noise then, and the relations fall back to r_ij = 1 for i = j only; the caller counts that.

    Args:
        label_features: (M, k).
        seed: fixes the starts of k-means.

    Raises:
        InputError: a label feature is not finite.

    >>> ids, fell_back = cluster_label_features(torch.tensor([[0.9, 0.1], [0.1, 0.9], [0.8, 0.2]]), seed=0)
    >>> bool(ids[0] == ids[2]), bool(ids[0] == ids[1]), fell_back
    (True, False, False)
    """
    check_finite(label_features, "label features")
    n_images, k = label_features.shape
    points = label_features.detach().cpu().numpy().astype(np.float32)
    clusters = _kmeans(points, k, seed)
    sizes = np.bincount(clusters, minlength=k)
    if sizes.min() < max(1.0, NEAR_EMPTY_SHARE * n_images / k):
        return Assignments(torch.full((n_images,), -1), fell_back=True)
    return Assignments(torch.from_numpy(clusters).long(), fell_back=False)


def _kmeans(points: NDArray[np.float32], k: int, seed: int) -> NDArray[np.int32]:
    """k-means that gives the same answer every time: several threads would add in any order."""
    if len(np.unique(points, axis=0)) < k:  # fewer distinct points than clusters: scikit-learn would only warn
        return np.zeros(len(points), dtype=np.int32)
    with ThreadpoolController().limit(limits=1, user_api="openmp"):
        labels: NDArray[np.int32] = KMeans(k, n_init=4, random_state=seed).fit_predict(points)
    return labels


def _normalised_rows(weights: Tensor) -> Tensor:
    return weights / weights.sum(dim=1, keepdim=True).clamp_min(_TINY)
