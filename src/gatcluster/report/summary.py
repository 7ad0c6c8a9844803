"""What the report's page says in words and numbers of a run, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from gatcluster.config import ImageSettings
from gatcluster.learning.history import Record
from gatcluster.learning.watch import CONDITIONS, counted
from gatcluster.runs.folder import RunFolder
from gatcluster.runs.skipped import read_skipped

_MOST_RECORDS: Final = 600  # of the history; more would not be seen on a screen
_MOST_SKIPPED: Final = 50  # files that are named
_LARGE_SHARE: Final = 0.5  # of all images in one cluster
_LITTLE_CONFIDENCE: Final = 0.5
_TOLD_OTHERWISE: Final = frozenset({"empty-cluster", "giant-cluster", "unsure", "no-relations", "standstill"})
_MOST_ACTIONS: Final = 5


def head(run: RunFolder, features: NDArray[np.float32]) -> dict[str, Any]:
    """What was clustered, how, and what to be wary of."""
    config, settings, history = run.config(), run.settings(), run.history()
    last = history[-1] if history else None
    source, skipped = config["source"], read_skipped(run.path)
    return {
        "title": Path(source).name or source if source else "Images from Python",
        "source": source,
        "n_images": config["n_images"],
        "n_clusters": settings.n_clusters,
        "mean_confidence": float(features.max(axis=1).mean()),
        "recipe": settings.recipe,
        "preset": settings.network.preset,
        "seed": settings.seed,
        "seconds": last.seconds if last else None,
        "epochs": last.epoch if last else None,
        "height": settings.images.size[0],
        "width": settings.images.size[1],
        "resize": settings.images.resize,
        "seen_in": seen_in(settings.images),
        "device": settings.device,
        "version": config["versions"].get("gatcluster", ""),
        "warnings": warnings_of(features, history, len(skipped)),
        "findings": findings_of(history),
        "skipped": [[file.name, file.reason] for file in skipped[:_MOST_SKIPPED]],
        "n_skipped": len(skipped),
    }


def seen_in(form: ImageSettings) -> str:
    """What the network sees of colours, in a word or two."""
    if form.ink:
        return "ink"
    return {1: "grey", 3: "colour"}.get(form.network_channels, f"{form.network_channels} channels")


def warnings_of(features: NDArray[np.float32], history: Sequence[Record], n_skipped: int) -> list[str]:
    """What a reader of the clusters should know, in plain words."""
    n, k = features.shape
    sizes = np.bincount(features.argmax(axis=1), minlength=k)
    found = []
    used = int((sizes > 0).sum())
    if used < k:
        found.append(
            f"Only {used} of the {k} clusters hold any image. "
            "Train longer, ask for fewer clusters, or try another seed."
        )
    if k > 2 and used > 1 and sizes.max() > _LARGE_SHARE * n:
        found.append(
            f"Cluster {int(sizes.argmax())} holds {sizes.max() / n:.0%} of all images: it may well mix several groups."
        )
    confidence = float(features.max(axis=1).mean())
    if confidence < _LITTLE_CONFIDENCE:
        found.append(
            f"The network is unsure: the mean confidence is {confidence:.2f}. Longer training usually raises it."
        )
    fallbacks = history[-1].relation_fallbacks if history else 0
    if fallbacks:
        found.append(
            f"In {fallbacks} of {len(history)} batches k-means could not tell groups apart, and each image was related "
            "to itself alone. Early in the training that is normal."
        )
    if n_skipped:
        files = (
            "1 file could not be read and was" if n_skipped == 1 else f"{n_skipped:,} files could not be read and were"
        )
        found.append(f"{files} left out; skipped.csv in the run folder says why.")
    return found + _watched(history)


def findings_of(history: Sequence[Record]) -> list[dict[str, str]]:
    """All that the watch found while training, each once: also what has passed, and what warnings tell otherwise."""
    return [
        {
            "name": name,
            "meaning": CONDITIONS[name].meaning,
            "advice": CONDITIONS[name].advice,
            "count": f"in {count} of {len(history)} iterations"
            + (", also in the last" if name in history[-1].findings else ""),
        }
        for name, count in counted(history).items()
    ]


def _watched(history: Sequence[Record]) -> list[str]:
    """What the watch still found at the end, but for what is told above or is good news; and what was done about it."""
    last = history[-1].findings if history else []
    found = [CONDITIONS[name] for name in last if name in CONDITIONS and name not in _TOLD_OTHERWISE]
    done = dict.fromkeys(action for record in history for action in record.actions)
    texts = [f"{condition.meaning}. {condition.advice}." for condition in found]
    texts += [f"while training: {action}." for action in list(done)[:_MOST_ACTIONS]]
    return [". ".join(part[:1].upper() + part[1:] for part in text.split(". ")) for text in texts]


def training(history: Sequence[Record]) -> dict[str, Any]:
    """The history as columns, thinned out to what a chart can show; None where a record says nothing."""
    chosen = np.unique(np.linspace(0, len(history) - 1, min(len(history), _MOST_RECORDS)).round().astype(int))
    records = [history[index] for index in chosen] if history else []
    names = list(dict.fromkeys(name for record in records for name in record.losses))
    return {
        "stage": [record.stage for record in records],
        "epoch": [record.epoch for record in records],
        "iteration": [record.iteration for record in records],
        "seconds": [record.seconds for record in records],
        "losses": {name: [_finite(record.losses.get(name)) for record in records] for name in names},
        "sizes": [record.cluster_sizes or None for record in records],
        "confidence": [_finite(record.mean_confidence) for record in records],
        "entropy": [_finite(record.entropy) for record in records],
        "changed": [_finite(record.changed) for record in records],
    }


def scores(metrics: dict[str, Any] | None, labels: Sequence[str | None] | None, clusters: Sequence[int], k: int) -> Any:
    """Scores, the names of the labels and the clusters matched to them; None if the run was not evaluated."""
    if metrics is None:
        return None
    if labels is None:
        return {"metrics": metrics, "labels": [], "match": []}
    names = sorted({label for label in labels if label is not None})
    counts = confusion_counts(labels, names, clusters, k)
    matched_clusters, matched_labels = linear_sum_assignment(counts, maximize=True)
    match: list[int | None] = [None] * k
    for cluster, label in zip(matched_clusters, matched_labels, strict=True):
        match[cluster] = int(label)
    return {"metrics": metrics, "labels": names, "match": match}


def confusion_counts(
    labels: Sequence[str | None], names: Sequence[str], clusters: Sequence[int], k: int
) -> NDArray[np.int64]:
    """How many images of each cluster have each label, (k, labels).

    >>> confusion_counts(["a", "b", None, "b"], ["a", "b"], [0, 1, 1, 1], 2).tolist()
    [[1, 0], [0, 2]]
    """
    places = {name: place for place, name in enumerate(names)}
    counts = np.zeros((k, len(names)), dtype=np.int64)
    for label, cluster in zip(labels, clusters, strict=True):
        if label is not None:
            counts[cluster, places[label]] += 1
    return counts


def _finite(number: float | None) -> float | None:
    """JSON has no infinity."""
    return number if number is not None and np.isfinite(number) else None
