"""The `fast` recipe: the paper's tasks, with relations from a neighbour graph in place of k-means on noise."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gatcluster.learning.budget import StageBudget
from gatcluster.learning.contrast import warm_up
from gatcluster.learning.neighbours import nearest_neighbours, shared_neighbour_graph, spectral_partition
from gatcluster.learning.targets import balanced_targets, sharpened_targets
from gatcluster.learning.trainer import Indices, TargetMaker, Targets, Trainer
from gatcluster.model.inference import infer


def learn_fast(trainer: Trainer) -> None:
    """Warm up the backbone; then, round by round, partition the neighbour graph and learn it with the four tasks."""
    settings = trainer.settings.warm_up
    assert settings is not None
    warm_up(trainer, StageBudget(trainer.budget, end=settings.share))
    rate = trainer.settings.training.learning_rate
    for round_ in range(settings.rounds):
        if trainer.stopped:
            return
        targets = partition_targets(_partition(trainer), trainer.settings.n_clusters)
        end = settings.share + (1 - settings.share) * (round_ + 1) / settings.rounds
        trainer.algorithm_1(targets, StageBudget(trainer.budget, end), learning_rate=lambda spent: rate)


def partition_targets(partition: Tensor, n_clusters: int) -> TargetMaker:
    """Targets that pull the label features towards a partition of all images, and relations read from it.

    Args:
        partition: (N,), a cluster for each image.
        n_clusters: k.
    """

    def make_targets(batch: Indices, label_features: Tensor) -> Targets:
        assignments = partition[torch.from_numpy(batch)]  # (M,)
        belief = 0.5 * label_features + 0.5 * torch.nn.functional.one_hot(assignments, n_clusters)  # (M, k)
        return Targets(balanced_targets(belief), sharpened_targets(belief), assignments)

    return make_targets


def _partition(trainer: Trainer) -> Tensor:
    settings = trainer.settings.warm_up
    assert settings is not None
    embedding = infer(trainer.network, trainer.network.embedding, trainer.images, trainer.settings)
    neighbours = nearest_neighbours(embedding - embedding.mean(dim=0), min(settings.neighbours, len(embedding) - 1))
    partition = spectral_partition(
        shared_neighbour_graph(neighbours), trainer.settings.n_clusters, seed=int(trainer.random.integers(2**31))
    )
    return torch.from_numpy(partition.astype(np.int64))
