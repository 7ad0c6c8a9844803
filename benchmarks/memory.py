"""Peak memory of a fit at a small and at a large batch M, each in a process of its own.

    python benchmarks/memory.py [--images 6000] [--size 32] [--small 1000] [--large 6000] [--repeats 2] [--json]

The two peaks may differ by what the images, as stored, and the k-column label features of the larger batch take, plus
10%: nothing may grow with M squared, and nothing else with M. The images themselves are in memory once, whatever M is.
How memory is given out varies by some tens of megabytes from run to run: of each M the least of several peaks counts.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys

CHILD = """
import re, sys
import numpy as np
import torch
from gatcluster import GATCluster
n, size, batch = map(int, sys.argv[1:])
torch.set_num_threads(2)
images = np.random.default_rng(0).integers(0, 256, (n, size, size, 3), dtype=np.uint8)
GATCluster(10, recipe="paper", epochs=1, batch_size=batch, random_state=0).fit(images)
# VmHWM, not getrusage, which starts from the parent's peak.
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024)
"""


def peak_bytes(n_images: int, size: int, batch_size: int) -> int:
    """Peak resident memory of a process that fits ``n_images`` random images with M = ``batch_size``."""
    command = [sys.executable, "-W", "ignore", "-c", CHILD, str(n_images), str(size), str(batch_size)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=6000)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--small", type=int, default=1000)
    parser.add_argument("--large", type=int, default=6000)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    small, large = (
        min(peak_bytes(options.images, options.size, batch) for _ in range(options.repeats))
        for batch in (options.small, options.large)
    )
    # Of each further image of a batch: its pixels as bytes, and ten label features as floats.
    allowed = 1.1 * (options.large - options.small) * (options.size**2 * 3 + 10 * 4)
    result = {
        "peak_small_mb": small / 1e6,
        "peak_large_mb": large / 1e6,
        "difference_mb": (large - small) / 1e6,
        "allowed_mb": allowed / 1e6,
        "difference_to_allowed": (large - small) / allowed,
    }
    if options.json:
        print(json.dumps(result))
    else:
        side, share = options.size, result["difference_to_allowed"]
        print(f"{platform.machine()}, Python {platform.python_version()}, {options.images} images of {side}x{side}")
        print(f"peak at M = {options.small}: {small / 1e6:.0f} MB; at M = {options.large}: {large / 1e6:.0f} MB")
        print(f"difference {result['difference_mb']:.1f} MB = {share:.2f} of the {allowed / 1e6:.0f} MB allowed")
    sys.exit(int(large - small > allowed))


if __name__ == "__main__":
    main()
