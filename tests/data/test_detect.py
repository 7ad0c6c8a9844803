from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from PIL import Image

from gatcluster.choices import Format
from gatcluster.data.detect import check_format, located_format
from gatcluster.data.sources import _ENCODED, _STORED
from gatcluster.errors import InputError

IDX = bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 7])


def touch(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a.jpg"], "folder"),
        (["cats/1.png", "dogs/2.png"], "folder"),
        (["train/cats/1.png", "test/cats/1.png", "meta/notes.txt"], "folder"),
        ([], "folder"),
        (["notes.txt"], "folder"),
        (["data_batch_1.bin"], "cifar10"),
        (["data_batch_1", "data_batch_2", "test_batch", "batches.meta", "readme.html"], "cifar10"),
        (["train.bin", "test.bin", "fine_label_names.txt"], "cifar100"),
        (["train", "test", "meta", "file.txt~"], "cifar100"),
        (["train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin", "unlabeled_X.bin"], "stl10"),
        (["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"], "idx"),
        (["t10k-images.idx3-ubyte"], "idx"),
        (["data/train-00000-of-00002.parquet", "README.md"], "parquet"),
        (["shard-000.tar", "shard-001.tar"], "webdataset"),
        (["state.json", "dataset_info.json", "data-00000-of-00001.arrow"], "huggingface"),
        (["dataset_dict.json", "train/state.json", "train/data-00000-of-00001.arrow"], "huggingface"),
        # photos win over what may be a backup of them
        (["photos/a.jpg", "photos.tar", "photos.parquet"], "folder"),
        (["holiday.json", "state.json", "a.jpg"], "folder"),
    ],
)
def test_a_folder_is_told_by_what_it_holds(tmp_path, names, expected):
    assert located_format(touch(tmp_path, *names)) == (tmp_path, expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("x.npy", "numpy"),
        ("x.NPZ", "numpy"),
        ("x.csv", "csv"),
        ("x.tsv", "csv"),
        ("x.txt", "list"),
        ("x.parquet", "parquet"),
        ("x.tar", "webdataset"),
        ("x.arrow", "huggingface"),
        ("x.JPG", "folder"),
        ("data_batch_2.bin", "cifar10"),
        ("data_batch_2", "cifar10"),
        ("test.bin", "cifar100"),
        ("unlabeled_X.bin", "stl10"),
        ("train-images-idx3-ubyte.gz", "idx"),
    ],
)
def test_a_file_is_told_by_its_name(tmp_path, name, expected):
    touch(tmp_path, name)
    assert located_format(tmp_path / name) == (tmp_path / name, expected)


def test_an_idx_file_is_told_by_its_first_bytes_too(tmp_path):
    (tmp_path / "digits").write_bytes(IDX)
    assert located_format(tmp_path / "digits")[1] == "idx"


@pytest.mark.parametrize("content", [b"", b"\0", b"\x1f\x8b", b"\x1f\x8b broken", b"\0\0\x08\x01", b"%PDF-1.7"])
def test_a_file_of_no_known_kind_is_refused_with_what_to_give(tmp_path, content):
    (tmp_path / "x.dat").write_bytes(content)
    with pytest.raises(InputError, match=r"cannot read .*x\.dat: give a folder.*\.parquet"):
        located_format(tmp_path / "x.dat")


def test_the_folder_around_a_published_set_may_be_named(tmp_path):
    touch(tmp_path, "cifar-10-batches-bin/data_batch_1.bin", "cifar-10-binary.tar.gz")
    assert located_format(tmp_path) == (tmp_path / "cifar-10-batches-bin", "cifar10")
    assert located_format(tmp_path, "cifar10") == (tmp_path / "cifar-10-batches-bin", "cifar10")


def test_a_pattern_is_told_from_a_name_with_brackets(tmp_path):
    assert located_format(tmp_path / "*.jpg") == (tmp_path / "*.jpg", "glob")
    touch(tmp_path, "a[1]/a.jpg")
    assert located_format(tmp_path / "a[1]") == (tmp_path / "a[1]", "folder")


def test_the_format_that_is_asked_for_wins(tmp_path):
    touch(tmp_path, "data_batch_1.bin", "a.jpg")
    assert located_format(tmp_path)[1] == "cifar10"
    assert located_format(tmp_path, "folder") == (tmp_path, "folder")


@pytest.mark.parametrize("name", ["csv", "list", "numpy"])
def test_a_format_of_files_refuses_a_folder(tmp_path, name):
    with pytest.raises(InputError, match=f"is a folder, but format '{name}' is a file"):
        located_format(tmp_path, name)


def test_an_unknown_format_is_answered_with_the_known_ones():
    with pytest.raises(InputError, match=r"unknown format 'zip'; the formats are: .*cifar100-20.*webdataset"):
        check_format("zip")


def test_what_is_not_there_or_no_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no such file or folder: .*gone"):
        located_format(tmp_path / "gone")
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(InputError, match="neither a file nor a folder"):
        located_format(tmp_path / "pipe.jpg")


def test_every_format_can_be_read_and_asked_for_on_the_command_line():
    assert set(get_args(Format)) == set(_ENCODED) | set(_STORED)


def test_wrong_formats_are_input_errors_whatever_lies_there(tmp_path):
    from gatcluster.data.sources import read_images

    Image.new("L", (8, 8)).save(tmp_path / "a.png")
    np.save(tmp_path / "a.npy", np.zeros((2, 8, 8), np.uint8))
    for name in get_args(Format):
        for path in (tmp_path / "a.npy", tmp_path / "a.png"):
            fitting = (name, path.suffix) in (("folder", ".png"), ("glob", ".png"), ("numpy", ".npy"))
            if not fitting:
                with pytest.raises(InputError, match=r"a\.(npy|png)"):
                    read_images(path, format=name)
