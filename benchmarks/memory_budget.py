"""Peak resident memory by image size, batch M and sub-batch m₂; and a budget, kept where one step could not.

    python benchmarks/memory_budget.py [--sizes 32 96 192 384] [--batches 1000 4000 6000] [--sub-batch 32]
                                       [--pixels 1179648 2359296 3538944] [--budget 2GB] [--budget-size 192]
                                       [--threads 2]

Each case is a process of its own that runs recipe `paper` for one outer iteration, of which step 2 takes only some
steps: its peak does not depend on how many. Images are of random pixels, in a file that is mapped, and their number is
M. What training takes is the peak without what the process has once all libraries are loaded.

- Flatness in M: the peak at the largest M over that at the smallest, without the label features (M, k) themselves.
- Linearity in m₂ x pixels: the peak of step 2 alone (that of step 1 grows with m₁), at every size for the m₂ that have
  so many pixels in all; the line through these points, and how far from it they are. The bytes for each pixel are those
  of a network that is another for each size.
- The budget: a run with ``memory`` at one size and M = 1,000; beside it a one-step implementation, all M images in one
  graph, computed from the bytes for each image that were measured between two m₂.

Prints Markdown for docs/results.md, and writes nothing. Give one of each to try it, two numbers of pixels.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import linear_regression
from typing import NamedTuple

CHILD = """
import json, re, sys
from pathlib import Path
import numpy as np
import torch
from numpy.lib.format import open_memmap
from gatcluster.data.images import ImageSet
from gatcluster.learning.budget import EpochBudget
from gatcluster.learning.memory import _Probe, _forget_peak, _give_back, _status
from gatcluster.learning.targets import cluster_label_features
from gatcluster.learning.trainer import Trainer
from gatcluster.prepare import prepare
size, batch, sub_batch, steps, threads, memory, path = sys.argv[1:]
size, batch, steps = int(size), int(batch), int(steps)
torch.set_num_threads(int(threads))
file = open_memmap(path, mode="w+", dtype=np.uint8, shape=(batch, size, size, 3))
random = np.random.default_rng(0)
for start in range(0, batch, 100):
    file[start : start + 100] = random.integers(0, 256, file[start : start + 100].shape, dtype=np.uint8)
del file
choices = dict(n_clusters=10, seed=0, recipe="paper", epochs=1, batch_size=batch, augment="photo")
if memory == "-":
    choices["sub_batch"] = int(sub_batch)
else:
    choices["memory"] = memory
images, settings = prepare(np.load(path, mmap_mode="r"), **choices)
_Probe(images, settings)._step(2)  # loads all that is loaded once
cluster_label_features(torch.rand(100, 10), seed=0)
_give_back()
settings = settings.model_copy(update={"memory": settings.memory or 1})  # pages of the file are given back
trainer = Trainer(images, settings)
whole = memory != "-"  # of a run within a budget the peak of everything counts, its measurements included
if not whole:
    _forget_peak()
before = _status("VmRSS")
in_step_1 = []
def targets(*args):
    found = trainer.paper_targets(*args)
    in_step_1.append(_status("VmHWM"))
    if not whole:
        _give_back()
        _forget_peak()  # from here on the peak is that of step 2
    return found
training = settings.training
per_epoch = batch // training.sub_batch
assert steps <= per_epoch  # one outer iteration
trainer.algorithm_1(targets, EpochBudget(steps / per_epoch), learning_rate=lambda spent: 1e-3)
in_step_2 = _status("VmHWM")
print(json.dumps({
    "before": before, "in_step_1": in_step_1[0], "in_step_2": in_step_2,
    "m1": training.target_sub_batch, "m2": training.sub_batch,
}))
"""

K = 10
LEAST_BATCH = 1000  # M, where it is m2 that is looked at


class Case(NamedTuple):
    """A measurement."""

    size: int
    batch: int
    sub_batch: int
    target_sub_batch: int
    before: int  # bytes, once all libraries are loaded
    in_step_1: int  # the peaks
    in_step_2: int

    @property
    def peak(self) -> int:
        """Of the whole."""
        return max(self.in_step_1, self.in_step_2)

    @property
    def pixels(self) -> int:
        """Of the images of a sub-batch."""
        return self.sub_batch * self.size**2


class Line(NamedTuple):
    """The line through the peaks of step 2 over the pixels of a sub-batch."""

    bytes_for_each_pixel: float
    farthest: float  # of the points from the line, relative to how much they grow


def measured(size: int, batch: int, sub_batch: int, options: argparse.Namespace, memory: str = "-") -> Case:
    """One case, in a process of its own; standard error tells that it has begun."""
    asked = f"m2 {sub_batch}" if memory == "-" else f"--memory {memory}"
    print(f"measuring {size}x{size}, M = {batch:,}, {asked}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        arguments = (size, batch, sub_batch, options.steps, options.threads, memory, Path(folder) / "images.npy")
        command = [sys.executable, "-W", "ignore", "-c", CHILD, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    if done.returncode:
        sys.exit(f"size {size}, M {batch}, m2 {sub_batch}: {done.stderr.strip().splitlines()[-1]}")
    figures = json.loads(done.stdout)
    return Case(
        size, batch, figures["m2"], figures["m1"], figures["before"], figures["in_step_1"], figures["in_step_2"]
    )


def print_flatness(cases: list[Case]) -> None:
    """The peaks for each M; and that at the largest M to that at the smallest, without the label features."""
    print("| image size | M | m2 | step 1, MB | step 2, MB | peak to that at the smallest M |")
    print("|---|---|---|---|---|---|")
    for case in cases:
        least = min((other for other in cases if other.size == case.size), key=lambda other: other.batch)
        ratio = (case.peak - 4 * K * case.batch) / (least.peak - 4 * K * least.batch)
        steps = f"{case.in_step_1 / 1e6:.0f} | {case.in_step_2 / 1e6:.0f}"
        print(f"| {case.size}x{case.size} | {case.batch:,} | {case.sub_batch} | {steps} | {ratio:.2f} |")
    print()


def print_linearity(cases: list[Case]) -> None:
    """The peak of step 2 over m2 x pixels."""
    print("| image size | m2: peak of step 2, MB | bytes for each pixel of m2 images | farthest from the line |")
    print("|---|---|---|---|")
    slopes = []
    for size in sorted({case.size for case in cases}):
        own = [case for case in cases if case.size == size]
        line = line_through(own)
        slopes.append(line.bytes_for_each_pixel)
        peaks = ", ".join(f"{case.sub_batch}: {case.in_step_2 / 1e6:.0f}" for case in own)
        print(f"| {size}x{size} | {peaks} | {line.bytes_for_each_pixel:.0f} | {line.farthest:.1%} |")
    print()
    if len(slopes) > 1:
        print(f"Over all sizes the largest of these slopes is {max(slopes) / min(slopes):.2f} times the least.\n")


def line_through(cases: list[Case]) -> Line:
    """The least squares line through the peaks of step 2."""
    pixels, peaks = [case.pixels for case in cases], [case.in_step_2 for case in cases]
    slope, start = linear_regression(pixels, peaks)
    distances = [abs(peak - start - slope * own) for own, peak in zip(pixels, peaks, strict=True)]
    return Line(slope, max(distances) / (max(peaks) - min(peaks)))


def print_budget(options: argparse.Namespace) -> None:
    """A run within a budget, and what all images in one graph would take."""
    size, batch = options.budget_size, options.budget_batch
    own = [measured(size, batch, m2, options) for m2 in (8, 24)]
    one_step = own[0].before + line_through(own).bytes_for_each_pixel * size**2 * batch
    case = measured(size, batch, 0, options, memory=options.budget)
    print(f"| {size}x{size}, M = {batch:,} | peak resident, GB | m1 | m2 |")
    print("|---|---|---|---|")
    print(f"| `--memory {options.budget}` | {case.peak / 1e9:.2f} | {case.target_sub_batch} | {case.sub_batch} |")
    print(f"| all M images in one graph (computed) | {one_step / 1e9:.2f} | | {batch:,} |")
    print(f"\nThe one step would take {one_step / case.peak:.1f} times as much.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[32, 96, 192, 384])
    parser.add_argument("--batches", type=int, nargs="*", default=[1000, 4000, 6000])
    parser.add_argument("--sub-batch", type=int, default=32, help="for flatness in M")
    parser.add_argument(
        "--pixels",
        type=int,
        nargs="*",
        default=[1_179_648, 2_359_296, 3_538_944],  # 8, 16 and 24 images of 384x384; 1152, 2304 and 3456 of 32x32
        help="of all images of a sub-batch, for linearity in m2 x pixels",
    )
    parser.add_argument("--budget", default="2GB", help="for the last table; - leaves it out")
    parser.add_argument("--budget-size", type=int, default=192)
    parser.add_argument("--budget-batch", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=4, help="of step 2 in each case")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--scratch", help="a folder for the images, on a disk and not in memory")
    options = parser.parse_args()

    print(
        f"{platform.machine()}, Python {platform.python_version()}, {options.threads} threads, recipe paper, k = {K}\n"
    )
    if options.batches:
        wanted = [(size, batch, options.sub_batch) for size in options.sizes for batch in sorted(options.batches)]
        print_flatness([measured(*case, options) for case in wanted])
    if options.pixels:
        by_size = {size: [pixels // size**2 for pixels in sorted(options.pixels)] for size in options.sizes}
        several = [(size, max(LEAST_BATCH, options.steps * m2), m2) for size in by_size for m2 in by_size[size]]
        print_linearity([measured(*case, options) for case in several])
    if options.budget != "-":
        print_budget(options)


if __name__ == "__main__":
    main()
