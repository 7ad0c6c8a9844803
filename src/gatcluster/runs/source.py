"""The images of a run, found again where they came from. Nothing is decoded before it is asked for."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from gatcluster.config import ImageSettings
from gatcluster.data.decode import Form, decode, shaped
from gatcluster.data.encoded import EncodedImages
from gatcluster.data.images import ImageSet
from gatcluster.data.sources import find_images
from gatcluster.data.stored import StoredImages, images_from_stored
from gatcluster.errors import InputError
from gatcluster.runs.folder import RunFolder
from gatcluster.runs.layout import DEMO_IMAGES

_GONE = -1


@dataclass(frozen=True)
class RunImages:
    """The images of a run: files, encoded images inside other files, or plain pixels.

    All methods take positions in ``clusters.csv``.
    """

    found: EncodedImages | StoredImages
    positions: NDArray[np.int64]  # (N,): of each image of the run among those found, or -1
    form: ImageSettings

    @property
    def is_pixels(self) -> bool:
        """Whether the source holds plain pixels, and so nothing to copy."""
        return isinstance(self.found, StoredImages)

    def is_there(self, index: int) -> bool:
        """Whether the source still holds the image."""
        return bool(self.positions[index] != _GONE)

    def path(self, index: int) -> Path | None:
        """The file of an image; None if it has none of its own."""
        paths: Sequence[str | Path] | None = getattr(self.found, "paths", None)
        return None if paths is None else Path(paths[self.positions[index]]).absolute()

    def open(self, index: int) -> IO[bytes]:
        """The encoded bytes of an image of a source that does not hold plain pixels."""
        assert not isinstance(self.found, StoredImages)
        return self.found.open(int(self.positions[index]))

    def for_network(self, indices: Sequence[int]) -> ImageSet:
        """Some images in the form in which the network was trained on them."""
        names = [str(index) for index in indices]
        if isinstance(self.found, StoredImages):
            return ImageSet(self._network_pixels.pixels[self.positions[list(indices)]], names)
        pixels = [self._decoded(index) for index in indices]
        return ImageSet(np.stack(pixels), names)

    def picture(self, index: int, longest: int) -> Image.Image:
        """An image for a person: what the network saw of it, in the detail that the source has.

        Args:
            index: of the image.
            longest: height or width, whichever is more, is at most this; or that of the network's input.
        """
        if isinstance(self.found, StoredImages):
            return picture_of(self.pixels, int(self.positions[index]))
        height, width = self.form.size
        try:
            with self.open(index) as file, Image.open(file) as opened:
                detail = max(1.0, min(longest / max(height, width), min(opened.size) / min(height, width)))
                size = (round(height * detail), round(width * detail))
                return shaped(opened, Form(size, self.form.channels, self.form.resize)).convert("RGB")
        except Exception as error:  # on a damaged file Pillow's decoders may raise anything
            raise InputError(f"cannot read image {self.found.names[self.positions[index]]} again: {error}") from None

    @cached_property
    def pixels(self) -> ImageSet:
        """Plain pixels at their own size."""
        assert isinstance(self.found, StoredImages)
        return images_from_stored(self.found, None, self.form.value_range)

    @cached_property
    def _network_pixels(self) -> ImageSet:
        assert isinstance(self.found, StoredImages)
        return images_from_stored(self.found, self.form.size, self.form.value_range)

    def _decoded(self, index: int) -> NDArray[np.uint8]:
        try:
            with self.open(index) as file:
                return decode(file, self.form.size, self.form.channels, self.form.resize)
        except Exception as error:
            raise InputError(f"cannot read image {index} of the run again: {error}") from None


def picture_of(images: ImageSet, index: int) -> Image.Image:
    """One image of a set as RGB, at its own size."""
    pixels = images.batch(slice(index, index + 1))[0].clamp(0, 1).mul(255).round().byte().permute(1, 2, 0).numpy()
    return Image.fromarray(pixels[..., :3] if pixels.shape[2] >= 3 else pixels[..., 0]).convert("RGB")


def source_path(run: RunFolder, source: str) -> Path:
    """Where the source of a run is now: the demo's images move with its run."""
    path = Path(source)
    return run.path / DEMO_IMAGES if path.name == DEMO_IMAGES and not path.exists() else path


def run_images(run: RunFolder) -> RunImages:
    """Where the images of a run are. Some may be gone, but not all."""
    source = run.config()["source"]
    if source is None:
        raise InputError(
            f"{run.path} does not know where its images came from, because it was fitted on an array: "
            "only runs of `gatcluster fit` can show or export images"
        )
    path = source_path(run, source)
    found = find_images(path, run.source_format())
    names, _ = run.clusters()
    positions = positions_among(found.names, names)
    if (positions == _GONE).all():
        raise InputError(f"{path} changed since the run: none of its {len(names)} images is there, such as {names[0]}")
    return RunImages(found, positions, run.settings().images)


def positions_among(found: Sequence[str], names: Sequence[str]) -> NDArray[np.int64]:
    """Where each name comes among those found, -1 where it does not; a name that comes twice is two images."""
    places: dict[str, deque[int]] = defaultdict(deque)
    for place, name in enumerate(found):
        places[name].append(place)
    positions = np.full(len(names), _GONE, dtype=np.int64)
    for index, name in enumerate(names):
        if queue := places.get(name):
            positions[index] = queue.popleft() if len(queue) > 1 else queue[0]
    return positions
