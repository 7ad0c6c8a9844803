"""The backbone is as wide as this machine can make enough steps with, and asked for only where that may help."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gatcluster.config import ImageSettings, Settings, make_settings
from gatcluster.data.images import ImageSet
from gatcluster.learning import pace
from gatcluster.learning.pace import seconds_of_step, takes_at_most, with_affordable_width
from gatcluster.prepare import prepare

IMAGES = ImageSet(np.random.default_rng(0).integers(0, 256, (40, 16, 16, 3), dtype=np.uint8), names=["a.png"] * 40)


def photo_settings(augment: str = "photo", **choices: Any) -> Settings:
    form = ImageSettings(size=(16, 16), channels=3, grey=False, augment=augment)
    return make_settings(
        **{"n_clusters": 2, "n_images": 40, "images": form, "seed": 0, "recipe": "fast", "device": "cpu"} | choices
    )


@pytest.fixture
def machine(monkeypatch):
    """A machine that takes so many seconds for a step, by width and in proportion to the images."""
    timed = []

    def set_up(seconds: dict[int, float]) -> list[tuple[int, int]]:
        def known(images: ImageSet, settings: Settings, n_images: int) -> float:
            timed.append((settings.network.width, n_images))
            return seconds[settings.network.width] * n_images / settings.training.sub_batch

        monkeypatch.setattr(pace, "seconds_of_step", known)
        return timed

    return set_up


# 2,000 steps of 0.09 s are 180 s, three quarters of four minutes; of 0.36 s, of sixteen.
@pytest.mark.parametrize(("minutes", "width"), [(0.1, 32), (3.9, 32), (4.1, 64), (15.9, 64), (16.1, 128), (600, 128)])
def test_the_backbone_is_the_widest_with_which_the_warm_up_makes_two_thousand_steps(machine, minutes, width):
    machine({64: 0.09, 128: 0.36})
    settings = photo_settings(minutes=minutes)
    found = with_affordable_width(IMAGES, settings)
    assert found.network.width == width
    assert found == settings.model_copy(update={"network": found.network})  # and nothing else has changed


def test_a_machine_that_is_far_too_slow_is_found_out_by_a_sixteenth_of_a_step(machine):
    timed = machine({64: 1000.0})
    with_affordable_width(IMAGES, photo_settings(minutes=10, sub_batch=32))
    assert timed == [(64, 2)]


def test_a_step_is_timed_in_growing_parts(machine):
    timed = machine({64: 0.0})
    settings = photo_settings(minutes=10, sub_batch=32)
    wide = settings.model_copy(update={"network": settings.network.model_copy(update={"width": 64})})
    assert takes_at_most(1.0, IMAGES, wide)
    assert timed == [(64, 2), (64, 8), (64, 32)]


@pytest.mark.parametrize(
    "choices",
    [
        {"augment": "glyph", "minutes": 600},
        {"augment": "none", "minutes": 600},
        {"epochs": 1000},
        {},
        {"recipe": "paper", "minutes": 600},
        {"preset": "cifar10", "minutes": 600},
    ],
    ids=str,
)
def test_only_fast_with_photos_minutes_and_no_preset_is_asked(machine, choices):
    timed = machine({64: 0.0, 128: 0.0})
    settings = photo_settings(**choices)
    assert with_affordable_width(IMAGES, settings) is settings
    assert not timed


def test_real_steps_are_made_and_forgotten():
    settings = photo_settings(minutes=600, sub_batch=16)
    before = torch.get_rng_state()
    pixels = IMAGES.pixels.copy()
    assert seconds_of_step(IMAGES, settings, 16) > 0
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(IMAGES.pixels, pixels)


@pytest.mark.parametrize(("minutes", "width"), [(1e-4, 32), (6000.0, 128)])
def test_a_fit_of_photos_is_prepared_for_its_minutes(minutes, width):
    _, settings = prepare(IMAGES.pixels, n_clusters=2, seed=0, augment="photo", minutes=minutes, sub_batch=16)
    assert settings.network.width == width


def test_within_a_memory_budget_the_backbone_stays_narrow(machine):
    timed = machine({64: 0.0, 128: 0.0})
    _, settings = prepare(IMAGES.pixels, n_clusters=2, seed=0, augment="photo", minutes=600, memory="8GB")
    assert settings.network.width == 32
    assert not timed
