"""A cluster that stays empty is given half of the largest one, to begin with; what follows is up to the training."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import ThreadpoolController
from torch import Tensor, nn

from gatcluster.learning.neighbours import Partition
from gatcluster.learning.state import State
from gatcluster.model.network import GATNetwork

_DIFFERENCE: Final = 0.1  # of the revived output from the one it is copied from, relative to its length
# In the first part of a training clusters are often empty, and fill by themselves; and while other clusters hold
# groups of their own, they too are shaken by a revival. To meddle then does harm, as we measured. In the last part
# nothing could be learned any more.
_BEGIN, _END = 0.5, 0.9
_COLLAPSE_SHARE: Final = 0.9  # of the images in one cluster: there is nothing left to lose
_EMPTY_SHARE: Final = 0.25  # of the training for which a cluster must have been empty
_EMPTY_ITERATIONS: Final = 20


class EmptyClusters:
    """For how long each cluster has been empty, and which to revive once all collapsed into one. For recipe `paper`."""

    def __init__(self) -> None:
        self._since: dict[int, tuple[float, int]] = {}  # share of the training, and iterations since

    def to_revive(self, sizes: list[int], spent: float) -> list[int]:
        """Clusters that should be revived now.

        Args:
            sizes: of all clusters, over all images.
            spent: the share of the training that is over.
        """
        self._since = {
            cluster: (since, iterations + 1)
            for cluster, size in enumerate(sizes)
            if size == 0
            for since, iterations in [self._since.get(cluster, (spent, 0))]
        }
        if not _BEGIN <= spent <= _END or max(sizes) <= _COLLAPSE_SHARE * sum(sizes):
            return []
        due = [
            cluster
            for cluster, (since, iterations) in self._since.items()
            if iterations >= _EMPTY_ITERATIONS and spent - since >= _EMPTY_SHARE
        ]
        for cluster in due:
            del self._since[cluster]
        return due

    def state(self) -> State:
        """What it remembers."""
        return {"since": [[cluster, *since] for cluster, since in self._since.items()]}

    def restore(self, state: State) -> None:
        """Go on counting."""
        self._since = {int(cluster): (float(since), int(count)) for cluster, since, count in state["since"]}


@torch.no_grad()
def revive_output(network: GATNetwork, empty: int, largest: int, seed: int) -> None:
    """Make the output of an empty cluster nearly that of the largest, in both heads, so that they share its images.

    Args:
        network: the network.
        empty: the cluster to revive.
        largest: the cluster to share with.
        seed: by which the two are made to differ a little.
    """
    random = torch.Generator().manual_seed(seed)
    for head in (network.label_head, network.attention_head):
        last = [layer for layer in head.classifier if isinstance(layer, nn.Linear)][-1]
        row = last.weight[largest]
        noise = torch.randn(row.shape, generator=random).to(row.device)
        last.weight[empty] = row + _DIFFERENCE * row.norm() / noise.norm() * noise
        last.bias[empty] = last.bias[largest]


def with_all_parts(partition: Partition, embedding: Tensor, n_clusters: int, seed: int) -> tuple[Partition, list[int]]:
    """The partition, each empty part of it filled with one half of what is then the largest; and which those are.

    For recipe `fast`. Halves are told apart by k-means; a part of images that are all alike is left whole, and the
    empty one empty.

    Args:
        partition: of N images.
        embedding: (N, d).
        n_clusters: k.
        seed: fixes the starts of k-means.
    """
    parts, revived = partition.parts, []
    for empty in np.flatnonzero(np.bincount(parts, minlength=n_clusters) == 0):
        largest = int(np.bincount(parts, minlength=n_clusters).argmax())
        members = np.flatnonzero(parts == largest)
        halves = _halves(torch.nn.functional.normalize(embedding[members], dim=1).numpy(), seed)
        if halves is None:
            break
        parts = parts.copy()
        parts[members[halves]] = empty
        revived.append(int(empty))
    return partition._replace(parts=parts), revived


def _halves(points: NDArray[np.float32], seed: int) -> NDArray[np.bool_] | None:
    """Which points are in one of two groups; None where they cannot be told apart."""
    if len(np.unique(points.round(5), axis=0)) < 2:
        return None
    with ThreadpoolController().limit(limits=1):
        return np.asarray(KMeans(2, n_init=4, random_state=seed).fit_predict(points) == 1)
