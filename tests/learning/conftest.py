"""Images that a small network can tell apart in seconds, and settings of the paper's recipe for them."""

from collections.abc import Callable

import numpy as np
import pytest

from gatcluster.config import ImageSettings, Settings, make_settings
from gatcluster.data.images import ImageSet


@pytest.fixture
def bars() -> Callable[..., ImageSet]:
    """n noisy 8x8 images: image i has a bright bar at the place of class i % k."""

    def draw(n: int = 48, k: int = 3, seed: int = 0) -> ImageSet:
        random = np.random.default_rng(seed)
        pixels = random.integers(0, 60, (n, 8, 8, 1), dtype=np.uint8)
        for i in range(n):
            pixels[i, :, 3 * (i % k) : 3 * (i % k) + 2] += 190
        return ImageSet(pixels, names=[f"{i}.png" for i in range(n)])

    return draw


@pytest.fixture
def paper_settings() -> Callable[..., Settings]:
    """Settings of recipe "paper" for :func:`bars`; keywords reach ``make_settings``, the rest the training settings."""

    def make(n_images: int = 48, k: int = 3, training: dict[str, int] | None = None, **choices: object) -> Settings:
        made = make_settings(
            **{
                "n_clusters": k,
                "n_images": n_images,
                "images": ImageSettings(size=(8, 8), channels=1, grey=False, augment="none"),
                "seed": 0,
                "recipe": "paper",
                "epochs": None if "minutes" in choices else 1,
                "device": "cpu",
                "batch_size": 16,
                "sub_batch": 8,
            }
            | choices
        )
        return made.model_copy(update={"training": made.training.model_copy(update=training or {})})

    return make
