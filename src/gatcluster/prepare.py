"""From what a user gives, to images and complete settings. The estimator and the command line both start here."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from numbers import Integral
from typing import Any, get_args

from gatcluster.choices import Augment, AugmentOrAuto, Colour, Format, Recipe, Resize
from gatcluster.config import ImageSettings, LossWeights, Preset, Settings, check_choices, find_preset, make_settings
from gatcluster.data.auto import (
    choose_augment,
    choose_geometry,
    has_arbitrary_colours,
    is_colourless,
    may_be_turned,
    mean_lightness,
)
from gatcluster.data.cache import OnProgress
from gatcluster.data.detect import check_format
from gatcluster.data.formats.torch_dataset import is_dataset
from gatcluster.data.images import ImageSet
from gatcluster.data.sources import names_files, read_images
from gatcluster.data.store import remembered
from gatcluster.data.workers import workers_within
from gatcluster.devices import check_device, chosen_precision
from gatcluster.errors import InputError
from gatcluster.learning.memory import parsed_memory, within_memory
from gatcluster.learning.pace import with_affordable_width
from gatcluster.model.backbones import check_size

ImageSize = int | tuple[int, int] | None


def prepare(
    source: Any,
    *,
    n_clusters: int,
    seed: int,
    format: Format | None = None,
    recipe: Recipe = "fast",
    preset: str | None = None,
    image_size: ImageSize = None,
    resize: Resize = "crop",
    augment: AugmentOrAuto = "auto",
    colour: Colour = "auto",
    epochs: int | None = None,
    minutes: float | None = None,
    device: str = "auto",
    precision: str = "auto",
    batch_size: int | None = None,
    sub_batch: int | None = None,
    learning_rate: float | None = None,
    loss_weights: LossWeights | None = None,
    patience: int | None = None,
    passes: int | None = None,
    watch: bool = True,
    memory: str | int | None = None,
    on_progress: OnProgress | None = None,
    tell: Callable[[str], None] = lambda message: warnings.warn(message, stacklevel=3),
) -> tuple[ImageSet, Settings]:
    """Read the images of ``source`` and complete the settings for them; ``tell`` is called with what to know of them.

    Raises:
        InputError: what cannot be used, named, before any training begins.
    """
    check_choices(n_clusters, recipe, preset, epochs, minutes, seed, batch_size, sub_batch, patience, passes)
    check_device(device, precision)
    _check_choice("augment", augment, get_args(AugmentOrAuto))
    _check_choice("colour", colour, get_args(Colour))
    _check_choice("resize", resize, get_args(Resize))
    if format is not None:
        check_format(format)
    size = _height_and_width(image_size)
    known_preset = find_preset(preset)
    if size is None and known_preset is not None and (names_files(source) or is_dataset(source)):
        size = (known_preset.size, known_preset.size)
    if size is not None and preset is not None:
        check_size(preset, size)
    n_bytes = None if memory is None else parsed_memory(memory)
    with nullcontext() if n_bytes is None else workers_within(n_bytes):
        images = read_images(source, size, resize=resize, on_progress=on_progress, format=format)
    as_ink = _is_ink(colour, recipe, known_preset, images)
    kind = _kind(augment, as_ink, images)
    form = ImageSettings(
        size=images.size,
        channels=images.channels,
        grey=_is_grey(colour, recipe, known_preset, images),
        ink=as_ink,
        augment=kind,
        geometry=choose_geometry(images, kind, as_ink) if augment == "auto" else 1.0,
        any_turn=augment == "auto" and recipe == "fast" and kind == "glyph" and _may_be_turned(images, as_ink),
        strokes=1.0 if kind == "glyph" and recipe == "fast" else 0.0,
        mean=remembered(images.pixels, partial(mean_lightness, images, as_ink=as_ink), float),
        resize=resize,
        value_range=images.value_range,
    )
    settings = make_settings(
        n_clusters=n_clusters,
        n_images=len(images),
        images=form,
        seed=seed,
        recipe=recipe,
        preset=preset,
        epochs=epochs,
        minutes=minutes,
        device=device,
        precision=chosen_precision(precision, recipe, device),
        batch_size=batch_size,
        sub_batch=sub_batch,
        learning_rate=learning_rate,
        loss_weights=loss_weights,
        patience=patience,
        passes=passes,
        watch=watch,
    )
    if n_bytes is None:
        settings = with_affordable_width(images, settings)
    else:  # a wider backbone takes more of it, and already when it is tried
        settings = within_memory(images, settings, n_bytes, sub_batch is not None, tell)
    return images, settings


def read_like(
    source: Any, form: ImageSettings, on_progress: OnProgress | None = None, format: Format | None = None
) -> ImageSet:
    """Images of ``source`` in the form a model was trained on."""
    images = read_images(source, form.size, form.channels, form.resize, form.value_range, on_progress, format)
    if images.channels != form.channels:
        raise InputError(f"the images have {images.channels} channels, but the model was trained on {form.channels}")
    return images


def _height_and_width(size: ImageSize) -> tuple[int, int] | None:
    if size is None:
        return None
    sides = (size, size) if isinstance(size, Integral) else size
    if not (isinstance(sides, Sequence) and len(sides) == 2 and all(isinstance(side, Integral) for side in sides)):
        raise InputError(f"cannot use image size {size!r}: give a whole number, or height and width")
    height, width = (int(side) for side in sides)
    if min(height, width) < 8:
        raise InputError(f"image size {height}x{width} is too small: each side must be at least 8")
    if max(height, width) > 4096:
        raise InputError(f"image size {height}x{width} is too large: each side may be at most 4096")
    return height, width


def _check_choice(name: str, choice: Any, choices: tuple[str, ...]) -> None:
    if choice not in choices:
        raise InputError(f"unknown {name} '{choice}'; give one of: {', '.join(choices)}")


def _is_ink(colour: Colour, recipe: Recipe, preset: Preset | None, images: ImageSet) -> bool:
    """Whether the network sees ink: as asked for, and in `fast` where colours are arbitrary."""
    if colour != "auto" or preset is not None or recipe == "paper":
        return colour == "ink"
    arbitrary: bool = remembered(images.pixels, partial(has_arbitrary_colours, images), bool)
    return arbitrary


def _kind(augment: AugmentOrAuto, as_ink: bool, images: ImageSet) -> Augment:
    """The transformations: as asked for, those of glyphs where ink is seen, or what suits the pixels."""
    if augment != "auto":
        return augment
    kind: Augment = "glyph" if as_ink else remembered(images.pixels, partial(choose_augment, images), str)
    return kind


def _may_be_turned(images: ImageSet, as_ink: bool) -> bool:
    may: bool = remembered(images.pixels, partial(may_be_turned, images, as_ink=as_ink), bool)
    return may


def _is_grey(colour: Colour, recipe: Recipe, preset: Preset | None, images: ImageSet) -> bool:
    """Whether colours are taken away: as asked for, as in the paper, and in `fast` where there are hardly any."""
    if colour != "auto":
        return colour == "grey"
    if preset is not None:
        return preset.grey
    if recipe == "paper":
        return True
    colourless: bool = remembered(images.pixels, partial(is_colourless, images), bool)
    return colourless
