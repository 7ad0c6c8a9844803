"""Algorithm 1 of the paper: two steps for every batch, from pixels to clusters.

Read it from :meth:`Trainer.algorithm_1` down. Step 1 computes the label features of a batch of M images and from them
the pseudo-targets; step 2 learns these targets from transformed images in sub-batches of m₂. Memory is bounded by the
sub-batches m₁ and m₂: of a batch, only its label features (M, k) and targets are held.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gatcluster.learning.batches import Indices, RandomBatches
from gatcluster.learning.budget import Budget
from gatcluster.learning.divided import Divided, with_room
from gatcluster.learning.losses import Losses, total_loss
from gatcluster.learning.outer_iteration import Course, Targets
from gatcluster.learning.targets import (
    balanced_targets,
    cluster_label_features,
    relation_targets,
    sharpened_targets,
)
from gatcluster.learning.training import Training
from gatcluster.model.inference import infer

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
        settings, n_images = self.settings.training, len(self.images)
        adam = torch.optim.Adam(self.network.parameters(), lr=settings.learning_rate)
        wrapped, optimizer = self.fabric.setup(self.network, adam)
        model = Divided(wrapped)
        model.train()
        steps_per_batch = settings.passes * (settings.batch_size // settings.sub_batch)
        steps_per_epoch = n_images // settings.batch_size * steps_per_batch

        # What is added to the parts of the training goes on from where it was, if this is a resumed run.
        self.take_in(self.network, adam)
        batches = self.parts.add("batches", RandomBatches(n_images, settings.batch_size, self.random))
        k, device = self.settings.n_clusters, self.fabric.device
        course = self.parts.add(
            "course", Course(n_images, k, settings.batch_size, settings.sub_batch, self.random, device)
        )

        while True:
            outer = course.current  # None, but in a run that is resumed in the middle of step 2
            if outer is None:
                if course.finished and (budget.spent >= 1 or self.stopped):  # once at least, however small the budget
                    break
                for group in optimizer.param_groups:
                    group["lr"] = learning_rate(budget.spent)

                # Step 1: label features and pseudo-targets of the whole batch.
                batch = next(batches)
                label_features = infer(
                    self.network, self.network.label_features, self.images, self.settings, batch, self.note_action
                )
                outer = course.begin(batch, label_features, make_targets(batch, label_features))

            # Step 2: learn the targets from transformed images, a sub-batch at a time.
            while outer.steps < steps_per_batch and not (outer.steps and budget.spent >= 1):
                outer.add(self._learn(model, optimizer, outer.batch, next(outer.sub_batches), outer.targets))
                budget.spend(1 / steps_per_epoch)
                self.end_step("clustering")

            self.finish_iteration(
                "clustering",
                outer.began,
                n_trained=outer.steps * settings.sub_batch,
                epochs=outer.steps / steps_per_epoch,
                losses=outer.mean_losses(),
                learning_rate=optimizer.param_groups[0]["lr"],
                **self.clustering_figures(outer.batch, outer.label_features, outer.targets.fell_back),
            )
            course.end()
        self.end_stage()

    def paper_targets(self, batch: Indices, label_features: Tensor) -> Targets:
        """The paper's pseudo-targets: l̂ and l̂ᵃ from the label features, relations from k-means on them."""
        clusters, fell_back = cluster_label_features(label_features, seed=int(self.random.integers(2**31)))
        return Targets(balanced_targets(label_features), sharpened_targets(label_features), clusters, fell_back)

    def _learn(
        self,
        model: Divided,
        optimizer: torch.optim.Optimizer,
        batch: Indices,
        sub_batch: Indices,
        targets: Targets,
    ) -> Losses | None:
        """One step of Adam on Eq. "L_total"; returns the losses, without their graph; None if they are not finite."""
        positions = torch.from_numpy(sub_batch)
        device = self.fabric.device
        images = self.transformed(batch[sub_batch])

        def attempt() -> Losses:
            output = model(images)
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
            return losses

        losses = with_room(model, attempt, len(sub_batch), self.note_action)
        if not self.allows_step(losses.total):
            return None
        optimizer.step()
        return Losses(*(loss.detach() for loss in losses))
