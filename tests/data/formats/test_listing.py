from __future__ import annotations

import os
from pathlib import Path

import pytest
from PIL import Image

from gatcluster.data.cache import decoded_images
from gatcluster.data.formats.listing import (
    csv_images,
    csv_labels,
    glob_images,
    listed_images,
    named_files,
    text_list_images,
)
from gatcluster.data.sources import read_images
from gatcluster.errors import InputError


def flat(path: Path, value: int = 100) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (8, 8), value).save(path)
    return path


def table(folder: Path, text: str | bytes, name: str = "images.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.fixture
def photos(tmp_path) -> Path:
    for name, value in [("a.png", 1), ("b c.png", 2), ("deep/d.png", 3)]:
        flat(tmp_path / "photos" / name, value)
    return tmp_path / "photos"


# Lists.


def test_two_identical_paths_are_two_images(photos):
    images = read_images([photos / "a.png", photos / "deep/d.png", photos / "a.png"])
    assert images.pixels[:, 0, 0, 0].tolist() == [1, 3, 1]
    assert len(images.names) == 3


def test_a_folder_or_a_pipe_in_a_list_is_named(photos):
    os.mkfifo(photos / "pipe.png")
    for name in ("deep", "pipe.png"):
        with pytest.raises(InputError, match=f"not a file: .*{name}"):
            listed_images([photos / "a.png", photos / name])


# Patterns.


def test_a_pattern_gives_the_images_that_match_in_sorted_order(photos):
    (photos / "notes.txt").touch()
    (photos / ".hidden.png").touch()
    images = read_images(f"{photos}/*")
    assert images.names == [f"{photos}/a.png", f"{photos}/b c.png"]
    assert images.pixels[:, 0, 0, 0].tolist() == [1, 2]


def test_two_stars_go_to_any_depth(photos):
    assert glob_images(photos / "**" / "*.png").names == [
        f"{photos}/a.png",
        f"{photos}/b c.png",
        f"{photos}/deep/d.png",
    ]


def test_a_folder_whose_name_looks_like_a_pattern_is_a_folder(tmp_path):
    flat(tmp_path / "photos [2020]" / "a.png", 9)
    assert read_images(tmp_path / "photos [2020]").names == ["a.png"]


def test_a_pattern_without_images_says_what_it_found(photos):
    (photos / "notes.txt").touch()
    with pytest.raises(InputError, match=r"\*\.jpg: nothing matches"):
        read_images(f"{photos}/*.jpg")
    with pytest.raises(InputError, match="1 matches, but none of them is an image"):
        read_images(f"{photos}/*.txt")


# Text files.


def test_a_text_file_names_a_path_on_each_line(photos):
    listing = table(photos, "deep/d.png\r\n\n  \na.png\na.png", "images.txt")
    images = read_images(listing)
    assert images.names == ["deep/d.png", "a.png", "a.png"]
    assert images.pixels[:, 0, 0, 0].tolist() == [3, 1, 1]


def test_an_empty_text_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"images\.txt lists no images"):
        text_list_images(table(tmp_path, "\n\n", "images.txt"))


# CSV files.


def test_a_csv_file_gives_its_images_in_its_order(photos):
    images = read_images(table(photos, 'label,path\nx,deep/d.png\ny,"b c.png"\nz,a.png\nz,a.png\n'))
    assert images.names == ["deep/d.png", "b c.png", "a.png", "a.png"]
    assert images.pixels[:, 0, 0, 0].tolist() == [3, 2, 1, 1]


@pytest.mark.parametrize("header", ["image", "Filename", "file_name", "IMAGE_PATH", " path "])
def test_the_path_column_may_have_any_usual_name(photos, header):
    assert csv_images(table(photos, f"id,{header}\n1,a.png\n")).names == ["a.png"]


@pytest.mark.parametrize(("delimiter", "name"), [(",", "x.csv"), (";", "x.csv"), ("\t", "x.tsv")])
def test_spreadsheets_of_all_countries_are_read(photos, delimiter, name):
    text = f"path{delimiter}label\r\na.png{delimiter}cat\r\n"
    listing = table(photos, text.encode("utf-8-sig"), name)
    assert read_images(listing).names == ["a.png"]
    assert csv_labels(listing) == [("a.png", "cat")]


def test_names_with_commas_line_breaks_and_odd_bytes_are_read(tmp_path):
    odd = os.fsdecode(b"\xff.png")
    for number, name in enumerate(['a, "b".png', "line\nbreak.png", "käse.png", odd]):
        flat(tmp_path / name, number)
    rows = b'path\n"a, ""b"".png"\n"line\nbreak.png"\n' + "käse.png\n".encode() + b"\xff.png\n"
    images = read_images(table(tmp_path, rows))
    assert images.names == ['a, "b".png', "line\nbreak.png", "käse.png", odd]
    assert images.pixels[:, 0, 0, 0].tolist() == [0, 1, 2, 3]


def test_paths_may_be_absolute_or_relative_to_the_file_or_to_the_current_folder(photos, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lists").mkdir()
    listing = table(tmp_path / "lists", f"path\n{photos}/a.png\nphotos/b c.png\n../photos/deep/d.png\n")
    assert read_images(listing).pixels[:, 0, 0, 0].tolist() == [1, 2, 3]


def test_files_that_are_not_there_are_skipped_with_a_reason(photos):
    images = read_images(table(photos, "path\na.png\ngone.png\ndeep\n"))
    assert images.names == ["a.png"]
    assert [file.name for file in images.skipped] == ["gone.png", "deep"]
    assert "No such file" in images.skipped[0].reason


def test_a_path_that_is_none_is_skipped(photos):
    images = decoded_images(named_files(photos / "list", ["a.png", "b\0c.png", ""]), None, None, "crop")
    assert images.names == ["a.png"]
    assert [file.name for file in images.skipped] == ["b\0c.png", ""]


def test_a_csv_file_without_paths_lists_its_columns(photos):
    with pytest.raises(InputError, match=r"images\.csv has no column of image paths.*\(id, label\) 'path'"):
        csv_images(table(photos, "id,label\n1,cat\n"))


@pytest.mark.parametrize("text", ["", "path\n", "path,label\n,cat\n"])
def test_an_empty_csv_file_is_named(tmp_path, text):
    with pytest.raises(InputError, match=r"images\.csv"):
        csv_images(table(tmp_path, text))


def test_labels_come_row_by_row_and_are_none_where_the_cell_is_empty(photos):
    listing = table(photos, "path,label\na.png,cat\nb c.png,\na.png,dog\n")
    assert csv_labels(listing) == [("a.png", "cat"), ("b c.png", None), ("a.png", "dog")]


def test_a_csv_file_without_labels_is_read_and_only_its_labels_are_missed(photos):
    listing = table(photos, "path\na.png\n")
    assert csv_images(listing).names == ["a.png"]
    with pytest.raises(InputError, match=r"images\.csv has no labels"):
        csv_labels(listing)
