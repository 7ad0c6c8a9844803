"""Thumbnails on sheets: each in its place, none too large, whatever the images are."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from gatcluster.data.images import ImageSet
from gatcluster.report.sprites import sheets_for, write_sheets


def image_set(pixels: np.ndarray) -> ImageSet:
    return ImageSet(pixels, [str(number) for number in range(len(pixels))])


def tile(folder, layout, place: int) -> np.ndarray:
    number, within = divmod(place, layout.columns * layout.rows)
    row, column = divmod(within, layout.columns)
    left, top = column * layout.tile_width, row * layout.tile_height
    with Image.open(folder / f"{number}.{layout.suffix}") as sheet:
        return np.asarray(sheet.crop((left, top, left + layout.tile_width, top + layout.tile_height)).convert("RGB"))


def test_small_images_are_kept_exactly_in_the_order_asked_for(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (300, 8, 8, 1)).astype(np.uint8)
    order = np.random.default_rng(1).permutation(300)
    done = []
    layout = write_sheets(tmp_path, image_set(pixels), order, lambda *counts: done.append(counts))
    assert layout.count == len(list(tmp_path.iterdir())) == 2  # of 256
    assert done == [(256, 300), (300, 300)]
    for place in (0, 17, 255, 256, 299):
        assert (tile(tmp_path, layout, place)[..., 0] == pixels[order[place], ..., 0]).all()


def test_colour_images_stay_close_to_themselves(tmp_path):
    smooth = np.linspace(0, 255, 32)[None, :, None, None] * np.ones((20, 1, 32, 3))
    layout = write_sheets(tmp_path, image_set(smooth.astype(np.uint8)), np.arange(20))
    assert np.abs(tile(tmp_path, layout, 19).astype(int) - smooth[19].astype(np.uint8)).mean() < 6


@pytest.mark.parametrize(("height", "width"), [(8, 8), (32, 32), (100, 400), (1, 64), (3000, 20)])
def test_tiles_keep_the_shape_and_sheets_stay_small(height, width):
    layout = sheets_for(image_set(np.zeros((1, height, width, 3), np.uint8)))
    assert max(layout.tile_width, layout.tile_height) == min(96, max(height, width))
    assert layout.tile_width * layout.columns <= 1024
    assert layout.tile_height * layout.rows <= 1024
    if min(height, width) * 96 / max(height, width) >= 2:
        assert layout.tile_width / layout.tile_height == pytest.approx(width / height, rel=0.1)


def test_an_image_that_is_gone_leaves_a_blank_and_the_others_their_places(tmp_path):
    pixels = np.stack([np.full((8, 8, 1), value, np.uint8) for value in (10, 250)])
    layout = write_sheets(tmp_path, image_set(pixels), np.array([1, -1, 0]))
    assert [int(tile(tmp_path, layout, place).mean()) for place in range(3)] == [250, 128, 10]


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_floats_and_any_number_of_channels_can_be_shown(tmp_path, channels):
    pixels = np.full((2, 8, 8, channels), 0.5, dtype=np.float32)
    layout = write_sheets(tmp_path, image_set(pixels), np.arange(2))
    assert tile(tmp_path, layout, 1)[0, 0].tolist() == [128, 128, 128]
