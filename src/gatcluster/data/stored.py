"""Images that a file holds as plain pixels, and that are used as they lie there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from gatcluster.data.arrays import images_from_array
from gatcluster.data.images import ImageSet
from gatcluster.data.joined import JoinedPixels
from gatcluster.errors import InputError


@dataclass(frozen=True)
class StoredImages:
    """Arrays of images, memory-mapped where the file allows it, with a name for each image."""

    parts: Sequence[NDArray[Any]]  # each (N_i, ...)
    names: Sequence[str]  # of all images, part after part


def images_from_stored(
    stored: StoredImages, size: tuple[int, int] | None, value_range: tuple[float, float] | None
) -> ImageSet:
    """One :class:`ImageSet` of all parts; bytes that need no resizing are not copied."""
    sets = [images_from_array(part, size, value_range) for part in stored.parts]
    if len(sets) == 1:
        return ImageSet(sets[0].pixels, stored.names, value_range=sets[0].value_range)
    forms = {(part.size, part.channels, part.pixels.dtype) for part in sets}
    if len(forms) > 1:
        listed = ", ".join(sorted(f"{size[0]}x{size[1]}x{channels} {dtype}" for size, channels, dtype in forms))
        raise InputError(f"the files of the set hold images of different kinds ({listed}): give a size, or one file")
    return ImageSet(JoinedPixels([part.pixels for part in sets]), stored.names, value_range=sets[0].value_range)
