"""One small fitted run with its report, and a real browser to look at it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from PIL import Image

from gatcluster.report.progress import PlainProgress
from gatcluster.workflow import evaluate_run, fit_to_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser

N, K = 90, 3
# Names that would do something if a page took them for more than text.
ODD_NAMES = (
    "<script>window.ran = 1</script>.png",  # a folder and a file in it
    "<img src=x onerror=window.ran=1>.png",
    "quo\"te's & amp; `${window.ran=1}`.png",
    "line\u2028separator #1?.png",
    "日本語 ünïcode %41.png",
    os.fsdecode(b"caf\xe9.png"),
)
SWITCHES = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


class Fitted(NamedTuple):
    run: Path
    photos: Path
    names: list[str]


def drawn(number: int) -> np.ndarray:
    """A 24x20 colour image of noise with a bright bar: lying, standing or slanting."""
    random = np.random.default_rng(number)
    pixels = random.integers(0, 60, size=(24, 20, 3))
    at = int(random.integers(4, 14))
    if number % K == 0:
        pixels[at : at + 5, 2:18] = 220
    elif number % K == 1:
        pixels[2:22, at : at + 4] = 220
    else:
        for row in range(20):
            pixels[row, row : row + 4] = 220
    return pixels.astype(np.uint8)


def write_photos(folder: Path) -> list[str]:
    """N images in folders of their classes; some of their names are odd."""
    names = []
    for number in range(N):
        name = ODD_NAMES[number] if number < len(ODD_NAMES) else f"{number:02}.png"
        path = folder / ("lying", "standing", "<b>slanting")[number % K] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(drawn(number)).save(path)
        names.append(str(path.relative_to(folder)))
    return sorted(names)


@pytest.fixture(scope="session")
def fitted(tmp_path_factory) -> Fitted:
    """A fitted and evaluated run with its report; tests must not change it."""
    folder = tmp_path_factory.mktemp("fitted")
    photos = folder / "<i>photos"
    names = write_photos(photos)
    (photos / "broken <b>.png").write_bytes(b"no image")
    fit_to_run(photos, folder / "run", False, PlainProgress(), n_clusters=K, seed=0, epochs=4)
    evaluate_run(folder / "run", "folders")
    return Fitted(folder / "run", photos, names)


@pytest.fixture
def own_run(fitted, tmp_path) -> Path:
    """A copy of the fitted run, to change."""
    return Path(shutil.copytree(fitted.run, tmp_path / "run"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, installed if it is missing and we are root."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install .[dev]")
    path = _chromium()
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(SWITCHES))
        yield browser
        browser.close()


def _chromium() -> str:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None and shutil.which("apt-get") and os.geteuid() == 0:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": False}
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]
        if subprocess.run(install, env=environment, **quiet).returncode:
            subprocess.run(["apt-get", "update"], env=environment, **quiet)
            subprocess.run(install, env=environment, **quiet)
        found = shutil.which("chromium")
    if found is None:
        pytest.skip("no Chromium to look at the report with: install the package 'chromium'")
    return found
