"""What anybody could do without this package, for comparison."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from gatcluster.data.images import ImageSet


def kmeans_on_pixels(images: ImageSet, n_clusters: int, seed: int) -> NDArray[np.int32]:
    """Plain k-means, each image a vector of its pixels: (N,)."""
    pixels = images.batch(slice(None)).flatten(1).numpy()
    clusters: NDArray[np.int32] = KMeans(n_clusters, n_init=10, random_state=seed).fit_predict(pixels)
    return clusters
