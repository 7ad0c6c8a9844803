"""The variants of the ablation: each recipe, with one ingredient left out or replaced.

What is a setting is changed as a setting. What is not, because no user would turn it, is replaced for the length of a
fit by a patch of a name in ``gatcluster.learning``; a patch of a name that is no longer there is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from torch import Tensor, nn

from gatcluster.choices import Recipe
from gatcluster.config import FAST_WARM_UP_SHARE, Settings, checked_settings
from gatcluster.learning import fast, neighbours
from gatcluster.learning.fit import FitResult, fit
from gatcluster.prepare import prepare

_SINGLE_CUT_NEIGHBOURS, _SINGLE_CUT_RIDGE = 20, 0.3
_ADAM_SHARE = 0.1  # of Muon's learning rate: 0.002, what Adam takes for the other weights in `fast`


@dataclass(frozen=True)
class Variant:
    """A recipe with one change."""

    title: str
    recipe: Recipe = "fast"
    changes: dict[str, Any] = field(default_factory=dict)  # of the settings tree: values, or values within a branch
    swaps_colour: bool = False  # grey where `auto` keeps colours, colours where it takes them away
    patched: Any = nullcontext  # makes the context of the fit

    def settings(self, full: Settings) -> Settings:
        """The settings of the whole recipe, changed."""
        tree = full.model_dump()
        for name, change in self.changes.items():
            within = change if isinstance(change, dict) else {name: change}
            branch = tree[name] if isinstance(change, dict) else tree
            assert set(within) <= set(branch), f"there is no {set(within) - set(branch)} in {name}"
            branch.update(within)
        if self.swaps_colour:
            tree["images"]["grey"] = not full.images.grey
        return checked_settings(tree)


def fit_variant(
    variant: Variant, source: Any, n_clusters: int, seed: int, minutes: float | None, epochs: int | None
) -> tuple[FitResult, Settings]:
    """What a variant ends with, and the settings of the whole recipe."""
    images, full = prepare(
        source, n_clusters=n_clusters, seed=seed, recipe=variant.recipe, minutes=minutes, epochs=epochs
    )
    context: AbstractContextManager[Any] = variant.patched()
    with context:
        return fit(images, variant.settings(full)), full


class _ScaledAdam(torch.optim.Adam):
    """Adam at a tenth of the rate it is told, which is Muon's."""

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            group["lr"] *= _ADAM_SHARE
        return super().step(closure)


@contextmanager
def adam_for_all() -> Iterator[None]:
    """Adam in the place of Muon, for the weight matrices too."""

    def optimizers(module: nn.Module, in_16_bits: bool = False) -> tuple[torch.optim.Adam, torch.optim.Adam]:
        weights = list(module.parameters())
        return (
            _ScaledAdam([weight for weight in weights if weight.ndim > 1], lr=0.0, betas=(0.9, 0.99)),
            torch.optim.Adam([weight for weight in weights if weight.ndim <= 1], lr=0.0, betas=(0.9, 0.99)),
        )

    with patch.object(fast, "fast_optimizers", optimizers):
        yield


@contextmanager
def kmeans_for_the_cut() -> Iterator[None]:
    """k-means on the embedding in the place of the cut; the graph still smooths, and still says who is near."""
    embeddings: list[NDArray[np.float32]] = []  # one: that of the images in the graph
    found: list[NDArray[np.int64]] = []  # by k-means, for that one: it is asked for with each size and ridge

    def remembering(embedding: Tensor, n_neighbours: int, landmarks: NDArray[np.int64]) -> neighbours.Neighbours:
        embeddings[:] = [nn.functional.normalize(embedding, dim=1).numpy()[landmarks]]
        found.clear()
        return neighbours.nearest_neighbours(embedding, n_neighbours, landmarks)

    def by_kmeans(graph: Any, n_clusters: int, ridge: float, seed: int) -> NDArray[np.int64]:
        if not found:
            clusters = KMeans(n_clusters, n_init=10, random_state=seed).fit_predict(embeddings[0])
            found.append(clusters.astype(np.int64))
        return found[0]

    with (
        patch.object(fast, "nearest_neighbours", remembering),
        patch.object(neighbours, "spectral_partition", by_kmeans),
    ):
        yield


@contextmanager
def heads_not_primed() -> Iterator[None]:
    """The heads learn from the first round on only."""
    with patch.object(fast, "_PRIMING_STEPS", 0):
        yield


@contextmanager
def first_layer_by_chance() -> Iterator[None]:
    """Filters of the first layer that begin as drawn."""
    with patch.object(fast, "begin_whitened", lambda network, batches: None):
        yield


VARIANTS: Final[dict[str, Variant]] = {
    "fast-full": Variant("`fast`, whole"),
    "fast-no-warm-up": Variant("no warm-up", changes={"fast": {"warm_up_share": 0.0}}),
    "fast-short-warm-up": Variant(
        "as short a warm-up as for glyphs", changes={"fast": {"warm_up_share": FAST_WARM_UP_SHARE["glyph"]}}
    ),
    "fast-two-views": Variant("two views in the warm-up, not four", changes={"fast": {"warm_up_views": 2}}),
    "fast-random-first-layer": Variant("a first layer drawn by chance", patched=first_layer_by_chance),
    "fast-32-bits": Variant("32 bits, whatever the processor", changes={"precision": "32-true"}),
    "fast-full-size": Variant("views of full size in the warm-up", changes={"fast": {"warm_up_scale": 1.0}}),
    "fast-adam": Variant("Adam in place of Muon", patched=adam_for_all),
    "fast-no-neighbours": Variant("no views of neighbours", changes={"fast": {"neighbour_share": 0.0}}),
    "fast-one-round": Variant("one round, not three", changes={"fast": {"rounds": 1}}),
    "fast-no-whitening": Variant("embedding not whitened", changes={"fast": {"whitening": 0.0}}),
    "fast-one-cut": Variant(
        "one cut, not six",
        changes={"fast": {"neighbours": (_SINGLE_CUT_NEIGHBOURS,), "ridges": (_SINGLE_CUT_RIDGE,)}},
    ),
    "fast-kmeans": Variant("k-means in place of the cut", patched=kmeans_for_the_cut),
    "fast-no-priming": Variant("heads not primed", patched=heads_not_primed),
    "fast-no-contrast-later": Variant("no contrast beside the tasks", changes={"fast": {"contrast_weight": 0.0}}),
    "fast-no-R": Variant("no L_R", changes={"loss_weights": {"relation": 0.0}}),
    "fast-no-T": Variant("no L_T", changes={"loss_weights": {"transformation": 0.0}}),
    "fast-no-A": Variant("no L_A", changes={"loss_weights": {"attention": 0.0}}),
    "fast-no-E": Variant("no L_E", changes={"loss_weights": {"entropy": 0.0}}),
    "fast-colour-swapped": Variant("colours kept where `auto` takes them, and the reverse", swaps_colour=True),
    "fast-no-geometry": Variant("images not moved, turned, cropped", changes={"images": {"geometry": 0.0}}),
    "fast-no-strokes": Variant("strokes of glyphs as thick as they are", changes={"images": {"strokes": 0.0}}),
    "paper-full": Variant("`paper`, whole", "paper"),
    "paper-no-T": Variant("no L_T", "paper", changes={"loss_weights": {"transformation": 0.0}}),
    "paper-no-R": Variant("no L_R", "paper", changes={"loss_weights": {"relation": 0.0}}),
    "paper-no-A": Variant("no L_A", "paper", changes={"loss_weights": {"attention": 0.0}}),
    "paper-colour": Variant("colour", "paper", changes={"images": {"grey": False}}),
}
_ONLY_FOR_PHOTOS: Final = ("fast-colour-swapped", "fast-full-size", "fast-short-warm-up", "paper-colour")
_ONLY_FOR_GLYPHS: Final = ("fast-no-strokes",)


def has_meaning(variant: str, in_colour: bool) -> bool:
    """Whether a variant differs from the whole recipe on sets of photos, in colour, or of glyphs."""
    return variant not in (_ONLY_FOR_GLYPHS if in_colour else _ONLY_FOR_PHOTOS)
