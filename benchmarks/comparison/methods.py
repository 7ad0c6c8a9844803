"""All that can be measured, by name: the two recipes, the peers, and the variants of the ablation.

What a method needs is imported only for it, and before the clock starts: the peak memory of a peer is its own.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from comparison.label_free_scores import label_free_scores
from comparison.peers import PEER_IMPORTS, PEERS, Clustering
from gatcluster.data.sources import read_images

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
    last = model.history_[-1]
    return Clustering(
        model.labels_,
        partial(_scores, model.label_features_, model.network_, work.source, model.settings_),
        {**_chosen(model.settings_), "epochs": last.epoch, "losses": last.losses},
    )


def _by_variant(name: str, work: Work) -> Clustering:
    from comparison.variants import VARIANTS, fit_variant

    found, full = fit_variant(VARIANTS[name], work.source, work.n_clusters, work.seed, work.minutes, work.epochs)
    # Views for the score are those of the whole recipe: else one without them would have nothing to withstand.
    same = {"geometry": full.images.geometry, "strokes": full.images.strokes}
    judged = found.settings.model_copy(update={"images": found.settings.images.model_copy(update=same)})
    return Clustering(
        found.label_features.argmax(axis=1),
        partial(_scores, found.label_features, found.network, work.source, judged),
        _chosen(found.settings),
    )


def _scores(label_features: Any, network: Any, source: Any, settings: Any) -> dict[str, float]:
    from gatcluster.prepare import read_like

    return label_free_scores(label_features, network, read_like(source, settings.images), settings.images)


def _chosen(settings: Any) -> dict[str, Any]:
    """What `auto` decided."""
    form = settings.images
    return {
        "augment": form.augment,
        "geometry": form.geometry,
        "grey": form.grey,
        "size": list(form.size),
        "precision": settings.precision,
    }
