from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from gatcluster.config import PRESETS, ImageSettings, LossWeights, Settings
from gatcluster.data.decode import DEFAULT_SIDE
from gatcluster.data.images import ImageSet
from gatcluster.errors import InputError
from gatcluster.prepare import prepare, read_like

RANDOM = np.random.default_rng(0)


BAR = Image.new("L", (32, 32))
BAR.paste(255, (13, 4, 19, 18))


def noise(*shape: int) -> np.ndarray:
    return RANDOM.integers(0, 256, shape, dtype=np.uint8)


def prepared(source: Any, n_clusters: int = 2, seed: int = 0, **choices: Any) -> tuple[ImageSet, Settings]:
    return prepare(source, n_clusters=n_clusters, seed=seed, **choices)


@pytest.fixture
def photos(tmp_path) -> Path:
    """Four colour photos, 120x100."""
    for i in range(4):
        Image.fromarray(noise(100, 120, 3)).save(tmp_path / f"{i}.png")
    return tmp_path


class Unreadable:
    """An array that must not be touched."""

    ndim = 3

    def __array__(self, *args, **kwargs):
        pytest.fail("the images were read")


# Defaults.


def test_an_array_needs_nothing_but_k():
    images, settings = prepared(noise(20, 12, 10, 3), n_clusters=4, seed=7)
    assert len(images) == 20
    assert (settings.n_clusters, settings.seed, settings.recipe) == (4, 7, "fast")
    form = ImageSettings(size=(12, 10), channels=3, grey=False, augment="photo", mean=settings.images.mean)
    assert settings.images == form
    assert settings.images.mean == pytest.approx(images.batch(slice(None)).mean().item(), abs=1e-5)
    assert settings.network.preset is None
    assert settings.training.epochs is not None
    assert settings.training.minutes is None


def test_all_choices_arrive_in_the_settings():
    _, settings = prepared(
        noise(20, 12, 10, 3),
        recipe="paper",
        resize="squash",
        augment="glyph",
        colour="colour",
        minutes=1.5,
        device="cpu",
        precision="bf16-mixed",
        batch_size=10,
        sub_batch=5,
        learning_rate=0.01,
        loss_weights=LossWeights(entropy=0.5),
        patience=3,
    )
    assert settings.recipe == "paper"
    assert (settings.device, settings.precision) == ("cpu", "bf16-mixed")
    assert (settings.images.resize, settings.images.augment, settings.images.grey) == ("squash", "glyph", False)
    training = settings.training
    assert (training.minutes, training.epochs, training.patience) == (1.5, None, 3)
    assert (training.batch_size, training.sub_batch, training.learning_rate) == (10, 5, 0.01)
    assert settings.loss_weights.entropy == 0.5


def test_settings_are_complete_and_survive_json():
    _, settings = prepared(noise(20, 12, 10))
    assert Settings.model_validate_json(settings.model_dump_json()) == settings


# Size.


def test_arrays_keep_their_size_even_with_a_preset():
    _, settings = prepared(noise(20, 40, 44, 3), preset="cifar10")
    assert settings.images.size == (40, 44)


def test_files_are_brought_to_the_size_of_the_preset(photos):
    images, settings = prepared(photos, preset="cifar10")
    assert images.size == settings.images.size == (32, 32)


def test_a_list_of_files_is_brought_to_the_size_of_the_preset(photos):
    assert prepared(sorted(photos.iterdir()), preset="stl10")[0].size == (96, 96)


def test_large_files_without_a_preset_are_brought_to_the_default_size(photos):
    assert prepared(photos)[1].images.size == (DEFAULT_SIDE, DEFAULT_SIDE)


def test_the_size_asked_for_beats_that_of_the_preset(photos):
    assert prepared(photos, preset="cifar10", image_size=40)[0].size == (40, 40)


@pytest.mark.parametrize(("size", "expected"), [(16, (16, 16)), ((16, 20), (16, 20)), ([20, 16], (20, 16))])
def test_a_size_is_one_number_or_height_and_width(photos, size, expected):
    for source in (photos, noise(5, 12, 10)):
        images, settings = prepared(source, image_size=size)
        assert images.size == settings.images.size == expected


@pytest.mark.parametrize("size", [7, 0, -1, (32, 7), (7, 32)])
def test_a_size_below_8_is_refused_before_any_image_is_read(size):
    with pytest.raises(InputError, match="too small: each side must be at least 8"):
        prepared(Unreadable(), image_size=size)


@pytest.mark.parametrize("size", [4097, (32, 5000)])
def test_an_absurd_size_is_refused_before_any_image_is_read(size):
    with pytest.raises(InputError, match="too large: each side may be at most 4096"):
        prepared(Unreadable(), image_size=size)


@pytest.mark.parametrize("size", ["32", 32.5, (32,), (32, 32, 3), (32.0, 32), (32, None)])
def test_a_size_that_is_no_size_is_refused_before_any_image_is_read(size):
    with pytest.raises(InputError, match="give a whole number, or height and width"):
        prepared(Unreadable(), image_size=size)


def test_a_whole_number_of_numpy_is_a_size():
    assert prepared(noise(5, 12, 10), image_size=np.int64(16))[0].size == (16, 16)


# Colour and transformations.


@pytest.mark.parametrize("preset", [None, *PRESETS])
def test_images_become_grey_in_the_paper_except_for_the_dogs(preset):
    side = PRESETS[preset].size if preset else 16
    _, settings = prepared(noise(20, side, side, 3), preset=preset, recipe="paper")
    assert settings.images.grey == (preset not in ("imagenet-dog", "imagenet-dog-128"))
    assert settings.images.channels == 3
    assert settings.images.network_channels == (1 if settings.images.grey else 3)


def test_fast_keeps_colours_where_there_are_any():
    without = np.repeat(noise(20, 16, 16, 1), 3, axis=3)
    assert not prepared(noise(20, 16, 16, 3))[1].images.grey
    assert prepared(without)[1].images.grey
    assert prepared(noise(20, 16, 16, 3), preset="cifar10", image_size=32)[1].images.grey


def test_precision_is_chosen_for_the_machine_and_the_recipe(monkeypatch):
    for native, expected in ((True, "bf16-mixed"), (False, "32-true")):
        monkeypatch.setattr("gatcluster.devices.computes_in_bf16", lambda native=native: native)
        assert prepared(noise(20, 12, 10), device="cpu")[1].precision == expected
        assert prepared(noise(20, 12, 10), device="cpu", recipe="paper")[1].precision == "32-true"
        assert prepared(noise(20, 12, 10), device="cpu", precision="32-true")[1].precision == "32-true"


@pytest.mark.parametrize(("colour", "grey"), [("grey", True), ("colour", False)])
@pytest.mark.parametrize("preset", ["cifar10", "imagenet-dog"])
def test_the_colour_asked_for_beats_that_of_the_preset(colour, grey, preset):
    _, settings = prepared(noise(20, 96, 96, 3), preset=preset, colour=colour)
    assert settings.images.grey == grey


def test_the_transformations_suit_the_images_unless_chosen():
    glyphs = np.full((20, 12, 12), 255, dtype=np.uint8)
    glyphs[:, 3:9, 5:7] = 0
    assert prepared(glyphs)[1].images.augment == "glyph"
    assert prepared(noise(20, 12, 12))[1].images.augment == "photo"
    assert prepared(glyphs, augment="photo")[1].images.augment == "photo"
    assert prepared(glyphs, augment="none")[1].images.augment == "none"


def test_fast_sees_ink_where_colours_are_arbitrary_unless_told_otherwise():
    drawings = np.broadcast_to(noise(100, 1, 1, 3), (100, 16, 16, 3)).copy()
    drawings[:, 5:11, 7:9] = noise(100, 1, 1, 3)
    form = prepared(drawings)[1].images
    assert (form.ink, form.augment, form.channels, form.network_channels) == (True, "glyph", 3, 1)
    assert form.mean == pytest.approx(12 / 256, abs=0.01)  # of the ink, not of the colours
    assert prepared(drawings, augment="photo")[1].images.augment == "photo"
    for choices in ({"colour": "colour"}, {"colour": "grey"}, {"recipe": "paper"}, {"preset": "cifar10"}):
        assert not prepared(np.repeat(np.repeat(drawings, 2, 1), 2, 2), **choices)[1].images.ink
    assert prepared(noise(20, 16, 16, 3), colour="ink", recipe="paper")[1].images.network_channels == 1


def test_glyphs_without_an_upright_are_turned_by_any_angle_in_fast_unless_transformations_are_chosen():
    turned = np.stack(
        [np.asarray(BAR.rotate(angle, Image.Resampling.BILINEAR)) for angle in RANDOM.uniform(0, 360, 300)]
    )
    upright = np.stack([np.asarray(BAR.rotate(angle, Image.Resampling.BILINEAR)) for angle in RANDOM.normal(0, 5, 300)])
    assert prepared(turned)[1].images.any_turn
    assert not prepared(upright)[1].images.any_turn
    assert not prepared(turned, recipe="paper")[1].images.any_turn
    assert not prepared(turned, augment="glyph")[1].images.any_turn
    papers, pens = noise(300, 1, 1, 3).astype(int), noise(300, 1, 1, 3).astype(int)
    coloured = (papers + (pens - papers) * (turned / 255)[..., None]).astype(np.uint8)
    form = prepared(coloured)[1].images
    assert (form.ink, form.any_turn) == (True, True)


# One-row images.


def test_one_row_images_are_scaled_by_their_own_range_and_not_transformed():
    array = RANDOM.normal(size=(30, 6)) * 50
    images, settings = prepared(array)
    assert settings.images.size == (1, 6)
    assert settings.images.augment == "none"
    assert settings.images.value_range == (array.min(), array.max())
    assert (images.pixels.min(), images.pixels.max()) == (0, 1)


def test_a_tensor_of_one_row_images_is_scaled_too():
    tensor = torch.arange(40.0).reshape(10, 4)
    images, settings = prepared(tensor)
    assert settings.images.value_range == (0, 39)
    assert (images.pixels.min(), images.pixels.max()) == (0, 1)


def test_rows_are_not_taken_for_pictures_of_the_size_asked_for():
    with pytest.raises(InputError, match=r"rows of 64 values are no images of 8x8 pixels: reshape"):
        prepared(RANDOM.random((10, 64)), image_size=8)


def test_other_images_have_the_plain_range():
    assert prepared(noise(20, 12, 10))[1].images.value_range == (0, 1)


# What is refused, and when.


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"n_clusters": 1}, "k is 1: at least 2"),
        ({"n_clusters": 0}, "k is 0: at least 2"),
        ({"n_clusters": -3}, "k is -3: at least 2"),
        ({"recipe": "slow"}, "unknown recipe 'slow'; the recipes are: fast, paper"),
        ({"preset": "vgg"}, "unknown preset 'vgg'.*stl10.*imagenet10-128-att2.*cifar100-20"),
        ({"augment": "wild"}, "unknown augment 'wild'.*auto, photo, glyph, none"),
        ({"colour": "sepia"}, "unknown colour 'sepia'.*auto, grey, colour"),
        ({"resize": "stretch"}, "unknown resize 'stretch'.*crop, squash"),
        ({"n_clusters": "ten"}, "n_clusters must be a number, not 'ten'"),
        ({"epochs": 3, "minutes": 1}, "exclude each other"),
        ({"epochs": 0}, "epochs is 0"),
        ({"minutes": 0}, "minutes is 0"),
        ({"minutes": -1}, "minutes is -1"),
        ({"minutes": float("nan")}, "minutes is nan"),
        ({"minutes": float("inf")}, "minutes is inf"),
    ],
)
def test_wrong_choices_are_refused_before_any_image_is_read(choices, message):
    with pytest.raises(InputError, match=message) as caught:
        prepared(Unreadable(), **choices)
    assert "\n" not in str(caught.value)


def test_more_clusters_than_images_are_refused_with_both_numbers():
    with pytest.raises(InputError, match="k is 6, but there are only 5 images"):
        prepared(noise(5, 12, 10), n_clusters=6)
    assert prepared(noise(5, 12, 10), n_clusters=5)[1].n_clusters == 5


def test_more_clusters_than_readable_images_are_refused(photos):
    for i in range(3):
        (photos / f"broken{i}.png").write_text("no image")
    with pytest.raises(InputError, match="k is 5, but there are only 4 images"):
        prepared(photos, n_clusters=5)


@pytest.mark.parametrize(
    ("choices", "field"),
    [
        ({"device": "abacus"}, "device"),
        ({"precision": "8-bit"}, "precision"),
        ({"seed": -1}, "seed"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"patience": 0}, "patience"),
        ({"sub_batch": 1}, "sub_batch"),
    ],
)
def test_any_other_wrong_choice_is_named(choices, field):
    with pytest.raises(InputError, match=field):
        prepared(noise(20, 12, 10), **choices)


def test_batches_are_never_larger_than_the_set():
    training = prepared(noise(20, 12, 10))[1].training
    assert training.batch_size == 20
    assert training.sub_batch <= 20


def test_reading_is_reported(photos):
    seen: list[tuple[int, int]] = []
    prepared(photos, on_progress=lambda *counts: seen.append(counts))
    assert seen[-1] == (4, 4)


# New images, in the form a model was trained on.


def test_new_files_are_brought_to_the_form_of_the_model(photos):
    form = ImageSettings(size=(16, 20), channels=1, grey=True, augment="photo", resize="squash")
    images = read_like(photos, form)
    assert images.pixels.shape == (4, 16, 20, 1)
    expected = Image.open(photos / "0.png").convert("L").resize((20, 16), Image.Resampling.HAMMING)
    assert np.array_equal(images.pixels[0, :, :, 0], np.asarray(expected))


def test_new_arrays_are_resized_to_the_form_of_the_model():
    form = ImageSettings(size=(16, 20), channels=3, grey=True, augment="photo")
    assert read_like(noise(4, 12, 12, 3), form).size == (16, 20)


def test_new_one_row_images_are_scaled_by_the_range_of_the_learned_ones():
    form = ImageSettings(size=(1, 2), channels=1, grey=True, augment="none", value_range=(10, 30))
    assert read_like(np.array([[10.0, 20.0]]), form).pixels.ravel().tolist() == [0, 0.5]


def test_reading_the_same_images_again_gives_the_same_pixels(photos):
    for source in (photos, noise(4, 12, 12, 3), RANDOM.normal(size=(9, 5))):
        images, settings = prepared(source)
        assert np.array_equal(read_like(source, settings.images).pixels, images.pixels)


def test_new_images_of_other_channels_are_refused_with_both_numbers():
    form = ImageSettings(size=(12, 12), channels=3, grey=True, augment="photo")
    with pytest.raises(InputError, match="have 1 channels, but the model was trained on 3"):
        read_like(noise(4, 12, 12), form)


def test_one_row_images_of_an_array_file_are_scaled_too(tmp_path):
    array = np.random.default_rng(0).normal(0, 50, (20, 6))
    np.save(tmp_path / "rows.npy", array)
    images, settings = prepared(tmp_path / "rows.npy")
    assert settings.images.value_range == (array.min(), array.max())
    assert float(images.pixels.min()) == 0
    assert float(images.pixels.max()) == 1


def test_what_can_be_refused_before_an_image_is_read_is(tmp_path, monkeypatch):
    Image.new("L", (40, 40)).save(tmp_path / "a.png")

    def read_nothing(*arguments, **options):
        raise AssertionError("an image was read")

    monkeypatch.setattr("gatcluster.prepare.read_images", read_nothing)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for choices, message in (
        ({"device": "cuda"}, "no CUDA device"),
        ({"precision": "16-mixed"}, "needs a CUDA device"),
        ({"preset": "cifar10", "image_size": 12}, "too small for preset 'cifar10'"),
        ({"passes": 0}, "passes is 0"),
    ):
        with pytest.raises(InputError, match=message):
            prepare(tmp_path, n_clusters=2, seed=0, **choices)


def test_passes_reach_the_settings():
    pixels = np.zeros((20, 8, 8), np.uint8)
    for given, expected in ((None, 1), (8, 8)):
        _, settings = prepare(pixels, n_clusters=2, seed=0, recipe="paper", passes=given)
        assert settings.training.passes == expected
