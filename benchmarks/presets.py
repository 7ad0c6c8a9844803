"""The paper's recipe through its presets, at the paper's m2 = 32: whether losses stay finite for 200 steps.

python benchmarks/presets.py                 # cifar10 and stl10, 200 steps each
python benchmarks/presets.py cifar10 --steps 50

The images are drawn: bright rectangles on noise. What is checked is that training holds, not what it finds.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import torch

from gatcluster.config import PRESETS, ImageSettings, make_settings
from gatcluster.data.images import ImageSet
from gatcluster.learning.callbacks import Callback, Progress
from gatcluster.learning.fit import learn_as_published
from gatcluster.learning.history import Record
from gatcluster.learning.trainer import Trainer

SUB_BATCH = 32
STEPS_PER_BATCH = 10


class Printer(Callback):
    """Prints the losses of every outer iteration, and counts the steps."""

    steps = 0

    def on_progress(self, progress: Progress) -> None:
        """Count."""
        self.steps += 1

    def on_record(self, record: Record) -> None:
        """Print, and check."""
        losses = "  ".join(f"{name} {value:8.4f}" for name, value in record.losses.items())
        print(f"  step {self.steps:4d}  {losses}  {record.images_per_second:6.1f} images/s", flush=True)
        assert all(math.isfinite(value) for value in record.losses.values()), "a loss is not finite"


def drawn_photos(n: int, side: int) -> ImageSet:
    random = np.random.default_rng(0)
    pixels = random.integers(0, 90, (n, side, side, 3), dtype=np.uint8)
    for image in pixels:
        top, left = random.integers(0, side // 2, 2)
        image[top : top + side // 2, left : left + side // 3, random.integers(3)] += 150
    return ImageSet(pixels, [str(i) for i in range(n)])


def train(preset: str, steps: int) -> None:
    chosen = PRESETS[preset]
    n_images = SUB_BATCH * STEPS_PER_BATCH
    settings = make_settings(
        n_clusters=chosen.n_clusters,
        n_images=n_images,
        images=ImageSettings(size=(chosen.size, chosen.size), channels=3, grey=chosen.grey, augment="photo"),
        seed=0,
        recipe="paper",
        preset=preset,
        epochs=-(-steps // STEPS_PER_BATCH),
        sub_batch=SUB_BATCH,
    )
    printer = Printer()
    trainer = Trainer(drawn_photos(n_images, chosen.size), settings, [printer])
    learn_as_published(trainer)
    assert printer.steps >= steps
    assert all(torch.isfinite(value).all() for value in trainer.network.state_dict().values()), "a weight is not finite"
    print(f"{preset}: {printer.steps} steps at {chosen.size}x{chosen.size}, all losses and weights finite")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="*", default=["cifar10", "stl10"], choices=[*PRESETS], metavar="preset")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    for preset in options.presets:
        print(f"{preset}:")
        train(preset, options.steps)


if __name__ == "__main__":
    main()
