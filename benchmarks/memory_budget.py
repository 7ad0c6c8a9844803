"""Peak resident memory by image size, batch M and sub-batch m₂; and a budget, kept where one step could not.

    python benchmarks/memory_budget.py [--sizes 32 96 192 384] [--batches 1000 4000 6000] [--sub-batches 16 32]
                                       [--budget 2GB] [--budget-size 192] [--threads 2]

Each case is a process of its own that runs recipe `paper` for one outer iteration, of which step 2 takes only some
steps: its peak does not depend on how many. Images are of random pixels, in a file that is mapped, and their number is
M. What training takes is the peak without what the process has once all libraries are loaded.

- Flatness in M: the peak at the largest M over that at the smallest, without the label features (M, k) themselves.
- Linearity in m₂ x pixels: bytes for each pixel of a sub-batch, between two values of m₂, at every size. Their largest
  over their smallest says how far from one line all sizes are; the network itself is another for each size.
- The budget: a run with ``memory`` at one size and M = 1,000; beside it a one-step implementation, all M images in one
  graph, computed from the bytes for each image that were measured between two m₂.

Prints Markdown for docs/results.md, and writes nothing. Give one of each to try it.
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
training = settings.training
per_epoch = batch // training.sub_batch
trainer.algorithm_1(trainer.paper_targets, EpochBudget(steps / per_epoch), learning_rate=lambda spent: 1e-3)
figures = {"before": before, "peak": _status("VmHWM"), "m1": training.target_sub_batch, "m2": training.sub_batch}
print(json.dumps(figures))
"""

K = 10


class Case(NamedTuple):
    """A measurement."""

    size: int
    batch: int
    sub_batch: int
    before: int  # bytes
    peak: int

    @property
    def growth(self) -> int:
        """What training takes."""
        return self.peak - self.before


def measured(
    size: int, batch: int, sub_batch: int, options: argparse.Namespace, memory: str = "-"
) -> tuple[Case, dict[str, int]]:
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
    return Case(size, batch, figures["m2"], figures["before"], figures["peak"]), figures


def print_cases(cases: list[Case]) -> None:
    """Every peak."""
    print("| image size | M | m2 | peak resident, MB | of it by training, MB |")
    print("|---|---|---|---|---|")
    for case in cases:
        row = (f"{case.size}x{case.size}", f"{case.batch:,}", case.sub_batch, f"{case.peak / 1e6:.0f}")
        print("|", " | ".join(map(str, row)), f"| {case.growth / 1e6:.0f} |")
    print()


def print_ratios(cases: list[Case]) -> None:
    """Flatness in M, and linearity in m2 x pixels."""
    print("| image size | peak at the largest M to that at the smallest | bytes for each pixel of m2 images |")
    print("|---|---|---|")
    slopes = []
    for size in sorted({case.size for case in cases}):
        own = [case for case in cases if case.size == size]
        small_m2, large_m2 = min(case.sub_batch for case in own), max(case.sub_batch for case in own)
        by_batch = {case.batch: case.peak - 4 * K * case.batch for case in own if case.sub_batch == large_m2}
        flat = by_batch[max(by_batch)] / by_batch[min(by_batch)]
        slope = bytes_for_each_image(own) / size**2 if large_m2 > small_m2 else float("nan")
        slopes.append(slope)
        print(f"| {size}x{size} | {flat:.2f} | {slope:.0f} |")
    print()
    if len(slopes) > 1:
        print(f"Linearity in m2 x pixels: the largest of these is {max(slopes) / min(slopes):.2f} times the least.\n")


def bytes_for_each_image(cases: list[Case]) -> float:
    """Of a sub-batch, between the smallest and the largest m2, at the smallest M."""
    own = [case for case in cases if case.batch == min(case.batch for case in cases)]
    small, large = min(own, key=lambda case: case.sub_batch), max(own, key=lambda case: case.sub_batch)
    return (large.growth - small.growth) / (large.sub_batch - small.sub_batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[32, 96, 192, 384])
    parser.add_argument("--batches", type=int, nargs="+", default=[1000, 4000, 6000])
    parser.add_argument("--sub-batches", type=int, nargs="+", default=[16, 32])
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
    smallest, largest_m2 = min(options.batches), max(options.sub_batches)
    wanted = [(size, batch, largest_m2) for size in options.sizes for batch in options.batches]
    wanted += [(size, smallest, m2) for size in options.sizes for m2 in options.sub_batches if m2 != largest_m2]
    cases = [measured(*case, options)[0] for case in sorted(wanted)]
    if cases:
        print_cases(cases)
        print_ratios(cases)
    if options.budget == "-":
        return
    size, batch = options.budget_size, options.budget_batch
    own = [measured(size, batch, m2, options)[0] for m2 in (8, 24)]
    one_step = own[0].before + bytes_for_each_image(own) * batch
    case, figures = measured(size, batch, 0, options, memory=options.budget)
    print(f"| {size}x{size}, M = {batch:,} | peak resident, GB | m1 | m2 |")
    print("|---|---|---|---|")
    print(f"| `--memory {options.budget}` | {case.peak / 1e9:.2f} | {figures['m1']} | {figures['m2']} |")
    print(f"| all M images in one graph (computed) | {one_step / 1e9:.2f} | | {batch:,} |")
    print(f"\nThe one step would take {one_step / case.peak:.1f} times as much.")


if __name__ == "__main__":
    main()
