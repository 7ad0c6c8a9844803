"""What a user would pick otherwise, at its natural settings: from images to clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import AgglomerativeClustering, SpectralClustering
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances_argmin
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KNeighborsClassifier

from comparison.autoencoder import autoencoder_kmeans
from gatcluster.data.images import ImageSet
from gatcluster.evaluation.label_free import information_score
from gatcluster.experiments.baselines import kmeans_on_pixels

# Ward needs memory, and the eigensolver of spectral clustering time, beyond reason for more: they see so many images,
# drawn by the seed, and the others follow these.
MOST_IMAGES: Final = 20_000
_GRAPH_NEIGHBOURS = 10
_PCA_COMPONENTS = 50


class Clustering(NamedTuple):
    """What a method found."""

    clusters: NDArray[np.int64]  # (N,)
    label_free: Callable[[], Mapping[str, float]] = dict  # makes scores that need no labels: once the clock has stopped
    details: Mapping[str, Any] = MappingProxyType({})  # what else is worth knowing of the run


def kmeans(images: ImageSet, n_clusters: int, seed: int, seconds: float) -> Clustering:
    """k-means on pixels, ten starts."""
    return Clustering(kmeans_on_pixels(images, n_clusters, seed).astype(np.int64))


def ward(images: ImageSet, n_clusters: int, seed: int, seconds: float) -> Clustering:
    """Ward's agglomerative clustering of pixels; images beyond 20,000 go to the nearest centroid."""
    pixels = _rows(images)
    seen = _seen(len(pixels), seed)
    clusters = AgglomerativeClustering(n_clusters, linkage="ward").fit_predict(pixels[seen])
    centroids = np.stack([pixels[seen[clusters == number]].mean(axis=0) for number in range(n_clusters)])
    return _with_others(
        len(pixels), seen, clusters, lambda others: pairwise_distances_argmin(pixels[others], centroids)
    )


def spectral(images: ImageSet, n_clusters: int, seed: int, seconds: float) -> Clustering:
    """Spectral clustering of the 10-nearest-neighbour graph of 50 principal components of the pixels.

    Images beyond 20,000 join the cluster of most of their 10 nearest among those.
    """
    pixels = _rows(images)
    reduced = PCA(min(_PCA_COMPONENTS, *pixels.shape), random_state=seed).fit_transform(pixels)
    seen = _seen(len(pixels), seed)
    clusters = SpectralClustering(
        n_clusters, affinity="nearest_neighbors", n_neighbors=_GRAPH_NEIGHBOURS, random_state=seed, n_jobs=-1
    ).fit_predict(reduced[seen])
    known = KNeighborsClassifier(_GRAPH_NEIGHBOURS, n_jobs=-1).fit(reduced[seen], clusters)
    return _with_others(len(pixels), seen, clusters, lambda others: known.predict(reduced[others]))


def autoencoder(images: ImageSet, n_clusters: int, seed: int, seconds: float) -> Clustering:
    """A convolutional autoencoder, trained for at most 85% of the time, and k-means on its code."""
    clusters, epochs = autoencoder_kmeans(images, n_clusters, seed, seconds)
    return Clustering(clusters, details={"epochs": epochs})


def umap_mixture(images: ImageSet, n_clusters: int, seed: int, seconds: float) -> Clustering:
    """UMAP of the pixels to 10 dimensions, then a mixture of Gaussians.

    30 neighbours and no minimal distance are what UMAP's authors advise where clustering follows. A seed makes UMAP use
    one thread.
    """
    import umap  # benchmark-only, and slow to import

    embedding = umap.UMAP(n_components=10, n_neighbors=30, min_dist=0.0, random_state=seed, n_jobs=1).fit_transform(
        _rows(images)
    )
    embedding = np.asarray(embedding, dtype=np.float64)  # in single precision a covariance may cease to be positive
    mixture = GaussianMixture(n_clusters, n_init=5, random_state=seed).fit(embedding)
    belief = mixture.predict_proba(embedding)
    return Clustering(belief.argmax(axis=1), lambda: {"information": information_score(belief)})


PEERS: Final[dict[str, Callable[[ImageSet, int, int, float], Clustering]]] = {
    "kmeans": kmeans,
    "ward": ward,
    "spectral": spectral,
    "autoencoder": autoencoder,
    "umap": umap_mixture,
}
# Imported before the clock starts, as torch and scikit-learn are.
PEER_IMPORTS: Final[dict[str, str]] = {"umap": "umap"}


def _rows(images: ImageSet) -> NDArray[np.float32]:
    """Each image as a vector of its pixels, (N, C · H · W)."""
    return images.batch(slice(None)).flatten(1).numpy()


def _seen(n_images: int, seed: int) -> NDArray[np.int64]:
    """The images that a method of quadratic cost looks at: all, or 20,000 drawn by the seed."""
    if n_images <= MOST_IMAGES:
        return np.arange(n_images)
    return np.sort(np.random.default_rng(seed).permutation(n_images)[:MOST_IMAGES])


def _with_others(
    n_images: int,
    seen: NDArray[np.int64],
    clusters: NDArray[np.int64],
    follow: Callable[[NDArray[np.int64]], NDArray[np.int64]],
) -> Clustering:
    """Clusters of all images: of those that were seen, and of the others, which follow them."""
    everyone = np.empty(n_images, dtype=np.int64)
    everyone[seen] = clusters
    others = np.setdiff1d(np.arange(n_images), seen)
    if len(others):
        everyone[others] = follow(others)
    return Clustering(everyone, details={"fitted_on": len(seen)})
