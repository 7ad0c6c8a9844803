"""What reading images costs, as ratios measured in one run.

    python benchmarks/data.py --data DIR [--only decoding large second-run step memory]

DIR is a folder of photos, such as 4,000 JPEGs of 128 pixels. Measured:

decoding    all images of DIR to 64x64, with no size given and an empty cache (headers, worker processes, cache file
            and all), against a plain loop over Image.open, convert and ImageOps.fit in one process; wall-clock time,
            best of three of each, in turn
large       24 drawn JPEGs of 12 megapixels to 96x96, against the same plain loop
second-run  prepare() on DIR, from the path to images and complete settings, ready for the first training step: first
            with an empty cache, then again; import of torch excluded, it is the same in both
step        reading a batch from a memory-mapped file and transforming it, as a share of a whole step of recipe fast in
            its warm-up, lean backbone, 2 x 128 views, at 32x32 and 96x96; the median over the steps of a real fit
memory      peak resident memory of a process that fits 200,000 drawn images of 32x32x3 in one .npy file by recipe
            fast, memory-mapped pages included

Other work on the machine makes all of these noisy.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps

from gatcluster.data.cache import decoded_images, use_cache
from gatcluster.data.files import ImageFiles, find_image_files
from gatcluster.data.images import ImageSet
from gatcluster.data.workers import usable_cpus
from gatcluster.learning.callbacks import Callback
from gatcluster.learning.fit import fit
from gatcluster.learning.training import Training
from gatcluster.prepare import prepare

MEMORY_CHILD = """
import resource, sys
import numpy as np
import torch
from gatcluster.learning.fit import fit
from gatcluster.prepare import prepare
torch.set_num_threads(2)
images, settings = prepare(sys.argv[1], n_clusters=10, seed=0, augment="photo", minutes=float(sys.argv[2]))
fit(images, settings)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def files_of(folder: Path) -> ImageFiles:
    names = find_image_files(folder)
    return ImageFiles([folder / name for name in names], names)


def seconds(function: Callable[[], object]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def plain_pillow(paths: list[Path], side: int) -> None:
    """What one would write without thinking."""
    pixels = np.empty((len(paths), side, side, 3), dtype=np.uint8)
    for i, path in enumerate(paths):
        with Image.open(path) as image:
            pixels[i] = ImageOps.fit(ImageOps.exif_transpose(image).convert("RGB"), (side, side))


def without_cache(files: ImageFiles, size: tuple[int, int] | None) -> None:
    with use_cache(None):
        decoded_images(files, size, None, "crop")


def decoding(data: Path) -> None:
    files = files_of(data)
    plain, ours = [], []
    for _ in range(3):
        plain.append(seconds(lambda: plain_pillow(list(files.paths), 64)))
        ours.append(seconds(lambda: without_cache(files, None)))
    print(
        f"decoding    {len(files.names):,} photos, {min(plain) / min(ours):.2f} times as fast as plain Pillow in one "
        f"process (demand 1.7 on 2 cores; {min(plain):.2f} s to {min(ours):.2f} s)"
    )


def large() -> None:
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(24):
            rough = Image.fromarray(random.integers(0, 256, (300, 400, 3), dtype=np.uint8))
            rough.resize((4000, 3000), Image.Resampling.BICUBIC).save(Path(folder) / f"{i}.jpg", quality=90)
        files = files_of(Path(folder))
        plain = seconds(lambda: plain_pillow(list(files.paths), 96))
        ours = seconds(lambda: without_cache(files, (96, 96)))
    print(
        f"large       24 photos of 12 megapixels, {plain / ours:.1f} times as fast as plain full decoding "
        f"(demand 3; {plain:.2f} s to {ours:.2f} s)"
    )


def second_run(data: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, use_cache(Path(folder)):
        first, second = (seconds(lambda: prepare(data, n_clusters=10, seed=0)) for _ in range(2))
    print(
        f"second-run  images and settings are ready {first / second:.0f} times as fast as in the first run "
        f"(demand 20; {first:.2f} s to {second:.3f} s)"
    )


@contextmanager
def timed_reading(times: list[float]) -> Iterator[None]:
    """Note how long each batch takes to be read and transformed."""
    original = Training.transformed

    def timed(self: Training, indices: np.ndarray) -> torch.Tensor:
        began = time.perf_counter()
        batch = original(self, indices)
        times.append(time.perf_counter() - began)
        return batch

    Training.transformed = timed  # type: ignore[method-assign]
    try:
        yield
    finally:
        Training.transformed = original  # type: ignore[method-assign]


class _Enough(Exception):
    """The warm-up has been watched long enough."""


def step(size: int, demand: float, steps: int) -> None:
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images.npy"
        np.save(path, random.integers(0, 256, (4000, size, size, 3), dtype=np.uint8))
        images, settings = prepare(path, n_clusters=10, seed=0, augment="photo", epochs=100)
        reading: list[float] = []
        ends: list[float] = []
        with timed_reading(reading):
            run_steps(images, settings, ends, steps)
    whole = statistics.median(np.diff(ends[3:]))
    share = statistics.median(reading[4:]) / whole
    print(
        f"step        {size}x{size}: reading and augmentation take {share:.1%} of a step "
        f"(demand at most {demand:.0%}; a step takes {whole * 1000:.0f} ms)"
    )


def run_steps(images: ImageSet, settings: object, ends: list[float], steps: int) -> None:
    """The first steps of a fit; ``ends`` takes the moment at which each is over."""

    class Stop(Callback):
        def on_progress(self, progress: object) -> None:
            ends.append(time.perf_counter())
            if len(ends) >= steps:
                raise _Enough

    with suppress(_Enough):
        fit(images, settings, [Stop()])  # type: ignore[arg-type]


def memory(n_images: int, minutes: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images.npy"
        images = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(n_images, 32, 32, 3))
        random = np.random.default_rng(0)
        for start in range(0, n_images, 10_000):
            images[start : start + 10_000] = random.integers(0, 256, images[start : start + 10_000].shape, np.uint8)
        del images
        command = [sys.executable, "-W", "ignore", "-c", MEMORY_CHILD, str(path), str(minutes)]
        peak = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(
        f"memory      {n_images:,} images of 32x32x3 ({n_images * 3072 / 1e9:.2f} GB): peak {peak / 1e9:.2f} GB "
        f"= {peak / 1.5e9:.2f} of the 1.5 GB allowed"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder of photos")
    parser.add_argument("--only", nargs="+", default=["decoding", "large", "second-run", "step", "memory"])
    parser.add_argument("--images", type=int, default=200_000, help="for memory")
    parser.add_argument("--minutes", type=float, default=1.0, help="of training, for memory")
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    if options.data is None and {"decoding", "second-run"} & set(options.only):
        parser.error("--data DIR is needed, a folder of photos")
    print(
        f"{platform.machine()}, {usable_cpus()} CPUs, load {os.getloadavg()[0]:.1f}, "
        f"{torch.get_num_threads()} threads, torch {torch.__version__}, Python {platform.python_version()}"
    )
    if "decoding" in options.only:
        decoding(options.data)
    if "large" in options.only:
        large()
    if "second-run" in options.only:
        second_run(options.data)
    if "step" in options.only:
        step(32, 0.15, options.steps)
        step(96, 0.05, options.steps)
    if "memory" in options.only:
        memory(options.images, options.minutes)


if __name__ == "__main__":
    main()
