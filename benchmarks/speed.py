"""Where the time of a training step goes, as shares of it, measured in one run.

    python benchmarks/speed.py [--steps 30]

For 32x32 and 96x96 images: reading and augmentation as a share of the step, a step of the paper's backbone as a
multiple of a step of the lean one, and the images a second of `fast` in 16 bits as a multiple of those in 32.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from gatcluster.config import ImageSettings, make_settings
from gatcluster.data.images import ImageSet
from gatcluster.devices import computes_in_bf16
from gatcluster.learning.fit import fit
from gatcluster.learning.losses import total_loss
from gatcluster.learning.targets import balanced_targets, relation_targets, sharpened_targets
from gatcluster.learning.trainer import Trainer

SUB_BATCH = 128


def median_seconds(function: Callable[[], object], steps: int) -> float:
    """Median time of a call, after three that do not count."""
    times = []
    for step in range(steps + 3):
        began = time.perf_counter()
        function()
        if step >= 3:
            times.append(time.perf_counter() - began)
    return statistics.median(times)


def step_times(size: int, preset: str | None, steps: int) -> tuple[float, float]:
    """Seconds of reading and augmenting a sub-batch, and of learning from it."""
    random = np.random.default_rng(0)
    images = ImageSet(random.integers(0, 256, (2000, size, size, 3), dtype=np.uint8), [str(i) for i in range(2000)])
    form = ImageSettings(size=(size, size), channels=3, grey=True, augment="photo")
    settings = make_settings(
        n_clusters=10, n_images=2000, images=form, seed=0, recipe="paper", preset=preset, epochs=1, sub_batch=SUB_BATCH
    )
    trainer = Trainer(images, settings)
    optimizer = torch.optim.Adam(trainer.network.parameters())
    belief = torch.softmax(torch.randn(SUB_BATCH, 10), dim=1)
    relations = relation_targets(belief.argmax(dim=1))

    def read() -> torch.Tensor:
        return trainer.transformed(random.integers(0, 2000, SUB_BATCH))

    batch = read()

    def learn() -> None:
        output = trainer.network(batch)
        losses = total_loss(
            output.label_features,
            output.attention_label_features,
            balanced_targets(belief),
            sharpened_targets(belief),
            relations,
            settings.loss_weights,
        )
        optimizer.zero_grad(set_to_none=True)
        losses.total.backward()
        optimizer.step()

    return median_seconds(read, steps), median_seconds(learn, max(3, steps // (1 if preset is None else 10)))


def warm_up_rate(size: int, precision: str, steps: int) -> float:
    """Images a second in the warm-up of `fast`: the median over its records, each of some steps."""
    n_images = steps * SUB_BATCH
    pixels = np.random.default_rng(0).integers(0, 256, (n_images, size, size, 3), dtype=np.uint8)
    form = ImageSettings(size=(size, size), channels=3, grey=False, augment="photo")
    settings = make_settings(n_clusters=10, n_images=n_images, images=form, seed=0, epochs=1, precision=precision)
    history = fit(ImageSet(pixels, [str(i) for i in range(n_images)]), settings).history
    return statistics.median(record.images_per_second for record in history if record.stage == "warm-up")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30)
    steps = parser.parse_args().steps
    print(f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}, m2 = {SUB_BATCH}")
    for size, preset in ((32, "cifar10"), (96, "stl10")):
        reading, learning = step_times(size, None, steps)
        _, paper = step_times(size, preset, steps)
        share, per_second = reading / (reading + learning), SUB_BATCH / (reading + learning)
        print(f"{size}x{size}: reading and augmentation are {share:.0%} of a step; {per_second:.0f} images/s")
        print(f"{size}x{size}: a step of preset {preset} takes {paper / learning:.1f} times as long")
        if computes_in_bf16():
            ratio = warm_up_rate(size, "bf16-mixed", steps) / warm_up_rate(size, "32-true", steps)
            print(f"{size}x{size}: `fast` sees {ratio:.1f} times as many images a second in 16 bits as in 32")


if __name__ == "__main__":
    main()
