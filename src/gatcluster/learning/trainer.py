"""Algorithm 1 of the paper: two steps for every batch, from pixels to clusters.

Read it from :meth:`Trainer.algorithm_1` down. Step 1 computes the label features of a batch of M images and from them
the pseudo-targets; step 2 learns these targets from transformed images in sub-batches of m₂. Memory is bounded by the
sub-batches m₁ and m₂: of a batch, only its label features (M, k) and targets are held.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from gatcluster.learning.budget import Budget
from gatcluster.learning.losses import Losses, total_loss
from gatcluster.learning.targets import (
    balanced_targets,
    cluster_label_features,
    relation_targets,
    sharpened_targets,
)
from gatcluster.learning.training import Indices, Training, random_batches
from gatcluster.model.inference import infer


class Targets(NamedTuple):
    """The pseudo-targets T_b of a batch: l̂, l̂ᵃ, and the cluster ids that the relations r_ij are read from."""

    balanced: Tensor  # (M, k)
    sharpened: Tensor  # (M, k)
    assignments: Tensor  # (M,), negative: related to itself only
    fell_back: bool = False  # every relation is identity, because k-means found a near-empty cluster


# Makes the targets of a batch from the images' indices (M,) and their label features (M, k).
TargetMaker = Callable[[Indices, Tensor], Targets]


class Trainer(Training):
    """A network that learns by Algorithm 1."""

    def algorithm_1(
        self,
        make_targets: TargetMaker,
        budget: Budget,
        learning_rate: Callable[[float], float],
    ) -> None:
        """Algorithm 1, until the budget is spent or a callback stops it.

        Args:
            make_targets: how pseudo-targets are found; :meth:`paper_targets` is the paper's way.
            budget: the part of ``self.budget`` to use.
            learning_rate: of the share of that budget that is spent.
        """
        settings = self.settings.training
        optimizer = torch.optim.Adam(self.network.parameters(), lr=settings.learning_rate)
        model, optimizer = self.fabric.setup(self.network, optimizer)
        model.train()
        batches = random_batches(len(self.images), settings.batch_size, self.random)
        batches_per_epoch = len(self.images) // settings.batch_size

        steps_per_epoch = batches_per_epoch * settings.passes * (settings.batch_size // settings.sub_batch)

        while True:  # at least once, however small the budget
            batch = next(batches)
            began = time.monotonic()
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(budget.spent)

            # Step 1: label features and pseudo-targets of the whole batch.
            label_features = infer(self.network, self.network.label_features, self.images, self.settings, batch)
            targets = make_targets(batch, label_features)

            # Step 2: learn the targets from transformed images, a sub-batch at a time.
            sums, steps = torch.zeros(len(Losses._fields), device=self.fabric.device), 0
            for sub_batch in self._sub_batches(len(batch)):
                sums += torch.stack(self._learn(model, optimizer, batch, sub_batch, targets))
                steps += 1
                budget.spend(1 / steps_per_epoch)
                self.report_progress("clustering")
                if budget.spent >= 1:
                    break

            self.finish_iteration(
                "clustering",
                began,
                n_trained=steps * settings.sub_batch,
                epochs=steps / steps_per_epoch,
                losses=dict(zip(Losses._fields, (sums / steps).tolist(), strict=True)),
                learning_rate=optimizer.param_groups[0]["lr"],
                **self.clustering_figures(batch, label_features, targets.fell_back),
            )
            if budget.spent >= 1 or self.stopped:
                return

    def paper_targets(self, batch: Indices, label_features: Tensor) -> Targets:
        """The paper's pseudo-targets: l̂ and l̂ᵃ from the label features, relations from k-means on them."""
        clusters, fell_back = cluster_label_features(label_features, seed=int(self.random.integers(2**31)))
        return Targets(balanced_targets(label_features), sharpened_targets(label_features), clusters, fell_back)

    def _sub_batches(self, batch_size: int) -> Iterator[Indices]:
        """⌊M/m₂⌋ random sub-batches, as positions in the batch; as often as there are passes."""
        m2 = self.settings.training.sub_batch
        for _ in range(self.settings.training.passes):
            order = self.random.permutation(batch_size)
            for start in range(0, batch_size - m2 + 1, m2):
                yield order[start : start + m2]

    def _learn(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        batch: Indices,
        sub_batch: Indices,
        targets: Targets,
    ) -> Losses:
        """One step of Adam on Eq. "L_total"; returns the losses, without their graph."""
        positions = torch.from_numpy(sub_batch)
        device = self.fabric.device
        output = model(self.transformed(batch[sub_batch]))
        losses = total_loss(
            output.label_features,
            output.attention_label_features,
            targets.balanced[positions].to(device),
            targets.sharpened[positions].to(device),
            relation_targets(targets.assignments[positions]).to(device),
            self.settings.loss_weights,
        )
        optimizer.zero_grad(set_to_none=True)
        self.fabric.backward(losses.total)
        optimizer.step()
        return Losses(*(loss.detach() for loss in losses))
