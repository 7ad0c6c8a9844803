"""The figures of a run, and of a fitted estimator: what goes into them, from where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gatcluster.choices import PlotKind
from gatcluster.config import Settings
from gatcluster.data.images import ImageSet
from gatcluster.errors import InputError
from gatcluster.model.inference import attention_gaussians, label_features
from gatcluster.model.map_geometry import map_axes
from gatcluster.model.network import GATNetwork
from gatcluster.report.overlay import attention_over_image
from gatcluster.runs.folder import RunFolder
from gatcluster.runs.source import RunImages, picture_of, run_images

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL import Image


_SHOWN_SIDE = 240  # pixels of the longer side of an image in a figure


def plot_run(run: RunFolder, kind: PlotKind, images_per_cluster: int = 8) -> Figure:
    """A figure of a run. Only ``grid`` and ``attention`` look for the images again.

    Args:
        run: the run.
        kind: what to draw.
        images_per_cluster: rows of the grid.
    """
    from gatcluster.report import figures

    features = run.label_features()
    if kind == "map":
        return figures.map_figure(features)
    if kind == "curves":
        history = run.history()
        if not history:
            raise InputError(f"{run.path} has no history to draw")
        return figures.curves_figure(history, features.shape[1])
    if kind == "sizes":
        return figures.sizes_figure(features, run.history())
    images = run_images(run)
    shown = surest_images(features, 1 if kind == "attention" else images_per_cluster, images.is_there)
    pictures = [[images.picture(index, _SHOWN_SIDE) for index in chosen] for chosen in shown]
    if kind == "grid":
        return figures.grid_figure(pictures, *_sizes_and_names(features))
    return _attention(
        pictures, _attended(images, shown), [c[0] for c in shown if c], features, run.network(), run.settings()
    )


def plot_clusters(images: ImageSet, network: GATNetwork, settings: Settings, images_per_cluster: int) -> Figure:
    """One column for each cluster, with its surest among ``images``."""
    from gatcluster.report import figures

    features = label_features(network, images, settings)
    shown = surest_images(features, images_per_cluster)
    pictures = [[picture_of(images, index) for index in chosen] for chosen in shown]
    return figures.grid_figure(pictures, *_sizes_and_names(features))


def plot_attention(images: ImageSet, network: GATNetwork, settings: Settings) -> Figure:
    """For each cluster the surest of ``images``, its label features, and where the network looked."""
    features = label_features(network, images, settings)
    shown = surest_images(features, 1)
    pictures = [[picture_of(images, index) for index in chosen] for chosen in shown]
    chosen = [c[0] for c in shown if c]
    attended = ImageSet(images.pixels[np.array(chosen)], [images.names[index] for index in chosen])
    return _attention(pictures, attended, chosen, features, network, settings)


def surest_images(
    features: NDArray[np.floating], count: int, is_there: Callable[[int], bool] = lambda index: True
) -> list[list[int]]:
    """For each cluster the images that it is surest of, surest first, at most ``count``.

    Args:
        features: (N, k), label features.
        count: how many of each cluster.
        is_there: images of which this is false are passed over.

    >>> surest_images(np.array([[0.6, 0.4], [0.9, 0.1], [0.2, 0.8]]), 2)
    [[1, 0], [2]]
    """
    clusters, confidence = features.argmax(axis=1), features.max(axis=1)
    chosen: list[list[int]] = []
    for cluster in range(features.shape[1]):
        members = np.flatnonzero(clusters == cluster)
        ordered = members[np.argsort(-confidence[members], kind="stable")]
        there = (int(index) for index in ordered if is_there(int(index)))
        chosen.append([index for index, _ in zip(there, range(count), strict=False)])
    return chosen


def _attended(images: RunImages, shown: Sequence[Sequence[int]]) -> ImageSet:
    return images.for_network([chosen[0] for chosen in shown if chosen])


def _attention(
    pictures: Sequence[Sequence[Image.Image]],
    attended: ImageSet,
    chosen: Sequence[int],
    features: NDArray[np.float32],
    network: GATNetwork,
    settings: Settings,
) -> Figure:
    """The figure of one image of each cluster.

    Args:
        pictures: for each cluster, at most one.
        attended: these images, without the clusters that have none, as the network takes them.
        chosen: their rows in ``features``.
        features: (N, k).
        network: the trained network.
        settings: its settings.
    """
    from gatcluster.report import figures

    k = features.shape[1]
    gaussians = attention_gaussians(network, attended, settings)
    alpha, size = network.attention_head.alpha, settings.images.size
    detail = max(1.0, _SHOWN_SIDE / max(size))
    drawn = (round(size[0] * detail), round(size[1] * detail))
    maps = attention_over_image(gaussians, map_axes(network.backbone), size, alpha, drawn)
    used = [cluster for cluster, own in enumerate(pictures) if own]
    all_maps, all_features = np.ones((k, *drawn), np.float32), np.zeros((k, k), np.float32)
    all_maps[used], all_features[used] = maps, features[list(chosen)]
    first = [own[0] if own else None for own in pictures]
    return figures.attention_figure(first, all_features, all_maps, _sizes_and_names(features)[1])


def _sizes_and_names(features: NDArray[np.floating]) -> tuple[list[int], list[str]]:
    k = features.shape[1]
    sizes = np.bincount(features.argmax(axis=1), minlength=k)
    return [int(size) for size in sizes], [f"cluster {cluster}" if k <= 12 else str(cluster) for cluster in range(k)]
