"""The warm-up of the `fast` recipe: a backbone that tells images apart and their transformations together."""

from __future__ import annotations

import math
import time

import torch
from torch import Tensor, nn

from gatcluster.learning.budget import Budget
from gatcluster.learning.trainer import Trainer, random_batches
from gatcluster.model.network import GATNetwork

_PROJECTION_HIDDEN = 256
_PROJECTION = 64
_FIRST_STEPS = 20  # over which the learning rate rises


def contrastive_loss(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """How badly each image's two views find each other among all views of the batch.

    This is the normalised, temperature-scaled cross entropy of contrastive learning.

    Args:
        first: (n, d), projections of one transformation of n images.
        second: (n, d), projections of another.
        temperature: of the softmax over cosines.

    Returns:
        A scalar >= 0.

    >>> views = torch.eye(2)
    >>> round(contrastive_loss(views, views, temperature=1.0).item(), 4)  # log(e + 2) - 1
    0.5514
    """
    n = len(first)
    unit = nn.functional.normalize(torch.cat([first, second]), dim=1)  # (2n, d)
    similarities = unit @ unit.T / temperature  # (2n, 2n)
    itself = torch.eye(2 * n, dtype=torch.bool, device=unit.device)
    partner = torch.arange(2 * n, device=unit.device).roll(n)
    return nn.functional.cross_entropy(similarities.masked_fill(itself, -torch.inf), partner)


class _Projector(nn.Module):
    """The backbone, pooled, and the projection that contrast needs and clustering throws away."""

    def __init__(self, network: GATNetwork) -> None:
        super().__init__()
        self.backbone = network.backbone
        self.projection = nn.Sequential(
            nn.Linear(network.backbone.channels, _PROJECTION_HIDDEN),
            nn.BatchNorm1d(_PROJECTION_HIDDEN),
            nn.ReLU(inplace=True),
            nn.Linear(_PROJECTION_HIDDEN, _PROJECTION),
        )

    def forward(self, images: Tensor) -> Tensor:
        return torch.as_tensor(self.projection(self.backbone(images).mean(dim=(2, 3))))


def warm_up(trainer: Trainer, budget: Budget) -> None:
    """Train the backbone on contrast until the budget is spent."""
    settings = trainer.settings.warm_up
    assert settings is not None
    images = trainer.images
    n = min(settings.batch_size, len(images))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(trainer.settings.seed)
        projector = _Projector(trainer.network)
    optimizer = torch.optim.AdamW(projector.parameters(), lr=settings.learning_rate, weight_decay=1e-4)
    model, optimizer = trainer.fabric.setup(projector, optimizer)
    model.train()
    steps_per_record = max(1, trainer.settings.training.batch_size // n)
    batches = random_batches(len(images), n, trainer.random)
    step = 0
    while budget.spent < 1 and not trainer.stopped:
        began, losses = time.monotonic(), []
        for _ in range(steps_per_record):
            if budget.spent >= 1:
                break
            batch = next(batches)
            step += 1
            rate = settings.learning_rate * min(1.0, step / _FIRST_STEPS) * _cosine(budget.spent)
            for group in optimizer.param_groups:
                group["lr"] = rate
            first, second = (model(trainer.transformed(batch)) for _ in range(2))
            loss = contrastive_loss(first, second, settings.temperature)
            optimizer.zero_grad(set_to_none=True)
            trainer.fabric.backward(loss)
            optimizer.step()
            losses.append(loss.detach())
            budget.spend(n / len(images))
            trainer.report_progress("warm-up")
        trainer.finish_iteration(
            "warm-up",
            began,
            n_trained=n * len(losses),
            epochs=n * len(losses) / len(images),
            losses={"contrast": float(torch.stack(losses).mean())},
            learning_rate=rate,
        )


def _cosine(spent: float) -> float:
    """Falls from 1 to 0.02 along a cosine."""
    return max(0.02, 0.5 * (1 + math.cos(math.pi * min(1.0, spent))))
