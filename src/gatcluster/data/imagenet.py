"""ImageNet-10 and ImageNet-Dog, made of a user's own ImageNet.

The synsets are those of DAC (Chang et al., Deep Adaptive Image Clustering, ICCV 2017), which introduced both; the
images are all of ILSVRC 2012's training images of these synsets.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gatcluster.data.destination import OnBytes, check_space, unheard, writable
from gatcluster.errors import InputError


@dataclass(frozen=True)
class Subset:
    """Some classes of ImageNet: its name, how many images the papers report, and the synsets with their words."""

    title: str
    n_images: int
    synsets: Mapping[str, str]


IMAGENET_10 = Subset(
    title="ImageNet-10",
    n_images=13_000,
    synsets={
        "n02056570": "king penguin",
        "n02085936": "Maltese dog",
        "n02128757": "snow leopard",
        "n02690373": "airliner",
        "n02692877": "airship",
        "n03095699": "container ship",
        "n04254680": "soccer ball",
        "n04285008": "sports car",
        "n04467665": "trailer truck",
        "n07747607": "orange",
    },
)

IMAGENET_DOG = Subset(
    title="ImageNet-Dog",
    n_images=19_500,
    synsets={
        "n02085936": "Maltese dog",
        "n02086646": "Blenheim spaniel",
        "n02088238": "basset",
        "n02091467": "Norwegian elkhound",
        "n02097130": "giant schnauzer",
        "n02099601": "golden retriever",
        "n02101388": "Brittany spaniel",
        "n02101556": "clumber",
        "n02102177": "Welsh springer spaniel",
        "n02105056": "groenendael",
        "n02105412": "kelpie",
        "n02105855": "Shetland sheepdog",
        "n02107142": "Doberman",
        "n02110958": "pug",
        "n02112137": "chow",
    },
)

_SUFFIXES = frozenset({".jpeg", ".jpg", ".png", ".webp"})  # published are .JPEG; scaled-down copies are often others
_TRAINING_FOLDERS = ("train", "ILSVRC/Data/CLS-LOC/train", "Data/CLS-LOC/train", ".")  # as unpacked by hand, by Kaggle


def link_subset(subset: Subset, root: Path, destination: Path) -> int:
    """Make a folder of symbolic links to the images of a subset; returns how many."""
    images = find_images(subset, root)
    with _synset_folders(subset, destination) as folder:
        for image in images:
            (folder / image.parent.name / image.name).symlink_to(image)
    return len(images)


def copy_subset(subset: Subset, root: Path, destination: Path, on_bytes: OnBytes = unheard) -> int:
    """Make a folder of copies of the images of a subset; returns how many."""
    images = find_images(subset, root)
    sizes = [image.stat().st_size for image in images]
    check_space(destination, sum(sizes))
    done = 0
    with _synset_folders(subset, destination) as folder:
        for image, size in zip(images, sizes, strict=True):
            shutil.copy2(image, folder / image.parent.name / image.name)
            done += size
            on_bytes(f"copying {subset.title}", done, sum(sizes))
    return len(images)


def find_images(subset: Subset, root: Path) -> list[Path]:
    """The images of a subset in an ImageNet tree: absolute paths, sorted, in folders called like their synsets."""
    if not root.is_dir():
        raise InputError(f"no such folder: {root}")
    candidates = [root / name for name in _TRAINING_FOLDERS]
    training = next((path for path in candidates if any((path / synset).is_dir() for synset in subset.synsets)), None)
    if training is None:
        raise InputError(
            f"no synset folder of {subset.title} in {root} or {root / 'train'}: give the folder of ImageNet that holds "
            f"{', '.join(subset.synsets)}"
        )
    found = {synset: _images_in(training.resolve() / synset) for synset in subset.synsets}
    missing = [f"{synset} ({words})" for synset, words in subset.synsets.items() if not found[synset]]
    if missing:
        raise InputError(f"no images of {', '.join(missing)} in {training}: {subset.title} needs them")
    return [image for images in found.values() for image in images]


def _images_in(folder: Path) -> Sequence[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _is_image(path))


def _is_image(path: Path) -> bool:
    return not path.name.startswith(".") and path.suffix.lower() in _SUFFIXES and path.is_file()


@contextmanager
def _synset_folders(subset: Subset, destination: Path) -> Iterator[Path]:
    """A hidden folder with a folder for each synset, which move to the destination once they are filled."""
    if destination.is_dir() and any(destination.iterdir()):
        raise InputError(f"{destination} exists and is not empty: give another folder")
    with writable(destination):
        hidden = destination / ".unfinished"
        try:
            for synset in subset.synsets:
                (hidden / synset).mkdir(parents=True)
            yield hidden
            for synset in subset.synsets:
                (hidden / synset).rename(destination / synset)
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
