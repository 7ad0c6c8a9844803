"""All that can be measured, by name: the two recipes, the peers, and the variants of the ablation.

What a method needs is imported only for it, and before the clock starts: the peak memory of a peer is its own.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Final

from comparison.peers import PEER_IMPORTS, PEERS, Clustering
from gatcluster.data.sources import read_images
from gatcluster.evaluation.label_free import information_score

RECIPES: Final = ("fast", "paper")
QUALITY_METHODS: Final = (*RECIPES, *PEERS)
TITLES: Final[dict[str, str]] = {
    "fast": "`fast`",
    "paper": "`paper`",
    "kmeans": "k-means on pixels",
    "ward": "Ward on pixels",
    "spectral": "spectral, 10-NN graph",
    "autoencoder": "autoencoder + k-means",
    "umap": "UMAP + Gaussian mixture",
}


@dataclass(frozen=True)
class Work:
    """What a method is asked to do."""

    source: Any
    n_clusters: int
    seed: int
    minutes: float | None
    epochs: int | None


def load(method: str) -> None:
    """Import what the method needs, before the clock starts."""
    if method in RECIPES:
        importlib.import_module("gatcluster.estimator")
    elif method not in PEERS:
        importlib.import_module("comparison.variants")
    elif method in PEER_IMPORTS:
        importlib.import_module(PEER_IMPORTS[method])


def cluster(method: str, work: Work) -> Clustering:
    """From a source to the clusters of its images."""
    if method in RECIPES:
        return _by_estimator(method, work)
    if method in PEERS:
        assert work.minutes is not None
        return PEERS[method](read_images(work.source), work.n_clusters, work.seed, work.minutes * 60)
    return _by_variant(method, work)


def _by_estimator(recipe: str, work: Work) -> Clustering:
    """A recipe as a user runs it: only the time is given, all else is left to `auto`."""
    from gatcluster import GATCluster

    model = GATCluster(
        work.n_clusters, recipe=recipe, minutes=work.minutes, epochs=work.epochs, random_state=work.seed
    ).fit(work.source)
    found = _of_label_features(model.label_features_, model.settings_)
    last = model.history_[-1]
    return found._replace(details={**found.details, "epochs": last.epoch, "losses": last.losses})


def _by_variant(name: str, work: Work) -> Clustering:
    from comparison.variants import VARIANTS, fit_variant

    features, settings = fit_variant(VARIANTS[name], work.source, work.n_clusters, work.seed, work.minutes, work.epochs)
    return _of_label_features(features, settings)


def _of_label_features(label_features: Any, settings: Any) -> Clustering:
    form = settings.images
    return Clustering(
        label_features.argmax(axis=1),
        {"information": information_score(label_features), "confidence": float(label_features.max(axis=1).mean())},
        {
            "augment": form.augment,
            "geometry": form.geometry,
            "grey": form.grey,
            "size": list(form.size),
            "precision": settings.precision,
        },
    )
