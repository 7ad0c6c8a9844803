from __future__ import annotations

import os
from pathlib import Path

import pytest
from PIL import Image

from gatcluster.data.cache import decoded_images
from gatcluster.data.files import RUN_MARKS, ImageFiles, find_image_files
from gatcluster.data.images import ImageSet
from gatcluster.runs.layout import RUN_ENTRIES

FORMATS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif")


def flat(path: Path, value: int = 100, size: tuple[int, int] = (10, 10), mode: str = "L") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode == "L" else (value, 0, 0)).save(path)
    return path


def read(folder: Path, size: tuple[int, int] | None = (10, 10), channels: int | None = 1) -> ImageSet:
    names = find_image_files(folder)
    return decoded_images(ImageFiles([folder / name for name in names], names), size, channels, "crop")


# Finding.


def test_files_are_found_at_any_depth_and_named_by_their_relative_posix_path(tmp_path):
    for name in ("b.png", "a/1.png", "a/deep/er/2.png"):
        flat(tmp_path / name)
    assert find_image_files(tmp_path) == ["a/1.png", "a/deep/er/2.png", "b.png"]


def test_every_common_suffix_counts_in_capitals_too_and_others_do_not(tmp_path):
    wanted = [f"x{suffix}" for suffix in FORMATS] + ["X.JPG", "y.Png"]
    for name in [*wanted, "x.txt", "x.csv", "x", "jpg", "x.jpg.part", "x.npy"]:
        (tmp_path / name).touch()
    assert find_image_files(tmp_path) == sorted(wanted)


def test_hidden_files_and_folders_are_ignored(tmp_path):
    for name in ("seen.png", ".hidden.png", ".thumbs/a.png", "a/.b/c.png", "a/._d.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert find_image_files(tmp_path) == ["seen.png"]


def test_a_hidden_folder_that_the_user_names_is_read(tmp_path):
    flat(tmp_path / ".cache" / "a.png")
    assert find_image_files(tmp_path / ".cache") == ["a.png"]


def test_a_folder_with_an_image_suffix_is_a_folder(tmp_path):
    flat(tmp_path / "album.jpg" / "a.png")
    assert find_image_files(tmp_path) == ["album.jpg/a.png"]


def test_the_order_does_not_depend_on_the_file_system(tmp_path, monkeypatch):
    for name in ("10.png", "9.png", "B.png", "a.png", "a/1.png", "é.png"):
        flat(tmp_path / name)
    expected = find_image_files(tmp_path)
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: sorted(scandir(folder), key=lambda entry: entry.name)[::-1])
    assert find_image_files(tmp_path) == expected == sorted(expected)


@pytest.mark.parametrize(
    "name", ["with space.png", "käse 日本.png", "line\nbreak.png", "quo\"te',comma.png", "#1%20?.png", "-o.png"]
)
def test_odd_names_are_found_and_read(tmp_path, name):
    flat(tmp_path / name, value=77)
    images = read(tmp_path)
    assert images.names == [name]
    assert images.pixels[0, 0, 0, 0] == 77


def test_a_name_that_is_not_valid_unicode_is_found_and_read(tmp_path):
    content = flat(tmp_path / "a.png", value=77).read_bytes()
    name = os.fsdecode(b"\xff\xfe.png")
    (tmp_path / name).write_bytes(content)
    (tmp_path / "a.png").unlink()
    images = read(tmp_path)
    assert images.names == [name]
    assert images.pixels[0, 0, 0, 0] == 77


def test_the_pictures_of_an_earlier_run_are_not_taken_for_images(tmp_path):
    for name in ("a.png", "photos-k3/clusters.png", "photos-k3/demo-images/0.png", "half/clusters.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for mark in RUN_MARKS:
        (tmp_path / "photos-k3" / mark).touch()
    assert find_image_files(tmp_path) == ["a.png", "half/clusters.png"]
    assert find_image_files(tmp_path / "photos-k3") == ["clusters.png", "demo-images/0.png"]
    assert RUN_MARKS <= RUN_ENTRIES
