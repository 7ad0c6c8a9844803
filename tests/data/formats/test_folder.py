from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

from gatcluster.data.cache import decoded_images
from gatcluster.data.files import find_image_files, image_suffixes, load_plug_ins, open_regular
from gatcluster.data.formats.folder import folder_images
from gatcluster.data.sources import read_images
from gatcluster.errors import InputError


def flat(path: Path, value: int = 100) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (8, 8), value).save(path)
    return path


# Links.


def test_linked_folders_and_files_are_followed(tmp_path):
    flat(tmp_path / "elsewhere" / "deep" / "a.png")
    flat(tmp_path / "single.png")
    photos = tmp_path / "photos"
    flat(photos / "own.png")
    (photos / "linked").symlink_to(tmp_path / "elsewhere")
    (photos / "file.png").symlink_to(tmp_path / "single.png")
    assert find_image_files(photos) == ["file.png", "linked/deep/a.png", "own.png"]


def test_a_loop_of_links_ends_and_lists_every_file_once(tmp_path):
    flat(tmp_path / "a" / "1.png")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "self").symlink_to(tmp_path / "a")
    (tmp_path / "b").symlink_to(tmp_path / "c")
    (tmp_path / "c").symlink_to(tmp_path / "b")
    assert find_image_files(tmp_path) == ["a/1.png"]


def test_a_file_reached_twice_is_listed_once_under_its_own_name(tmp_path):
    flat(tmp_path / "z.png")
    (tmp_path / "a.png").symlink_to(tmp_path / "z.png")
    flat(tmp_path / "real" / "1.png")
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    assert find_image_files(tmp_path) == ["real/1.png", "z.png"]


def test_of_several_links_to_one_file_outside_the_first_name_counts(tmp_path):
    flat(tmp_path / "outside" / "x.png")
    photos = tmp_path / "photos"
    photos.mkdir()
    for name in ("b.png", "a.png"):
        (photos / name).symlink_to(tmp_path / "outside" / "x.png")
    assert find_image_files(photos) == ["a.png"]
    (photos / "folder").symlink_to(tmp_path / "outside")
    assert find_image_files(photos) == ["folder/x.png"]


def test_hard_links_are_files_of_their_own(tmp_path):
    os.link(flat(tmp_path / "a.png"), tmp_path / "b.png")
    assert find_image_files(tmp_path) == ["a.png", "b.png"]


def test_a_folder_that_is_itself_a_link_is_read(tmp_path):
    flat(tmp_path / "real" / "a.png")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert read_images(tmp_path / "link").names == ["a.png"]


@pytest.mark.parametrize("target", ["gone.png", "gone", "x.png"])
def test_a_link_to_nothing_is_listed_and_skipped_with_its_reason(tmp_path, target):
    flat(tmp_path / "a.png")
    (tmp_path / "x.png").symlink_to(tmp_path / target)
    images = read_images(tmp_path)
    assert images.names == ["a.png"]
    assert [file.name for file in images.skipped] == ["x.png"]


# What is no regular file.


def test_pipes_and_devices_are_no_images_and_do_not_hang(tmp_path):
    flat(tmp_path / "a.png")
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "linked-pipe.png").symlink_to(tmp_path / "pipe.png")
    (tmp_path / "zero.png").symlink_to("/dev/zero")
    assert find_image_files(tmp_path) == ["a.png"]


def test_a_file_replaced_by_a_pipe_after_listing_is_skipped(tmp_path):
    flat(tmp_path / "a.png")
    flat(tmp_path / "b.png")
    files = folder_images(tmp_path)
    (tmp_path / "b.png").unlink()
    os.mkfifo(tmp_path / "b.png")
    images = decoded_images(files, None, None, "crop")
    assert images.names == ["a.png"]
    assert "not a regular file" in images.skipped[0].reason


def test_opening_a_pipe_does_not_wait_for_a_writer(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(tmp_path / "pipe")


# A folder that changes, and a large one.


def test_a_file_that_vanishes_between_listing_and_reading_is_skipped_with_its_reason(tmp_path):
    for number, name in enumerate(["a.png", "b.png", "c.png"]):
        flat(tmp_path / name, 10 * number)
    files = folder_images(tmp_path)
    (tmp_path / "b.png").unlink()
    flat(tmp_path / "new.png")
    images = decoded_images(files, None, None, "crop")
    assert images.names == ["a.png", "c.png"]
    assert images.pixels[:, 0, 0, 0].tolist() == [0, 20]
    assert [file.name for file in images.skipped] == ["b.png"]
    assert "No such file" in images.skipped[0].reason


def test_ten_thousand_files_in_one_folder_are_all_read_under_their_names(tmp_path):
    contents = [flat(tmp_path / "x.png", value).read_bytes() for value in range(10)]
    (tmp_path / "x.png").unlink()
    for number in range(10_000):
        (tmp_path / f"{number:05}.png").write_bytes(contents[number % 10])
    images = read_images(tmp_path)
    assert images.names == [f"{number:05}.png" for number in range(10_000)]
    assert images.pixels[:, 0, 0, 0].tolist() == [number % 10 for number in range(10_000)]


@pytest.mark.parametrize("name", ["with space.png", "käse 日本.png", "line\nbreak.png", os.fsdecode(b"\xff.png")])
def test_odd_names_come_through(tmp_path, name):
    flat(tmp_path / "sub folder\n" / name, 7)
    images = read_images(tmp_path)
    assert images.names == [f"sub folder\n/{name}"]
    assert images.pixels[0, 0, 0, 0] == 7


# Kinds of files.


def test_a_folder_without_images_says_what_was_looked_for(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match=r"no images in .*\.jpg"):
        folder_images(tmp_path)


def test_avif_is_read_where_pillow_can(tmp_path):
    Image.new("RGB", (16, 16), (10, 200, 30)).save(tmp_path / "a.avif")
    assert ".avif" in image_suffixes()
    assert read_images(tmp_path).names == ["a.avif"]


def test_heic_counts_once_a_plug_in_teaches_pillow_to_read_it(tmp_path, monkeypatch):
    (tmp_path / "a.HEIC").touch()
    image_suffixes.cache_clear()
    load_plug_ins.cache_clear()
    assert find_image_files(tmp_path) == []
    plug_in = ModuleType("pillow_heif")
    plug_in.register_heif_opener = lambda: Image.register_extension("PNG", ".heic")
    monkeypatch.setitem(sys.modules, "pillow_heif", plug_in)
    monkeypatch.setattr(Image, "EXTENSION", dict(Image.EXTENSION))
    image_suffixes.cache_clear()
    load_plug_ins.cache_clear()
    assert find_image_files(tmp_path) == ["a.HEIC"]
    image_suffixes.cache_clear()
    load_plug_ins.cache_clear()
