from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from gatcluster.data.images import ImageSet
from gatcluster.report.contact_sheet import contact_sheet

# The form that is promised: a margin for text, then twelve tiles with a gap after each.
TILE, GAP, MARGIN, COLUMNS = 56, 4, 96, 12
WHITE = (255, 255, 255)


def image_set(pixels: np.ndarray) -> ImageSet:
    return ImageSet(pixels, [str(i) for i in range(len(pixels))])


def flat_images(colours: list[tuple[int, ...]], side: int = 8) -> ImageSet:
    pixels = np.array(colours, dtype=np.uint8)[:, None, None, :]
    return image_set(np.broadcast_to(pixels, (len(colours), side, side, len(colours[0]))))


def features(clusters: list[int], confidence: list[float], k: int) -> np.ndarray:
    rows = np.empty((len(clusters), k), dtype=np.float32)
    for row, cluster, sure in zip(rows, clusters, confidence, strict=True):
        row[:] = (1 - sure) / (k - 1)
        row[cluster] = sure
    return rows


def opened(content: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(content))
    assert image.format == "PNG"
    image.load()
    return image


def tile(sheet: Image.Image, row: int, column: int) -> Image.Image:
    left, top = MARGIN + column * (TILE + GAP), GAP + row * (TILE + GAP)
    return sheet.crop((left, top, left + TILE, top + TILE))


def colours_of_row(sheet: Image.Image, row: int) -> list[tuple[int, ...]]:
    """The colours of a row's tiles, each flat."""
    found = []
    for column in range(COLUMNS):
        ((_, colour),) = tile(sheet, row, column).getcolors()
        found.append(colour)
    return found


@pytest.mark.parametrize("k", [2, 3, 10])
def test_the_sheet_is_a_png_with_a_row_for_each_cluster(k):
    sheet = opened(contact_sheet(flat_images([(9,)] * 5), features([0] * 5, [0.9] * 5, k)))
    assert sheet.size == (MARGIN + COLUMNS * (TILE + GAP) + GAP, k * (TILE + GAP) + GAP)


def test_the_surest_images_of_a_cluster_come_first():
    colours = [(250, 10, 10), (10, 250, 10), (10, 10, 250), (250, 250, 10), (10, 250, 250)]
    clusters, confidence = [1, 0, 1, 1, 0], [0.6, 0.7, 0.9, 0.8, 0.95]
    sheet = opened(contact_sheet(flat_images(colours), features(clusters, confidence, 2)))
    assert colours_of_row(sheet, 0) == [colours[4], colours[1]] + [WHITE] * 10
    assert colours_of_row(sheet, 1) == [colours[2], colours[3], colours[0]] + [WHITE] * 9


def test_images_of_equal_confidence_keep_their_order():
    colours = [(value, 0, 0) for value in range(10, 130, 10)]
    sheet = opened(contact_sheet(flat_images(colours), features([0] * 12, [0.8] * 12, 2)))
    assert colours_of_row(sheet, 0) == colours


def test_of_a_large_cluster_the_twelve_surest_are_shown():
    colours = [(value, 0, 0) for value in range(20, 220, 10)]
    confidence = [0.5 + value / 500 for (value, _, _) in colours]
    sheet = opened(contact_sheet(flat_images(colours), features([0] * 20, confidence, 2)))
    assert colours_of_row(sheet, 0) == colours[:-13:-1]


def test_an_empty_cluster_has_a_row_with_text_and_without_images():
    sheet = opened(contact_sheet(flat_images([(200, 0, 0)]), features([2], [0.9], 3)))
    for row in (0, 1):
        assert colours_of_row(sheet, row) == [WHITE] * COLUMNS
        text = np.asarray(sheet.crop((0, GAP + row * (TILE + GAP), MARGIN, (row + 1) * (TILE + GAP))))
        assert text.min() < 100


def test_the_rows_are_labelled_differently():
    sheet = opened(contact_sheet(flat_images([(200, 0, 0)]), features([1], [0.9], 2)))
    tops = [GAP + row * (TILE + GAP) for row in (0, 1)]
    first, second = (sheet.crop((0, top, MARGIN, top + TILE)) for top in tops)
    assert first.tobytes() != second.tobytes()


@pytest.mark.parametrize(
    ("colour", "shown"),
    [
        ((77,), (77, 77, 77)),
        ((77, 1), (77, 77, 77)),
        ((77, 1, 2), (77, 1, 2)),
        ((77, 1, 2, 9), (77, 1, 2)),
        ((77, 1, 2, 9, 9), (77, 1, 2)),
    ],
)
def test_images_of_any_number_of_channels_are_shown(colour, shown):
    sheet = opened(contact_sheet(flat_images([colour]), features([0], [0.9], 2)))
    assert colours_of_row(sheet, 0)[0] == shown


def test_every_shade_is_shown_exactly():
    shades = [(value,) for value in range(256)]
    clusters = [value // COLUMNS for value in range(256)]
    sheet = opened(contact_sheet(flat_images(shades), features(clusters, [0.9] * 256, 22)))
    shown = [colour for row in range(22) for colour in colours_of_row(sheet, row)][:256]
    assert shown == [(value, value, value) for value in range(256)]


def test_floats_are_shown_and_cut_at_black_and_white():
    pixels = np.array([0.0, 1.0, -3.0, 7.0], dtype=np.float32).reshape(4, 1, 1, 1).repeat(8, axis=1).repeat(8, axis=2)
    sheet = opened(contact_sheet(image_set(pixels), features([0] * 4, [0.9, 0.8, 0.7, 0.6], 2)))
    assert colours_of_row(sheet, 0)[:4] == [(0, 0, 0), WHITE, (0, 0, 0), WHITE]


def test_small_images_are_enlarged_to_the_whole_tile_each_pixel_in_its_place():
    board = np.indices((8, 8)).sum(axis=0) % 2 * 255
    sheet = opened(contact_sheet(image_set(board.astype(np.uint8)[None, ..., None]), features([0], [0.9], 2)))
    shown = np.asarray(tile(sheet, 0, 0))[..., 0]
    assert shown.shape == (56, 56)
    assert np.array_equal(shown[3::7, 3::7] > 127, board > 127)


def test_wide_images_keep_their_shape_in_the_middle_of_their_tile():
    pixels = np.zeros((1, 28, 112, 1), dtype=np.uint8)
    sheet = opened(contact_sheet(image_set(pixels), features([0], [0.9], 2)))
    shown = np.asarray(tile(sheet, 0, 0))[..., 0]
    assert (shown[21:35] == 0).all()
    assert (shown[:21] == 255).all()
    assert (shown[35:] == 255).all()


def test_one_row_images_are_shown():
    sheet = opened(contact_sheet(image_set(np.zeros((1, 1, 500, 1), dtype=np.float32)), features([0], [0.9], 2)))
    assert (np.asarray(tile(sheet, 0, 0)) == 0).any()


def test_thousands_of_clusters_do_not_make_an_endless_picture():
    sheet = opened(contact_sheet(flat_images([(9,)] * 3), features([0, 1, 1999], [0.9] * 3, 2000)))
    assert sheet.height < 102 * (TILE + GAP)


def test_of_more_than_a_hundred_clusters_the_sheet_says_how_many_have_no_row():
    images = flat_images([(9,)] * 5)
    full, cut = (opened(contact_sheet(images, features([0] * 5, [0.9] * 5, k))) for k in (100, 103))
    assert cut.height > full.height == 100 * (TILE + GAP) + GAP
    last_line = cut.crop((0, full.height, cut.width, cut.height)).convert("L")
    assert last_line.getextrema()[0] < 128  # there is writing
