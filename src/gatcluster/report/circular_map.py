"""The paper's map of label features (Eq. A1): every cluster has a corner on a circle, every image a place between."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def circular_map(label_features: NDArray[np.floating]) -> NDArray[np.float32]:
    """Eq. (A1): v = [Σ l_h sin(2πh/k), Σ l_h cos(2πh/k)], both sums over h = 1..k.

    An image whose label feature is one-hot lies on its cluster's corner of the circle, an undecided one in the middle.
    (The paper's lower limit of the sums, h = i, is a misprint. Its h counts from 1: cluster c of the output has
    h = c + 1, and the last cluster lies at the top.)

    Args:
        label_features: (N, k), rows that sum to 1.

    Returns:
        (N, 2): x to the right and y upwards, in the unit circle.

    >>> circular_map(np.array([[1, 0, 0, 0], [0, 0, 0, 1], [0.5, 0, 0.5, 0]])).round(6) + 0.0
    array([[1., 0.],
           [0., 1.],
           [0., 0.]], dtype=float32)
    """
    places = np.asarray(label_features, dtype=np.float64) @ cluster_corners(label_features.shape[1])  # (N, 2)
    return places.astype(np.float32)


def cluster_corners(n_clusters: int) -> NDArray[np.float64]:
    """Where the clusters lie on the unit circle, (k, 2).

    >>> cluster_corners(2).round(6) + 0.0
    array([[ 0., -1.],
           [ 0.,  1.]])
    """
    angles = 2 * np.pi * np.arange(1, n_clusters + 1) / n_clusters
    return np.stack([np.sin(angles), np.cos(angles)], axis=1)
