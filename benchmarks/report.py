"""The report of 60,000 images of 32x32: the size of its folder, the time to a usable page, the memory of the page.

    python benchmarks/report.py [--images 60000] [--json] [--keep DIR]

No training: drawn images and made-up label features go through the real writer. The page is opened from disk in a real
Chromium (package "chromium", and Playwright from the extra "dev"). Each figure is printed as a ratio to its limit; the
exit code is 1 if one is above it.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shutil
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from gatcluster.config import ImageSettings, make_settings
from gatcluster.data.images import ImageSet
from gatcluster.learning.fit import FitResult
from gatcluster.learning.history import Record
from gatcluster.learning.snapshots import Snapshots
from gatcluster.model.network import build_network
from gatcluster.report.pictures import all_pictures
from gatcluster.report.site import write_report
from gatcluster.runs.create import new_run

LIMITS = {"folder_mb": 120.0, "seconds_to_usable": 3.0, "page_memory_mb": 400.0}
K = 10
SWITCHES = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


def drawn_images(count: int, side: int = 32) -> np.ndarray:
    """Colour images with as much in them as small photographs: two shapes on a ground, and grain."""
    random = np.random.default_rng(0)
    pixels = np.empty((count, side, side, 3), dtype=np.uint8)
    for number in range(count):
        ground, one, other = (tuple(int(part) for part in random.integers(0, 256, 3)) for _ in range(3))
        picture = Image.new("RGB", (side, side), ground)
        draw = ImageDraw.Draw(picture)
        places = random.integers(0, side, 8).tolist()
        draw.ellipse([places[0] // 2, places[1] // 2, side - 4, side - 6], fill=one)
        draw.polygon(places[2:8], fill=other)
        pixels[number] = np.asarray(picture.filter(ImageFilter.GaussianBlur(0.7)))
    for start in range(0, count, 10_000):
        part = pixels[start : start + 10_000]
        grain = random.normal(0, 6, part.shape)
        part[:] = np.clip(part + grain, 0, 255)
    return pixels


def write_run(folder: Path, count: int) -> tuple[Path, float]:
    """A run with its report, and the seconds that writing the report took."""
    random = np.random.default_rng(1)
    sharpness = random.exponential(4, (count, 1))
    logits = sharpness * random.normal(0, 1, (count, K))
    features = np.exp(logits - logits.max(axis=1, keepdims=True))
    features = (features / features.sum(axis=1, keepdims=True)).astype(np.float32)
    form = ImageSettings(size=(32, 32), channels=3, grey=True, augment="photo")
    settings = make_settings(n_clusters=K, n_images=count, images=form, seed=0, epochs=1)
    sizes = np.bincount(features.argmax(axis=1), minlength=K).tolist()
    history = [
        Record("clustering", 1 + i // 60, 1 + i, {"total": 1 / (1 + i)}, 0.01, float(i), 1e3, sizes, 0.9, 2.3, 0.1)
        for i in range(600)
    ]
    sample = np.sort(random.permutation(count)[:2000])
    stages = np.stack([features[sample] ** (s / 10) for s in range(11)])
    snapshots = Snapshots(
        sample,
        ["clustering"] * 11,
        [s / 10 for s in range(11)],
        (stages / stages.sum(axis=2, keepdims=True)).astype(np.float16),
    )
    images = ImageSet(drawn_images(count), [f"photos/of-some-length/{number:06}.jpg" for number in range(count)])
    with new_run(folder / "run", overwrite=False) as run:
        result = FitResult(settings, build_network(settings).eval(), features, history, snapshots)
        run.write(result, images.names, None)
        began = time.monotonic()
        write_report(run, all_pictures(images))
        return run.path, time.monotonic() - began


def look(run: Path) -> dict[str, float]:
    """Open the page as a person would; time to the first cards with pictures, then memory after a walk through it."""
    from playwright.sync_api import sync_playwright

    chromium = next(path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(SWITCHES))
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        began = time.monotonic()
        page.goto((run / "report" / "index.html").as_uri(), wait_until="commit")
        page.wait_for_selector("html[data-ready]")
        page.wait_for_selector("canvas.tile[data-painted]")
        usable = time.monotonic() - began
        page.click(".card-facts >> nth=0")
        page.wait_for_selector("#list canvas.tile[data-painted]")
        for _ in range(12):
            page.mouse.wheel(0, 2500)
            page.wait_for_timeout(60)
        page.click(".tabs a[href='#map']")
        page.wait_for_selector("#map-canvas[data-points]")
        page.click("#map-in")
        page.wait_for_timeout(300)
        page.click(".tabs a[href='#clusters']")
        page.click(".strip-thumb >> nth=0")
        page.wait_for_selector("#picture-near canvas[data-painted]")
        page.check("#attention-on")
        memory = renderer_memory(browser)
        browser.close()
    return {"seconds_to_usable": usable, "page_memory_mb": memory / 1e6}


def renderer_memory(browser: Any) -> int:
    """Memory of the process that holds the page, without what it shares with others, in bytes."""
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    return max(private_bytes(int(process["id"])) for process in processes if process["type"] == "renderer")


def private_bytes(process: int) -> int:
    """Pss: its own pages, and its share of those that several processes have."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text()
    return int(re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)[1]) * 1024  # type: ignore[index]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=60_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="leave the run in this folder")
    options = parser.parse_args()

    with nullcontext(options.keep) if options.keep else TemporaryDirectory() as folder:
        run, writing = write_run(Path(folder), options.images)
        n_bytes = sum(path.stat().st_size for path in (run / "report").rglob("*") if path.is_file())
        found = {"folder_mb": n_bytes / 1e6, **look(run)}
    ratios = {name: found[name] / limit for name, limit in LIMITS.items()}
    if options.json:
        print(json.dumps({**found, "seconds_to_write": writing, "ratios": ratios}))
    else:
        print(f"{platform.machine()}, Python {platform.python_version()}, {options.images} images, k = {K}")
        for name, limit in LIMITS.items():
            print(f"{name:>18}  {found[name]:8.1f}  = {ratios[name]:.2f} of {limit:g}")
        print(f"{'seconds_to_write':>18}  {writing:8.1f}")
    sys.exit(int(any(ratio > 1 for ratio in ratios.values())))


if __name__ == "__main__":
    main()
