from __future__ import annotations

import errno
import re
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
from PIL import Image

from gatcluster.data.imagenet import IMAGENET_10, IMAGENET_DOG, Subset, copy_subset, find_images, link_subset
from gatcluster.data.sources import read_images
from gatcluster.errors import InputError

OTHERS = ("n01440764", "n01443537")
PER_SYNSET = 2


def draw(folder: Path, synset: str) -> None:
    (folder / synset).mkdir(parents=True)
    for number in range(PER_SYNSET):
        Image.new("RGB", (4, 4), (number * 100, 50, 50)).save(folder / synset / f"{synset}_{number}.JPEG")


@pytest.fixture
def imagenet(tmp_path) -> Path:
    """An ImageNet of the synsets of both subsets and two others."""
    root = tmp_path / "imagenet"
    for synset in {*IMAGENET_10.synsets, *IMAGENET_DOG.synsets, *OTHERS}:
        draw(root / "train", synset)
        draw(root / "val", synset)
    return root


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def expected(subset: Subset) -> list[str]:
    return sorted(f"{synset}/{synset}_{number}.JPEG" for synset in subset.synsets for number in range(PER_SYNSET))


@pytest.mark.parametrize(("subset", "classes", "images"), [(IMAGENET_10, 10, 13_000), (IMAGENET_DOG, 15, 19_500)])
def test_subsets_have_the_classes_of_the_papers(subset, classes, images):
    assert len(subset.synsets) == len(set(subset.synsets.values())) == classes
    assert all(re.fullmatch(r"n\d{8}", synset) for synset in subset.synsets)
    assert subset.n_images == images == classes * 1300  # all of these classes have 1,300 training images


@pytest.mark.parametrize("subset", [IMAGENET_10, IMAGENET_DOG])
def test_a_subset_is_linked_from_the_training_images(imagenet, tmp_path, subset):
    assert link_subset(subset, imagenet, tmp_path / "new" / "dest") == PER_SYNSET * len(subset.synsets)
    dest = tmp_path / "new" / "dest"
    assert names(dest) == expected(subset)
    for name in names(dest):
        assert (dest / name).is_symlink()
        assert (dest / name).resolve() == (imagenet / "train" / name).resolve()
        with Image.open(dest / name) as image:
            assert image.size == (4, 4)


def test_copies_outlive_the_original(imagenet, tmp_path):
    contents = {name: (imagenet / "train" / name).read_bytes() for name in expected(IMAGENET_10)}
    told = []
    assert copy_subset(IMAGENET_10, imagenet, tmp_path / "dest", lambda *news: told.append(news)) == 20
    shutil.rmtree(imagenet)
    assert {name: (tmp_path / "dest" / name).read_bytes() for name in names(tmp_path / "dest")} == contents
    total = sum(map(len, contents.values()))
    assert told[-1] == ("copying ImageNet-10", total, total)


@pytest.mark.parametrize("below", ["train", "ILSVRC/Data/CLS-LOC/train", "Data/CLS-LOC/train", ""])
def test_the_training_images_are_found_however_the_tree_was_unpacked(imagenet, tmp_path, below):
    root = tmp_path / "other"
    (root / below).parent.mkdir(parents=True, exist_ok=True)
    shutil.move(imagenet / "train", root / below)
    assert [path.name for path in find_images(IMAGENET_10, root)] == [
        f"{synset}_{number}.JPEG" for synset in sorted(IMAGENET_10.synsets) for number in range(PER_SYNSET)
    ]


def test_links_work_if_the_paths_given_are_relative(imagenet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    link_subset(IMAGENET_10, Path("imagenet"), Path("dest"))
    monkeypatch.chdir("/")
    assert all((tmp_path / "dest" / name).exists() for name in expected(IMAGENET_10))


def test_a_folder_of_links_can_be_read_as_images(imagenet, tmp_path):
    link_subset(IMAGENET_DOG, imagenet, tmp_path / "dest")
    images = read_images(tmp_path / "dest")
    assert list(images.names) == expected(IMAGENET_DOG)
    assert not images.skipped


def test_only_images_are_taken(imagenet, tmp_path):
    folder = imagenet / "train" / "n02056570"
    (folder / "notes.txt").write_text("no image")
    (folder / "._n02056570_0.JPEG").write_bytes(b"of macOS")
    (folder / "folder.jpeg").mkdir()
    link_subset(IMAGENET_10, imagenet, tmp_path / "dest")
    assert names(tmp_path / "dest") == expected(IMAGENET_10)


def test_an_empty_folder_may_be_filled(imagenet, tmp_path, monkeypatch):
    (tmp_path / "dest").mkdir()
    monkeypatch.chdir(tmp_path / "dest")
    link_subset(IMAGENET_10, imagenet, Path())
    assert names(Path()) == expected(IMAGENET_10)


@pytest.mark.parametrize("make", [link_subset, copy_subset])
def test_nothing_is_overwritten(imagenet, tmp_path, make):
    make(IMAGENET_10, imagenet, tmp_path / "dest")
    (tmp_path / "dest" / "n02056570" / "n02056570_0.JPEG").unlink()
    (tmp_path / "dest" / "n02056570" / "n02056570_0.JPEG").write_text("mine")
    with pytest.raises(InputError, match="dest exists and is not empty"):
        make(IMAGENET_10, imagenet, tmp_path / "dest")
    assert (tmp_path / "dest" / "n02056570" / "n02056570_0.JPEG").read_text() == "mine"


def test_missing_synsets_are_named_and_nothing_is_made(imagenet, tmp_path):
    shutil.rmtree(imagenet / "train" / "n02056570")
    shutil.rmtree(imagenet / "train" / "n07747607")
    (imagenet / "train" / "n07747607").mkdir()  # empty is as bad as missing
    message = r"no images of n02056570 \(king penguin\), n07747607 \(orange\) in .*train"
    for make in (link_subset, copy_subset):
        with pytest.raises(InputError, match=message):
            make(IMAGENET_10, imagenet, tmp_path / "dest")
    assert not (tmp_path / "dest").exists()


def test_a_folder_that_is_no_imagenet_is_refused(tmp_path):
    (tmp_path / "photos").mkdir()
    with pytest.raises(InputError, match=r"no synset folder of ImageNet-10 in .*photos.*n02056570"):
        link_subset(IMAGENET_10, tmp_path / "photos", tmp_path / "dest")
    with pytest.raises(InputError, match=r"no such folder: .*nowhere"):
        link_subset(IMAGENET_10, tmp_path / "nowhere", tmp_path / "dest")


def test_a_destination_below_a_file_is_refused(imagenet, tmp_path):
    (tmp_path / "file").write_text("mine")
    for destination in (tmp_path / "file", tmp_path / "file" / "dest"):
        with pytest.raises(InputError, match=r"cannot write to .*file is not a folder"):
            link_subset(IMAGENET_10, imagenet, destination)
    assert (tmp_path / "file").read_text() == "mine"


def test_copies_that_do_not_fit_are_not_begun(imagenet, tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9, 100))
    with pytest.raises(InputError, match="not enough space"):
        copy_subset(IMAGENET_10, imagenet, tmp_path / "dest")
    assert not (tmp_path / "dest").exists()


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_half_way_leaves_nothing(imagenet, tmp_path, failure):
    def fail(work: str, done: int, total: int) -> None:
        if done > total / 2:
            raise failure

    with pytest.raises(InputError if isinstance(failure, OSError) else KeyboardInterrupt):
        copy_subset(IMAGENET_10, imagenet, tmp_path / "new" / "dest", fail)
    assert not (tmp_path / "new").exists()
