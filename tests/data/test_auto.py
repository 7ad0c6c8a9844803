from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont
from sklearn.datasets import load_digits

from gatcluster.data.auto import (
    choose_augment,
    choose_geometry,
    colourfulness,
    count_groups,
    has_arbitrary_colours,
    mean_lightness,
    paper_share,
    unevenness,
)
from gatcluster.data.images import ImageSet

RANDOM = np.random.default_rng(0)


def image_set(pixels: np.ndarray) -> ImageSet:
    return ImageSet(pixels, [str(i) for i in range(len(pixels))])


def letters(ink: int, paper: int, mode: str = "L", side: int = 28) -> ImageSet:
    font = ImageFont.load_default(side * 0.8)
    drawn = []
    for letter in "ABCDEFGHKLMNPRSTUVXYZ0123456789":
        image = Image.new("L", (side, side), paper)
        ImageDraw.Draw(image).text((side / 2, side / 2), letter, ink, font, anchor="mm")
        drawn.append(np.asarray(image.convert(mode)))
    return image_set(np.stack(drawn).reshape(len(drawn), side, side, -1))


@pytest.mark.parametrize(("ink", "paper"), [(0, 255), (255, 0), (40, 220)])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_letters_are_glyphs_whatever_the_ink_and_the_paper(ink, paper, mode):
    assert choose_augment(letters(ink, paper, mode)) == "glyph"


def test_scanned_digits_are_glyphs():
    pixels = (load_digits().images / 16).astype(np.float32)[..., None]
    assert choose_augment(image_set(pixels)) == "glyph"


def test_one_blank_page_among_letters_changes_nothing():
    pixels = letters(0, 255).pixels.copy()
    pixels[0] = 255
    assert choose_augment(image_set(pixels)) == "glyph"


def test_coloured_noise_is_a_photo():
    assert choose_augment(image_set(RANDOM.integers(0, 256, (30, 16, 16, 3), dtype=np.uint8))) == "photo"


def test_grey_noise_is_a_photo():
    assert choose_augment(image_set(RANDOM.integers(0, 256, (30, 16, 16, 1), dtype=np.uint8))) == "photo"


@pytest.mark.parametrize("channels", [1, 3])
def test_smooth_gradients_are_photos(channels):
    y, x = np.mgrid[0:24, 0:24] / 23
    slopes = RANDOM.random((30, 2, channels))
    slopes /= slopes.sum(axis=1, keepdims=True)
    pixels = slopes[:, None, None, 0] * y[None, ..., None] + slopes[:, None, None, 1] * x[None, ..., None]
    assert choose_augment(image_set(pixels.astype(np.float32))) == "photo"


def test_coloured_symbols_on_white_are_photos_because_their_colour_may_matter():
    pixels = np.full((20, 16, 16, 3), 255, dtype=np.uint8)
    pixels[:10, 4:12, 4:12] = (255, 0, 0)
    pixels[10:, 4:12, 4:12] = (0, 0, 255)
    assert choose_augment(image_set(pixels)) == "photo"


@pytest.mark.parametrize("channels", [2, 5])
def test_images_of_unusual_channels_are_photos(channels):
    assert choose_augment(image_set(np.zeros((5, 16, 16, channels), dtype=np.uint8))) == "photo"


@pytest.mark.parametrize("shape", [(30, 1, 20, 1), (30, 20, 1, 1), (30, 1, 1, 3)])
def test_images_of_one_row_or_column_are_not_transformed(shape):
    assert choose_augment(image_set(RANDOM.random(shape, dtype=np.float32))) == "none"


def test_a_single_image_is_enough_to_decide():
    assert choose_augment(image_set(letters(0, 255).pixels[:1])) == "glyph"


def test_the_decision_rests_on_images_from_all_of_the_set():
    photos = RANDOM.integers(0, 256, (900, 8, 8, 1), dtype=np.uint8)
    glyphs = np.full((600, 8, 8, 1), 255, dtype=np.uint8)
    glyphs[:, 2:4, 2:6] = 0
    assert choose_augment(image_set(np.concatenate([glyphs, photos]))) == "photo"


def test_paper_share_counts_the_commoner_of_light_and_dark():
    image = torch.tensor([1.0, 1.0, 1.0, 0.95, 0.5, 0.0, 0.01, 0.2]).reshape(1, 1, 2, 4)
    assert paper_share(torch.cat([image, 1 - image])).tolist() == pytest.approx([4 / 8, 4 / 8])


def test_grey_images_have_no_colour():
    assert colourfulness(torch.rand(2, 1, 4, 4).expand(2, 3, 4, 4)) == pytest.approx(0, abs=1e-6)
    red = torch.zeros(1, 3, 2, 2)
    red[:, 0] = 1
    assert colourfulness(red) == pytest.approx((2 / 3 + 1 / 3 + 1 / 3) / 3)


def bars(degrees: np.ndarray) -> ImageSet:
    """White bars on black, of random width and length, each turned by an angle."""
    drawn = []
    for angle in degrees:
        width, length = RANDOM.uniform(3, 7), RANDOM.uniform(9, 12)
        image = Image.new("L", (28, 28), 0)
        ImageDraw.Draw(image).rectangle((14 - width, 14 - length, 14 + width, 14 + length), fill=255)
        drawn.append(np.asarray(image.rotate(angle, Image.Resampling.BILINEAR)))
    return image_set(np.stack(drawn)[..., None])


def test_glyphs_that_are_always_upright_are_moved_less_than_glyphs_that_lean():
    upright, leaning = bars(np.zeros(300)), bars(RANDOM.uniform(-25, 25, 300))
    assert choose_geometry(upright, "glyph") == 0.25
    assert choose_geometry(leaning, "glyph") == 1.0


def test_photos_are_moved_as_far_as_photos_may_be():
    assert choose_geometry(image_set(RANDOM.integers(0, 256, (30, 16, 16, 3), dtype=np.uint8)), "photo") == 1.0


def test_identical_and_single_images_leave_a_geometry_to_use():
    for count in (1, 20):
        assert 0.25 <= choose_geometry(image_set(np.zeros((count, 8, 8, 1), np.uint8)), "glyph") <= 1


def test_mean_lightness_is_over_all_pixels():
    assert mean_lightness(image_set(np.array([[[[0], [255]]], [[[255], [255]]]], np.uint8))) == pytest.approx(0.75)


def squares(papers: np.ndarray, pens: np.ndarray, noise: float = 0) -> ImageSet:
    """A square of each pen (n, C), somewhere on each paper (n, C), with noise of a standard deviation."""
    pixels = np.repeat(np.repeat(papers[:, None, None].astype(float), 20, axis=1), 20, axis=2)
    for image, pen in zip(pixels, pens, strict=True):
        top, left = RANDOM.integers(2, 10, 2)
        image[top : top + 8, left : left + 8] = pen
    return image_set((pixels + RANDOM.normal(0, noise, pixels.shape)).clip(0, 255).astype(np.uint8))


def any_colours(n: int = 200, channels: int = 3) -> np.ndarray:
    return RANDOM.integers(0, 256, (n, channels))


@pytest.mark.parametrize("noise", [0, 15])
@pytest.mark.parametrize("channels", [1, 3])
def test_any_colours_on_any_paper_are_arbitrary(noise, channels):
    assert has_arbitrary_colours(squares(any_colours(channels=channels), any_colours(channels=channels), noise))


def test_one_pen_on_any_paper_is_arbitrary_too():
    assert has_arbitrary_colours(squares(any_colours(), np.zeros((200, 3))))


def test_colours_that_form_groups_may_be_what_tells_kinds_apart():
    paints = np.array([[220, 40, 40], [40, 200, 60], [50, 70, 220], [230, 210, 50]])[RANDOM.integers(0, 4, 200)]
    assert not has_arbitrary_colours(squares(any_colours(), paints + RANDOM.integers(-15, 16, (200, 3))))


def hues(n: int) -> np.ndarray:
    """Saturated colours of any hue, (n, 3)."""
    turns = (RANDOM.random((n, 1)) + np.array([0, 1 / 3, 2 / 3])) % 1
    return (255 * (np.abs(turns * 6 - 3) - 1).clip(0, 1)).round()


def test_any_hue_on_any_paper_is_arbitrary_too():
    assert has_arbitrary_colours(squares(any_colours(), hues(200)))


def test_black_or_white_on_any_grey_is_arbitrary():
    greys = any_colours(channels=1)
    assert has_arbitrary_colours(squares(greys, np.where(greys > 127, 0, 255)))


def test_kinds_that_have_a_paper_of_their_own_are_told_apart_by_it():
    papers = np.array([[30], [220]])[RANDOM.integers(0, 2, 200)]
    assert not has_arbitrary_colours(squares(papers, np.full((200, 1), 128), noise=5))


@pytest.mark.parametrize("channels", [1, 3])
def test_paper_without_ink_is_no_drawing(channels):
    papers = any_colours(channels=channels)
    assert not has_arbitrary_colours(squares(papers, papers))
    assert not has_arbitrary_colours(squares(papers, papers, noise=20))


@pytest.mark.parametrize("paper", [0, 128, 255])
def test_on_one_paper_pens_of_all_colours_alike_or_of_all_hues_are_arbitrary(paper):
    papers = np.full((200, 3), paper)
    assert has_arbitrary_colours(squares(papers, any_colours()))
    assert has_arbitrary_colours(squares(papers, hues(200)))
    paints = np.array([[220, 40, 40], [40, 200, 60], [50, 70, 220]])[RANDOM.integers(0, 3, 200)]
    assert not has_arbitrary_colours(squares(papers, paints))
    mostly_brown = np.array([120, 80, 40]) + RANDOM.normal(0, 12, (200, 3)) * RANDOM.exponential(1, (200, 1))
    assert not has_arbitrary_colours(squares(papers, mostly_brown))


def test_grey_pens_on_one_paper_keep_their_lightness():
    assert not has_arbitrary_colours(squares(np.zeros((200, 1)), any_colours(channels=1)))


def test_images_without_a_flat_border_have_no_paper():
    assert not has_arbitrary_colours(image_set(RANDOM.integers(0, 256, (200, 16, 16, 3), dtype=np.uint8)))
    slopes = np.linspace(0, 1, 16)[None, :, None, None] * RANDOM.random((200, 1, 1, 3)) * np.ones((1, 1, 16, 1))
    assert not has_arbitrary_colours(image_set(slopes.astype(np.float32)))


def test_of_few_images_or_of_single_rows_nothing_is_said_about_colours():
    assert not has_arbitrary_colours(squares(any_colours(30), any_colours(30)))
    assert not has_arbitrary_colours(image_set(RANDOM.random((200, 1, 20, 1), dtype=np.float32)))


def test_points_in_tight_groups_are_told_from_points_spread_evenly():
    generator = torch.Generator().manual_seed(0)
    even = torch.rand(500, 3, generator=generator)
    corners = torch.randint(0, 2, (500, 3), generator=generator) + 0.02 * even
    assert unevenness(even) == pytest.approx(0.5, abs=0.05)
    assert unevenness(corners) > 0.9
    assert unevenness(torch.zeros(50, 3)) == 0.5
    assert (count_groups(even), count_groups(corners), count_groups(torch.zeros(50, 3))) == (1, 8, 1)


def test_unevenness_of_points_on_a_line_by_hand():
    # The nearest neighbours are 1 apart; a place drawn evenly from [0, 10] is on average 1/4 from the nearest of 11.
    assert unevenness(torch.arange(11.0)[:, None]) == pytest.approx(0.25 / 1.25, abs=0.02)


def test_a_few_points_far_from_all_others_are_no_group():
    points = torch.cat([torch.arange(100.0), torch.tensor([500.0, 501.0, 900.0])])[:, None]
    assert count_groups(points) == 1
    assert count_groups(torch.cat([points, points + 5000])) == 2


def test_geometry_and_mean_of_ink_do_not_depend_on_colours():
    upright, leaning = bars(np.zeros(300)), bars(RANDOM.uniform(-25, 25, 300))
    for shapes, expected in ((upright, 0.25), (leaning, 1.0)):
        shares = shapes.pixels / 255
        papers, pens = any_colours(300)[:, None, None], any_colours(300)[:, None, None]
        coloured = image_set((papers + (pens - papers) * shares).astype(np.uint8))
        assert choose_geometry(coloured, "glyph", as_ink=True) == expected
        assert mean_lightness(coloured, as_ink=True) == pytest.approx(float(shares.mean()), abs=0.03)
