"""The `fast` recipe: the paper's tasks, with relations from a neighbour graph in place of k-means on noise.

First contrast warms up the backbone. Then, round by round: embed all images, join each to its nearest neighbours, cut
this graph into k parts, and learn the parts with the paper's four tasks while contrast goes on. The clusters are the
label head's, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gatcluster.config import FastSettings, LossWeights, Settings
from gatcluster.learning.batches import Indices, RandomBatches
from gatcluster.learning.budget import StageBudget
from gatcluster.learning.contrast import contrastive_loss, projection_head
from gatcluster.learning.divided import Divided, with_room
from gatcluster.learning.ending import keep_back_the_end
from gatcluster.learning.fast_course import Cut, FastCourse, FastStage, Step
from gatcluster.learning.fast_losses import fast_total_loss
from gatcluster.learning.first_layer import begin_whitened
from gatcluster.learning.muon import fast_optimizers
from gatcluster.learning.neighbours import (
    Partition,
    best_partition,
    choose_landmarks,
    nearest_neighbours,
    renumbered,
)
from gatcluster.learning.normalisation import refresh_statistics
from gatcluster.learning.revival import with_all_parts
from gatcluster.learning.training import Training
from gatcluster.learning.watch import check_finite
from gatcluster.learning.whitening import whitened
from gatcluster.model.inference import infer
from gatcluster.model.network import GATNetwork, NetworkOutput

_RISING_STEPS = 20  # in which the learning rate of a stage grows to its full height
_FALL_IN_WARM_UP, _FALL_IN_ROUND, _FALL_IN_LAST_ROUND = 0.8, 0.7, 0.95  # of the rate, evenly, until the stage's end
_CUTTING_SHARE = 0.5  # of what is left, for one embedding and its cuts: the rest is to learn them
_LEAST_BATCH = 16
_LEAST_VIEW = 24  # pixels a side, in the warm-up
_PATCHED_IMAGES = 1000  # whose patches the first layer begins with
_CLOSE_NEIGHBOURS = 5  # a view of one of these may stand in for a view of the image itself
_ADAM_SHARE = 0.1  # of Muon's learning rate, for biases and normalisations
PRIMING_IMAGES, _PRIMING_STEPS, _PRIMING_BATCH = 4000, 150, 256
# A short run is not to spend most of its epochs or minutes on these. After fewer than 100 the heads hardly know the
# parts; only where a few epochs are asked for are there fewer, in proportion.
_LEAST_PRIMING_STEPS, _PRIMING_STEPS_PER_STEP, _PRIMING_SHARE = 100, 3, 0.1
_LEAST_PRIMING_STEPS_OF_FEW_EPOCHS = 20
_TINY = 1e-12
_SURE = 0.5  # images trusted more than this (squared confidence) need not be told apart from others of their part


def learn_fast(training: Training) -> None:
    """Warm up; then partition the neighbour graph and learn it, round by round."""
    settings = training.settings.fast
    assert settings is not None
    learner = FastLearner(training, settings)
    course = FastCourse(len(training.images), training.settings.n_clusters, settings.rounds, settings.warm_up_share)
    training.parts.add("course", course)  # a resumed run goes on in the stage in which it was
    if not course.warmed_up:
        if not training.resumed:
            learner.whiten_first_layer()
            course.plan_warm_up(keep_back_the_end(training, with_statistics=True))
        learner.warm_up(StageBudget(training.budget, course.end_of_warm_up))
        course.end_warm_up()
        training.end_stage()
    while not course.over:
        cut = course.cut
        if cut is None:
            before = training.budget.spent
            cut = learner.cut(course.parts_before)
            cost = training.budget.spent - before
            if course.parts_before is None:
                learner.prime_heads(cut.partition)
            course.begin_round(cut, training.budget.spent, cost)
            training.end_stage()
        if not training.stopped:
            learner.learn_partition(cut, StageBudget(training.budget, course.end_of_round), course.is_last_round)
        if training.stopped:  # only now: even after a stop in the warm-up the heads know some partition
            training.end_stage()
            break
        course.end_round()
        training.end_stage()
    refresh_statistics(training.network, training.images, training.settings)


def warm_up_size(settings: Settings) -> tuple[int, int] | None:
    """Height and width of the views of the warm-up; None: those of the images.

    A crop of a photo shows its object enlarged. Smaller views show it at about the size that it has in the whole image,
    which is what the network will look at, and take less time. Small glyphs would lose their strokes.
    """
    fast, images = settings.fast, settings.images
    if fast is None or images.augment != "photo" or settings.network.preset is not None:
        return None
    height, width = (round(fast.warm_up_scale * side) for side in images.size)
    return (height, width) if min(height, width) >= _LEAST_VIEW else None


def images_of_step(sub_batch: int, n_images: int) -> int:
    """The images of a step: of few images there are several steps yet."""
    return min(sub_batch, max(_LEAST_BATCH, n_images // 4), n_images)


def warm_up_views(wanted: int, n_images: int) -> int:
    """The views of each image in the warm-up: as many as wanted, or two where too few images would be left.

    A step takes as many pictures as two views of ``n_images`` are: of fewer images, there are more views.

    >>> warm_up_views(4, n_images=128), warm_up_views(4, n_images=20)
    (4, 2)
    """
    return wanted if 2 * n_images >= wanted * _LEAST_BATCH else 2


def even_trust(partition: Partition, n_clusters: int) -> NDArray[np.float32]:
    """How far each image's part is trusted (N,), relative to the others of that part: the mean of each part is 1.

    Else a small part of which the cut is less sure would hardly be heard, and its cluster might stay empty.

    >>> even_trust(Partition(np.array([0, 0, 1]), np.array([1, 0.5, 0.1], np.float32)), 2)
    array([1.6, 0.4, 1. ], dtype=float32)
    """
    trust = partition.confidence**2
    sizes = np.maximum(np.bincount(partition.parts, minlength=n_clusters), 1)
    mean_of_part = np.bincount(partition.parts, trust, n_clusters) / sizes  # (k,)
    return (trust / np.maximum(mean_of_part, _TINY)[partition.parts]).astype(np.float32)


class _Contrasted(nn.Module):
    """The network, with a projection for contrast beside its heads."""

    def __init__(self, network: GATNetwork) -> None:
        super().__init__()
        self.network = network
        self.projection = projection_head(network.backbone.channels)

    def forward(self, images: Tensor, with_heads: bool) -> tuple[Tensor, NetworkOutput | None]:
        features = self.network.features(images)
        projected = self.projection(features.mean(dim=(2, 3)))
        return projected, self.network.heads(features) if with_heads else None


class FastLearner:
    """The two kinds of training that `fast` alternates with the partition of the graph."""

    def __init__(self, training: Training, settings: FastSettings) -> None:
        self.training = training
        self.settings = settings
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(training.settings.seed)
            module = _Contrasted(training.network)
        optimizers = fast_optimizers(module, in_16_bits=training.settings.precision == "bf16-mixed")
        model, *self.optimizers = training.fabric.setup(module, *optimizers)
        self.model = Divided(model)
        self.model.train()
        n_images = len(training.images)
        self.n = images_of_step(training.settings.training.sub_batch, n_images)
        training.take_in(module, *optimizers)
        self.batches = training.parts.add("batches", RandomBatches(n_images, self.n, training.random))

    def whiten_first_layer(self) -> None:
        """Let the first convolution begin with filters that see the directions of the images' own patches alike."""
        training, size = self.training, warm_up_size(self.training.settings)
        sample = training.random.permutation(len(training.images))[:_PATCHED_IMAGES]
        per_part = training.settings.training.target_sub_batch
        parts = (sample[start : start + per_part] for start in range(0, len(sample), per_part))
        begin_whitened(training.network, (training.transformed(part, size) for part in parts))

    def warm_up(self, budget: StageBudget) -> None:
        """Train the backbone on contrast."""
        size = warm_up_size(self.training.settings)
        n_views = warm_up_views(self.settings.warm_up_views, self.n)

        def step(batch: Indices) -> Step:
            images = self.training.transformed(np.tile(batch, n_views), size)
            projected, _ = self.model(images, with_heads=False)
            contrast = contrastive_loss(projected, self.settings.temperature, n_views)
            return Step(contrast, {"contrast": contrast})

        rate = self.training.settings.training.learning_rate
        self._train("warm-up", step, budget, rate, fall=_FALL_IN_WARM_UP, n_views=n_views)

    def cut(self, parts_before: NDArray[np.int64] | None) -> Cut:
        """Each image's nearest neighbours, and the parts that the graph of them falls into.

        Args:
            parts_before: (N,), of the cut before, whose numbers are kept; None for the first.
        """
        training, settings = self.training, self.settings
        spent = training.budget.spent
        cutting = StageBudget(training.budget, end=spent + _CUTTING_SHARE * (1 - spent))
        training.report_progress("neighbour graph")
        refresh_statistics(training.network, training.images, training.settings, training.note_action)
        embedding = infer(
            training.network, self._embedding, training.images, training.settings, tell=training.note_action
        )
        check_finite(embedding, "embeddings")
        embedding = whitened(embedding, settings.whitening)
        k = training.settings.n_clusters
        landmarks = choose_landmarks(embedding, k, settings.landmarks, training.random)
        neighbours = nearest_neighbours(embedding, min(max(settings.neighbours), len(landmarks) - 1), landmarks)
        seed = int(training.random.integers(2**31))
        partition = best_partition(
            neighbours, k, settings.neighbours, settings.ridges, seed, landmarks, is_enough=lambda: cutting.spent >= 1
        )
        if training.settings.watch:
            partition, revived = with_all_parts(partition, embedding, k, seed)
            for part in revived:
                training.note_action(f"revived part {part} of the graph, which was empty, with half of the largest")
        if parts_before is not None:
            partition = renumbered(partition, parts_before, k)
        return Cut(neighbours.indices[:, :_CLOSE_NEIGHBOURS].copy(), partition)

    def _embedding(self, images: Tensor) -> Tensor:
        """Embeddings (n, C) in the precision of training: it does to find neighbours, and may take less time."""
        with self.training.fabric.autocast():
            return torch.as_tensor(self.training.network.embedding(images))

    def prime_heads(self, partition: Partition) -> None:
        """Teach the two heads the parts from stored image features, while the backbone stands still.

        It takes seconds, and spares the rounds that follow from pulling the backbone about with heads that know
        nothing yet.
        """
        training, k = self.training, self.training.settings.n_clusters
        chosen = training.random.permutation(len(training.images))[:PRIMING_IMAGES]
        network = training.network
        features = infer(
            network, network.features, training.images, training.settings, chosen, tell=training.note_action
        )
        parts = torch.from_numpy(partition.parts[chosen])
        trust = torch.from_numpy(even_trust(partition, k)[chosen])
        prior = _prior(partition.parts, k).to(training.fabric.device)
        weights = _priming_weights(training.settings.loss_weights)
        heads = nn.ModuleList([network.label_head, network.attention_head])
        optimizers = fast_optimizers(heads)
        n_steps = self._most_priming_steps()
        budget = StageBudget(training.budget, end=min(1.0, training.budget.spent + _PRIMING_SHARE))
        for step in range(n_steps):
            done = max(step / n_steps, min(budget.spent, step / _LEAST_PRIMING_STEPS))
            if done >= 1:
                break
            picked = torch.from_numpy(training.random.integers(0, len(chosen), min(_PRIMING_BATCH, len(chosen))))
            output = network.heads(features[picked].to(training.fabric.device))
            losses = fast_total_loss(
                output.label_features,
                output.attention_label_features,
                parts[picked].to(training.fabric.device),
                trust[picked].to(training.fabric.device),
                prior,
                weights,
            )
            _set_rates(optimizers, training.settings.training.learning_rate * (1 - done))
            losses.total.backward()  # type: ignore[no-untyped-call]  # no scaling here: Fabric has not seen these optimisers
            for optimizer in optimizers:
                optimizer.step()

    def _most_priming_steps(self) -> int:
        """As many as there are, unless so few epochs were asked for that these would take longer than all else."""
        epochs = self.training.settings.training.epochs
        if epochs is None:
            return _PRIMING_STEPS
        planned = epochs * len(self.training.images) / self.n
        in_proportion = max(_LEAST_PRIMING_STEPS_OF_FEW_EPOCHS, int(_PRIMING_STEPS_PER_STEP * planned))
        return min(_PRIMING_STEPS, in_proportion)

    def learn_partition(self, cut: Cut, budget: StageBudget, is_last: bool) -> None:
        """Learn the parts of the graph with the four tasks, contrast beside them."""
        partition = cut.partition
        settings, device = self.settings, self.training.fabric.device
        k, weights = self.training.settings.n_clusters, self.training.settings.loss_weights
        prior = _prior(partition.parts, k).to(device)
        all_trust = torch.from_numpy(partition.confidence**2)  # (N,)
        all_parts = torch.from_numpy(partition.parts)  # (N,)

        def step(batch: Indices) -> Step:
            views = np.concatenate([batch, self._partners(batch, cut.close, partition.parts)])  # (2n,)
            parts, trust = all_parts[views].to(device), all_trust[views].to(device)
            projected, output = self.model(self.training.transformed(views), with_heads=True)
            losses = fast_total_loss(
                output.label_features, output.attention_label_features, parts, trust, prior, weights
            )
            sure_parts = torch.where(trust > _SURE, parts, -1)
            contrast = contrastive_loss(projected, settings.temperature, parts=sure_parts)
            return Step(
                losses.total + settings.contrast_weight * contrast,
                {**losses._asdict(), "contrast": contrast},
                output.label_features[: len(batch)],
            )

        rate = self.training.settings.training.learning_rate * settings.refining_share
        self._train("clustering", step, budget, rate, fall=_FALL_IN_LAST_ROUND if is_last else _FALL_IN_ROUND)

    def _partners(self, batch: Indices, neighbours: NDArray[np.int64], parts: NDArray[np.int64]) -> Indices:
        """For each image of the batch the image whose view it has to find: itself, or a near one of the same part."""
        random = self.training.random
        close = neighbours[batch, random.integers(0, neighbours.shape[1], len(batch))]
        takes_close = (random.random(len(batch)) < self.settings.neighbour_share) & (parts[close] == parts[batch])
        return np.where(takes_close, close, batch)

    def _train(
        self,
        name: str,
        step: Callable[[Indices], Step],
        budget: StageBudget,
        full_rate: float,
        fall: float,
        n_views: int = 2,
    ) -> None:
        """Descend the loss of batch after batch until the stage is over; a record for about every M images.

        Two views are counted as one image, however many of them are of the same: all steps take the same time.

        Args:
            name: of the stage.
            step: computes the loss of a batch.
            budget: the stage's.
            full_rate: the learning rate after the first steps.
            fall: the share of it that is taken away, evenly, until the end.
            n_views: of each image of a batch.
        """
        training, n_images = self.training, len(self.training.images)
        steps_per_record = max(1, training.settings.training.batch_size // self.n)
        stage = FastStage(budget, n_images, training.settings.n_clusters, training.settings.training.patience)
        training.parts.add("stage", stage)
        while stage.steps or not (stage.is_over or (stage.records and training.stopped)):  # at least once
            while stage.steps < steps_per_record and not (stage.steps and budget.spent >= 1):
                stage.rate = full_rate * min(1.0, (stage.taken + 1) / _RISING_STEPS) * (1 - fall * budget.spent)
                batch = self.batches.take(2 * self.n // n_views)
                result = self._descend(step, batch, stage.rate)
                if training.allows_step(result.loss):
                    for optimizer in self.optimizers:
                        optimizer.step()
                    stage.add(batch, result)
                else:
                    stage.skip()
                budget.spend(self.n / n_images)
                training.end_step(name)
            training.finish_iteration(
                name,
                stage.began,
                n_trained=self.n * stage.steps,
                epochs=self.n * stage.steps / n_images,
                losses=stage.mean_losses(),
                learning_rate=stage.rate,
                **self._clustering_figures(stage.batch(), stage.label_features()),
            )
            stage.close_record(training.history[-1])
        training.parts.drop("stage")

    def _descend(self, step: Callable[[Indices], Step], batch: Indices, rate: float) -> Step:
        """The loss of a batch and its gradient, in parts if memory does not suffice for the whole."""
        training = self.training
        streams = training.random_streams.state()

        def attempt() -> Step:
            training.random_streams.restore(streams)  # the same views every time
            result = step(batch)
            _set_rates(self.optimizers, rate)
            training.fabric.backward(result.loss)
            return result

        return with_room(self.model, attempt, 2 * self.n, training.note_action)

    def _clustering_figures(self, indices: Indices, features: Tensor | None) -> dict[str, Any]:
        """What a record says of clusters; nothing in the warm-up.

        Label features of the steps themselves, of transformed images, are free. To see whether assignments have
        settled, plain images must be looked at.
        """
        if features is None:
            return {}
        training = self.training
        if training.settings.training.patience is not None:
            network = training.network
            features = infer(
                network, network.label_features, training.images, training.settings, indices, training.note_action
            )
        return training.clustering_figures(indices, features)


def _set_rates(optimizers: Sequence[torch.optim.Optimizer], rate: float) -> None:
    """Prepare Muon and Adam for a step."""
    for optimizer, share in zip(optimizers, (1.0, _ADAM_SHARE), strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate * share
        optimizer.zero_grad(set_to_none=True)


def _priming_weights(weights: LossWeights) -> LossWeights:
    """Without L_R, unless nothing else tells which part is which.

    While all label features are nearly alike, L_R drives any two of them apart, whichever they are, and drowns what L_T
    says: two uneven parts became one cluster. Once the heads know the parts, it has its say.
    """
    return weights if weights.transformation == 0 else weights.model_copy(update={"relation": 0.0})


def _prior(parts: NDArray[np.int64], n_clusters: int) -> Tensor:
    """The share of each part, (k,); none is zero, so that a part that emptied may fill again."""
    sizes = np.bincount(parts, minlength=n_clusters) + 1.0
    return torch.from_numpy(sizes / sizes.sum()).float()
