from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gatcluster.choices import Augment
from gatcluster.config import ImageSettings
from gatcluster.data.augment import (
    STRENGTHS,
    ColourChange,
    Strength,
    apply_affine,
    apply_colour,
    apply_strokes,
    colour_matrix,
    cover,
    gentler,
    lightness,
    plain,
    random_affine,
    random_boxes,
    random_colour_change,
    random_strokes,
    transform,
)
from gatcluster.data.ink import backgrounds, ink

LUMA = (0.299, 0.587, 0.114)
KINDS = ("photo", "glyph", "none")
STRONG = Strength(
    flip=True, area=(0.5, 1.5), stretch=0.4, rotation=40, shear=0.3, shift=0.3,
    brightness=0.3, contrast=0.5, saturation=0.6, hue=1.0,
)  # fmt: skip


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_images(n: int = 4, channels: int = 3, height: int = 6, width: int = 7) -> torch.Tensor:
    return torch.rand(n, channels, height, width, generator=seeded(9))


def form_of(images: torch.Tensor, augment: Augment = "photo", grey: bool = False, **more: Any) -> ImageSettings:
    _, channels, height, width = images.shape
    return ImageSettings(size=(height, width), channels=channels, grey=grey, augment=augment, **more)


def transformed(
    images: torch.Tensor,
    kind: Augment,
    grey: bool,
    generator: torch.Generator,
    size: tuple[int, int] | None = None,
    **more: Any,
) -> torch.Tensor:
    return transform(images, form_of(images, kind, grey, **more), generator, size)


def identity(n: int) -> torch.Tensor:
    return torch.eye(2, 3).expand(n, 2, 3)


def no_change(n: int) -> ColourChange:
    return ColourChange(torch.eye(3).expand(n, 3, 3), torch.ones(n), torch.zeros(n))


# Plain references: one image, one channel, one pixel at a time.


def mirrored(position: float, length: int) -> float:
    """A coordinate brought inside by reflection at the outer edges of the first and the last pixel."""
    while not -0.5 <= position <= length - 0.5:
        position = -1 - position if position < -0.5 else 2 * length - 1 - position
    return min(max(position, 0.0), length - 1.0)


def affine_reference(image: np.ndarray, matrix: np.ndarray, background: np.ndarray | None) -> np.ndarray:
    """``image`` (C, H, W) seen through ``matrix`` (2, 3); outside is its reflection, or ``background`` (C,)."""
    channels, height, width = image.shape
    result = np.zeros_like(image)
    for c, row, column in np.ndindex(channels, height, width):
        u, v = (2 * column + 1) / width - 1, (2 * row + 1) / height - 1
        x = ((matrix[0] @ [u, v, 1] + 1) * width - 1) / 2
        y = ((matrix[1] @ [u, v, 1] + 1) * height - 1) / 2
        if background is None:
            x, y = mirrored(x, width), mirrored(y, height)
        left, top = math.floor(x), math.floor(y)
        for j, i in itertools.product((top, top + 1), (left, left + 1)):
            weight = (1 - abs(x - i)) * (1 - abs(y - j))
            inside = 0 <= i < width and 0 <= j < height
            outside_value = 0.0 if background is None else background[c]
            result[c, row, column] += weight * (image[c, j, i] if inside else outside_value)
    return result


def colour_reference(image: np.ndarray, matrix: np.ndarray, contrast: float, brightness: float, grey: bool):
    """``image`` (C, H, W): the matrix on every RGB pixel, then grey if asked, then contrast and brightness."""
    channels, height, width = image.shape
    pixels = {(row, column): image[:, row, column] for row, column in np.ndindex(height, width)}
    if channels == 3:
        pixels = {place: matrix @ pixel for place, pixel in pixels.items()}
        if grey:
            pixels = {place: np.array([np.dot(LUMA, pixel)]) for place, pixel in pixels.items()}
    mean = sum(pixel.sum() for pixel in pixels.values()) / sum(len(pixel) for pixel in pixels.values())
    result = np.zeros((len(pixels[0, 0]), height, width))
    for (row, column), pixel in pixels.items():
        for c, value in enumerate(pixel):
            result[c, row, column] = min(max((value - mean) * contrast + mean + brightness, 0), 1)
    return result


# Geometry.


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("background_fill", [False, True])
def test_every_image_is_resampled_through_its_own_matrix_as_a_pixel_loop_does(channels, background_fill):
    images = random_images(8, channels)
    matrices = random_affine(8, STRONG, seeded(1))
    background = backgrounds(images)[:, :, 0, 0].double().numpy()
    result = apply_affine(images, matrices, background_fill)
    for n in range(8):
        expected = affine_reference(
            images[n].double().numpy(), matrices[n].double().numpy(), background[n] if background_fill else None
        )
        assert np.allclose(result[n].numpy(), expected, atol=1e-4)


def test_far_outside_lies_the_background_or_the_mirror_image():
    image = torch.zeros(1, 1, 8, 8)
    image[..., 2:6, 2:6] = 1
    far_right = torch.tensor([[[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]]])  # one image further to the right
    assert apply_affine(image, far_right, background_fill=True).abs().max() == 0
    assert torch.allclose(apply_affine(image, far_right, background_fill=False), image.flip(3), atol=1e-5)


def test_ink_on_white_paper_stays_on_white_paper():
    image = torch.ones(1, 3, 8, 8)
    image[..., 3:5, 3:5] = 0
    away = torch.tensor([[[1.0, 0.0, 5.0], [0.0, 1.0, 5.0]]])
    assert torch.allclose(apply_affine(image, away, background_fill=True), torch.ones(1, 3, 8, 8))


@pytest.mark.parametrize("background_fill", [False, True])
def test_the_identity_gives_every_image_back(background_fill):
    images = random_images()
    assert torch.allclose(apply_affine(images, identity(4), background_fill), images, atol=1e-5)


def test_a_strength_of_nothing_draws_the_identity():
    still = Strength(flip=False, area=(1.0, 1.0))
    assert torch.allclose(random_affine(20, still, seeded()), identity(20), atol=1e-7)


def test_a_mirroring_matrix_mirrors_left_and_right_and_nothing_else():
    images = random_images()
    mirror = torch.diag(torch.tensor([-1.0, 1.0]))[None]
    matrices = torch.cat([mirror, torch.zeros(1, 2, 1)], dim=2).expand(4, 2, 3)
    assert torch.allclose(apply_affine(images, matrices, False), images.flip(3), atol=1e-5)


def mirrors(kind: str) -> torch.Tensor:
    return torch.linalg.det(random_affine(2000, STRENGTHS[kind], seeded())[:, :, :2]) < 0


def test_a_glyph_is_never_mirrored():
    assert not mirrors("glyph").any()


def test_a_photo_is_mirrored_half_of_the_time():
    assert 0.45 < mirrors("photo").float().mean() < 0.55


def test_no_image_is_turned_upside_down():
    for kind in KINDS:
        assert (random_affine(2000, STRENGTHS[kind], seeded())[:, 1, 1] > 0).all()


def test_a_crop_never_reaches_beyond_the_image():
    crop = Strength(flip=True, area=(0.3, 1.0), stretch=0.6)
    matrices = random_affine(2000, crop, seeded())
    corners = torch.tensor([[x, y, 1.0] for x in (-1, 1) for y in (-1, 1)])
    assert (matrices @ corners.T).abs().max() <= 1 + 1e-5


def test_a_crop_reaches_every_part_of_the_image():
    matrices = random_affine(2000, Strength(flip=False, area=(0.25, 0.25)), seeded())
    for axis in (0, 1):
        assert matrices[:, axis, 2].min() < -0.45
        assert matrices[:, axis, 2].max() > 0.45


def test_the_window_is_as_large_as_the_strength_says():
    linear = random_affine(2000, Strength(flip=True, area=(0.5, 0.8), rotation=30, shear=0.2), seeded())[:, :, :2]
    areas = torch.linalg.det(linear).abs()
    assert 0.5 - 1e-4 <= areas.min() < 0.52
    assert 0.78 < areas.max() <= 0.8 + 1e-4


def test_rotation_stays_within_its_degrees_either_way():
    linear = random_affine(2000, Strength(flip=False, area=(1.0, 1.0), rotation=20), seeded())[:, :, :2]
    degrees = torch.rad2deg(torch.atan2(linear[:, 1, 0], linear[:, 0, 0]))
    assert -20.01 <= degrees.min() < -18
    assert 18 < degrees.max() <= 20.01
    assert torch.allclose(torch.linalg.det(linear), torch.ones(2000), atol=1e-5)


@pytest.mark.parametrize("kind", ["photo", "glyph"])
def test_every_image_gets_its_own_geometry(kind):
    assert len(torch.unique(random_affine(50, STRENGTHS[kind], seeded()), dim=0)) == 50


@pytest.mark.parametrize("kind", ["photo", "glyph"])
def test_gentler_geometry_moves_images_less_and_none_of_it_leaves_them_where_they_are(kind):
    still = random_affine(50, replace(gentler(STRENGTHS[kind], 0.0), flip=False), seeded())
    assert torch.allclose(still, torch.eye(2, 3).expand(50, 2, 3), atol=1e-6)
    full, half = (random_affine(500, replace(gentler(STRENGTHS[kind], g), flip=False), seeded()) for g in (1.0, 0.5))
    identity = torch.eye(2, 3)
    assert (half - identity).abs().mean() < 0.7 * (full - identity).abs().mean()


# Covered boxes.


def test_a_box_is_covered_by_the_background_of_its_image_as_a_pixel_loop_does():
    images = random_images(5, 2)
    boxes = random_boxes(5, 0.4, seeded(3))
    result = cover(images, boxes)
    height, width = images.shape[2:]
    for n, (top, bottom, left, right) in enumerate(boxes.tolist()):
        for y in range(height):
            for x in range(width):
                inside = top <= (y + 0.5) / height < bottom and left <= (x + 0.5) / width < right
                expected = backgrounds(images)[n, :, 0, 0] if inside else images[n, :, y, x]
                assert torch.equal(result[n, :, y, x], expected)


@pytest.mark.parametrize("amount", [-1.0, -0.3, 0.0, 0.5, 1.0])
def test_strokes_go_towards_the_lightest_or_darkest_around_as_a_pixel_loop_does(amount):
    images = torch.rand(3, 2, 5, 6, generator=torch.Generator().manual_seed(0))
    amounts = torch.tensor([amount, 0.0, -amount])
    found = apply_strokes(images, amounts)
    for n, c, y, x in itertools.product(range(3), range(2), range(5), range(6)):
        around = images[n, c, max(0, y - 1) : y + 2, max(0, x - 1) : x + 2]
        goal = around.max() if amounts[n] > 0 else around.min()
        expected = images[n, c, y, x] + amounts[n].abs() * (goal - images[n, c, y, x])
        assert found[n, c, y, x] == pytest.approx(float(expected), abs=1e-6)


def test_a_white_stroke_of_one_pixel_becomes_three_wide_or_vanishes():
    image = torch.zeros(1, 1, 5, 5)
    image[..., 2] = 1
    assert apply_strokes(image, torch.tensor([1.0]))[0, 0, 0].tolist() == [0, 1, 1, 1, 0]
    assert apply_strokes(image, torch.tensor([-1.0])).sum() == 0


def test_strokes_change_either_way_and_less_in_small_images():
    large, small = (random_strokes(1000, 0.8, side, torch.Generator().manual_seed(0)) for side in (32, 7))
    assert large.min() < -0.7 < 0.7 < large.max()
    assert large.abs().max() <= 0.8
    torch.testing.assert_close(small, large / 4)


def test_without_strokes_nothing_more_is_drawn():
    images = torch.rand(4, 1, 9, 9, generator=torch.Generator().manual_seed(0))
    without, with_none, with_some = seeded(1), seeded(1), seeded(1)
    found = transformed(images, "glyph", True, without)
    assert torch.equal(transformed(images, "glyph", True, with_none, strokes=0.0), found)
    assert not torch.equal(transformed(images, "glyph", True, with_some, strokes=1.0), found)
    assert torch.equal(without.get_state(), with_none.get_state())
    assert not torch.equal(without.get_state(), with_some.get_state())


def test_boxes_are_no_larger_than_asked_and_differ_from_image_to_image():
    boxes = random_boxes(500, 0.15, seeded())
    sides = torch.stack([boxes[:, 1] - boxes[:, 0], boxes[:, 3] - boxes[:, 2]])
    assert sides.max() <= 0.3
    assert sides.max() > 0.28
    assert len(torch.unique(boxes, dim=0)) == 500


# Colour.


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
@pytest.mark.parametrize("grey", [False, True])
def test_every_image_is_recoloured_by_its_own_numbers_as_a_pixel_loop_does(channels, grey):
    images = random_images(6, channels)
    change = random_colour_change(6, STRONG, seeded(2))
    result = apply_colour(images, change, grey)
    for n in range(6):
        expected = colour_reference(
            images[n].double().numpy(),
            change.matrix[n].double().numpy(),
            float(change.contrast[n]),
            float(change.brightness[n]),
            grey,
        )
        assert np.allclose(result[n].numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3, 5])
def test_no_change_of_colour_gives_every_image_back(channels):
    images = random_images(4, channels)
    assert torch.allclose(apply_colour(images, no_change(4), grey=False), images, atol=1e-6)


def test_a_strength_of_nothing_draws_no_change_of_colour():
    change = random_colour_change(20, Strength(flip=False, area=(1.0, 1.0)), seeded())
    for drawn, expected in zip(change, no_change(20), strict=True):
        assert torch.allclose(drawn, expected, atol=1e-5)


def test_as_many_images_lose_their_colours_as_asked_for():
    change = random_colour_change(4000, Strength(flip=False, saturation=0.4, hue=0.3, fading=0.25), seeded())
    without = (torch.tensor([0.9, 0.5, 0.1]) @ change.matrix.mT).var(dim=1) < 1e-10
    assert float(without.float().mean()) == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize(("channels", "grey"), [(3, True), (1, False), (1, True)])
def test_fading_changes_nothing_for_images_without_colours(channels, grey, monkeypatch):
    images = random_images(8, channels)
    faded = transformed(images, "photo", grey, seeded(3))
    monkeypatch.setitem(STRENGTHS, "photo", replace(STRENGTHS["photo"], fading=0.0))
    assert torch.equal(faded, transformed(images, "photo", grey, seeded(3)))


@pytest.mark.parametrize("kind", ["photo", "glyph"])
def test_views_of_another_size_show_the_same(kind):
    images = torch.nn.functional.interpolate(random_images(6, 3), size=(48, 48), mode="bilinear")
    own = transformed(images, kind, False, seeded(5))
    smaller = transformed(images, kind, False, seeded(5), size=(24, 36))
    assert smaller.shape == (6, 3, 24, 36)
    expected = torch.nn.functional.interpolate(own, size=(24, 36), mode="area")
    assert float((smaller - expected).abs().mean()) < 0.03


def test_grey_comes_after_the_jitter():
    red = torch.zeros(1, 3, 4, 4)
    red[:, 0] = 1
    to_green = torch.tensor([[[0.0, 0, 0], [1, 0, 0], [0, 0, 0]]])
    change = ColourChange(to_green, torch.ones(1), torch.zeros(1))
    result = apply_colour(red, change, grey=True)
    assert result.shape == (1, 1, 4, 4)
    assert torch.allclose(result, torch.full((1, 1, 4, 4), LUMA[1]))


def rgb(*values: float) -> torch.Tensor:
    return torch.tensor(values)


@given(st.floats(0, 3), st.floats(-3.2, 3.2), st.tuples(*[st.floats(0, 1)] * 3))
@settings(max_examples=100, deadline=None)
def test_hue_and_saturation_leave_the_mean_of_the_channels_of_every_pixel(saturation, hue, pixel):
    changed = colour_matrix(torch.tensor([saturation]), torch.tensor([hue]))[0] @ rgb(*pixel)
    assert float(changed.mean()) == pytest.approx(float(rgb(*pixel).mean()), abs=1e-4)


def test_a_turn_of_the_hue_by_a_third_moves_each_channel_to_the_next():
    turned = colour_matrix(torch.ones(1), torch.tensor([2 * math.pi / 3]))[0] @ rgb(0.9, 0.5, 0.1)
    assert sorted(turned.tolist()) == pytest.approx([0.1, 0.5, 0.9], abs=1e-5)
    assert float(turned[0]) != pytest.approx(0.9, abs=0.1)


def test_the_jitter_of_colours_shows_in_a_grey_image():
    red = torch.zeros(1, 3, 4, 4)
    red[:, 0] = 1
    change = ColourChange(colour_matrix(torch.ones(1), torch.tensor([0.3])), torch.ones(1), torch.zeros(1))
    assert abs(float(apply_colour(red, change, grey=True).mean()) - LUMA[0]) > 0.02


def test_hue_and_saturation_leave_grey_pixels_grey():
    matrices = colour_matrix(torch.tensor([0.3, 1.7]), torch.tensor([1.0, -0.5]))
    grey = rgb(0.4, 0.4, 0.4)
    assert torch.allclose(matrices @ grey, grey.expand(2, 3), atol=1e-3)


def test_no_saturation_leaves_the_mean_of_the_channels_alone():
    changed = colour_matrix(torch.zeros(1), torch.zeros(1))[0] @ rgb(0.9, 0.2, 0.1)
    assert changed.tolist() == pytest.approx([0.4] * 3, abs=1e-3)


def test_a_turn_of_the_hue_and_back_gives_the_colours_back():
    there = colour_matrix(torch.ones(1), torch.tensor([0.7]))[0]
    back = colour_matrix(torch.ones(1), torch.tensor([-0.7]))[0]
    assert torch.allclose(back @ there, torch.eye(3), atol=1e-5)
    assert not torch.allclose(there, torch.eye(3), atol=0.1)


def test_contrast_keeps_the_mean_and_scales_the_distances_from_it():
    images = torch.tensor([0.4, 0.6]).reshape(1, 1, 1, 2)
    change = ColourChange(torch.eye(3)[None], torch.tensor([2.0]), torch.zeros(1))
    assert apply_colour(images, change, grey=False).ravel().tolist() == pytest.approx([0.3, 0.7])


def test_brightness_is_added_and_cut_at_white():
    images = torch.tensor([0.2, 0.9]).reshape(1, 1, 1, 2)
    change = ColourChange(torch.eye(3)[None], torch.ones(1), torch.tensor([0.2]))
    assert apply_colour(images, change, grey=False).ravel().tolist() == pytest.approx([0.4, 1.0])


def test_every_image_gets_its_own_colours():
    change = random_colour_change(50, STRONG, seeded())
    for drawn in change:
        assert len(torch.unique(drawn, dim=0)) == 50


# All together.


def test_plain_images_are_untouched_or_grey_by_lightness():
    images = random_images()
    assert plain(images, form_of(images, grey=False)) is images
    expected = sum(weight * images[:, c] for c, weight in enumerate(LUMA))
    assert torch.allclose(plain(images, form_of(images, grey=True)), expected[:, None], atol=1e-6)
    for channels in (1, 2, 5):
        others = random_images(channels=channels)
        assert plain(others, form_of(others, grey=True)) is others


def test_ink_is_seen_plain_and_transformed_in_place_of_colours():
    images = random_images()
    assert torch.equal(plain(images, form_of(images, ink=True)), ink(images))
    assert torch.equal(transformed(images, "none", False, seeded(), ink=True), ink(images))
    found = transformed(images, "glyph", False, seeded(), ink=True)
    assert torch.equal(found, transformed(ink(images), "glyph", False, seeded()))
    assert found.shape[1] == 1


@pytest.mark.parametrize("kind", ["photo", "glyph"])
def test_images_without_an_upright_are_turned_by_any_angle(kind):
    bar = torch.zeros(1, 1, 33, 33)
    bar[:, :, :10, 14:19] = 1  # at the top
    bars = bar.expand(200, -1, -1, -1)
    y, x = torch.meshgrid(torch.linspace(-1, 1, 33), torch.linspace(-1, 1, 33), indexing="ij")
    gentle = {"grey": False, "strokes": 0.0, "geometry": 0.0}
    for any_turn, lowest in ((False, -0.1), (True, -0.4)):
        found = transformed(bars, kind, generator=seeded(), any_turn=any_turn, **gentle)
        heights = -(found * y).sum(dim=(1, 2, 3)) / found.sum(dim=(1, 2, 3)).clamp_min(1)
        sides = (found * x).sum(dim=(1, 2, 3)) / found.sum(dim=(1, 2, 3)).clamp_min(1)
        assert (heights.min() < lowest) == any_turn
        assert (sides.abs().max() > 0.4) == any_turn


def test_plain_white_is_white():
    assert torch.allclose(lightness(torch.ones(1, 3, 2, 2)), torch.ones(1, 1, 2, 2))


@pytest.mark.parametrize("grey", [False, True])
def test_augment_none_changes_nothing_and_draws_nothing(grey):
    generator = seeded()
    before = generator.get_state()
    images = random_images()
    assert torch.equal(transformed(images, "none", grey, generator), plain(images, form_of(images, grey=grey)))
    assert torch.equal(generator.get_state(), before)


@pytest.mark.parametrize("kind", ["photo", "glyph"])
def test_the_same_seed_gives_the_same_images_and_another_seed_others(kind):
    images = random_images(16, 3, 12, 12)
    first = transformed(images, kind, True, seeded(1))
    assert torch.equal(first, transformed(images, kind, True, seeded(1)))
    assert not torch.allclose(first, transformed(images, kind, True, seeded(2)), atol=0.01)


@pytest.mark.parametrize("kind", ["photo", "glyph"])
def test_copies_of_one_image_come_out_different(kind):
    copies = random_images(1, 3, 12, 12).expand(10, 3, 12, 12)
    results = transformed(copies, kind, True, seeded()).flatten(1)
    assert torch.cdist(results, results)[~torch.eye(10, dtype=torch.bool)].min() > 0.01


@pytest.mark.parametrize("kind", ["photo", "glyph"])
def test_the_global_random_state_is_neither_used_nor_moved(kind):
    torch.manual_seed(5)
    first = transformed(random_images(), kind, True, seeded())
    torch.manual_seed(6)
    before = torch.get_rng_state()
    assert torch.equal(transformed(random_images(), kind, True, seeded()), first)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("kind", KINDS)
def test_the_images_given_are_not_changed_in_place(kind):
    images = random_images()
    before = images.clone()
    transformed(images, kind, True, seeded())
    assert torch.equal(images, before)


@given(
    kind=st.sampled_from(KINDS),
    grey=st.booleans(),
    channels=st.integers(1, 5),
    height=st.integers(1, 12),
    width=st.integers(1, 12),
    seed=st.integers(0, 2**31),
    extreme=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_values_stay_between_black_and_white_and_the_size_stays(kind, grey, channels, height, width, seed, extreme):
    images = torch.rand(3, channels, height, width, generator=seeded(seed))
    if extreme:
        images = images.round()
    result = transformed(images, kind, grey, seeded(seed))
    assert result.shape == (3, 1 if grey and channels == 3 else channels, height, width)
    assert bool(torch.isfinite(result).all())
    assert result.min() >= 0
    assert result.max() <= 1 + 1e-6


@pytest.mark.parametrize("kind", ["photo", "glyph"])
def test_a_flat_grey_image_keeps_its_flatness(kind):
    result = transformed(torch.full((8, 1, 9, 9), 0.5), kind, True, seeded())
    spread = result.amax(dim=(1, 2, 3)) - result.amin(dim=(1, 2, 3))
    assert spread.max() < 1e-5
