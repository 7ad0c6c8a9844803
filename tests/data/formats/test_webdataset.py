from __future__ import annotations

import gzip
import io
import pickle
import tarfile

import numpy as np
import pytest

from gatcluster.data.formats.webdataset import tar_images, tar_labels
from gatcluster.data.sources import read_images
from gatcluster.errors import InputError


def test_the_images_of_one_tar_file_are_named_by_their_paths_in_it(tmp_path, write):
    images = write.pixels(3, 8, 8)
    shard = write.tar(
        tmp_path / "x.tar",
        {
            "0001.png": write.png(images[0]),
            "0001.cls": b"4",
            "0001.json": b"{}",
            "./b/0002.png": write.png(images[1]),
            "b/0002.cls": b"7\n",
            ".hidden.png": b"",
            "käse 日本\n.png": write.png(images[2]),
        },
    )
    read = read_images(shard)
    assert read.names == ["0001.png", "b/0002.png", "käse 日本\n.png"]
    assert np.array_equal(read.pixels, images)
    assert tar_labels(shard) == [("0001.png", "4"), ("b/0002.png", "7"), ("käse 日本\n.png", None)]


def test_the_shards_of_a_folder_come_in_order_and_name_their_images(tmp_path, write):
    images = write.pixels(3, 8, 8)
    write.tar(tmp_path / "s-001.tar", {"a.png": write.png(images[2])})
    write.tar(tmp_path / "s-000.tar", {"a.png": write.png(images[0]), "b.png": write.png(images[1])})
    read = read_images(tmp_path)
    assert read.names == ["s-000.tar/a.png", "s-000.tar/b.png", "s-001.tar/a.png"]
    assert np.array_equal(read.pixels, images)


def test_labels_are_class_files_else_folders_in_the_tar_file(tmp_path, write):
    content = write.png(write.pixels(1, 8, 8)[0])
    shard = write.tar(tmp_path / "x.tar", {"cats/1.jpg": content, "dogs/2.x.png": content, "dogs/2.cls": b"3"})
    assert tar_labels(shard) == [("cats/1.jpg", "cats"), ("dogs/2.x.png", "3")]


def test_a_tar_file_without_labels_says_so(tmp_path, write):
    shard = write.tar(tmp_path / "x.tar", {"1.png": write.png(write.pixels(1, 8, 8)[0])})
    with pytest.raises(InputError, match=r"carries no labels.*\.cls"):
        tar_labels(shard)


def test_pickled_images_open_the_same_and_know_when_the_file_changes(tmp_path, write):
    shard = write.tar(tmp_path / "x.tar", {"a.png": b"first", "b.png": b"second"})
    images = pickle.loads(pickle.dumps(tar_images(shard)))
    assert [images.open(i).read() for i in range(2)] == [b"first", b"second"]
    before = images.fingerprint()
    assert before == tar_images(shard).fingerprint()
    write.tar(shard, {"a.png": b"first", "b.png": b"third!", "c.png": b"4"})
    assert tar_images(shard).fingerprint() != before


def test_links_and_folders_in_a_tar_file_are_no_images(tmp_path, write):
    shard = write.tar(tmp_path / "x.tar", {"a.png": write.png(write.pixels(1, 8, 8)[0])})
    with tarfile.open(shard, "a") as tar:
        for name, kind in [("l.png", tarfile.SYMTYPE), ("h.png", tarfile.LNKTYPE), ("d.png", tarfile.DIRTYPE)]:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "a.png"
            tar.addfile(member)
    assert tar_images(shard).names == ["a.png"]


def test_a_broken_image_costs_one_image_only(tmp_path, write):
    content = write.png(write.pixels(1, 8, 8)[0])
    shard = write.tar(tmp_path / "x.tar", {"a.png": content, "b.png": content[:30], "c.png": b"", "d.png": content})
    images = read_images(shard)
    assert images.names == ["a.png", "d.png"]
    assert [file.name for file in images.skipped] == ["b.png", "c.png"]


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.75, 0.99])
def test_of_a_shard_that_is_cut_off_the_images_before_the_cut_are_used(tmp_path, write, keep):
    pictures = write.pixels(8, 16, 16)
    whole = write.tar(tmp_path / "a.tar", {"x.png": write.png(pictures[0])})
    cut = write.tar(tmp_path / "b.tar", {f"{i}.png": write.png(picture) for i, picture in enumerate(pictures)})
    last = tarfile.open(cut).getmembers()[-1]  # noqa: SIM115
    content = cut.read_bytes()[: int(keep * (last.offset_data + last.size))]
    cut.write_bytes(content)
    images = read_images(tmp_path)
    assert images.names[0] == f"{whole.name}/x.png"
    assert images.names[1:] == [f"b.tar/{i}.png" for i in range(len(images) - 1)]
    assert np.array_equal(images.pixels[1:], pictures[: len(images) - 1])
    assert [file.name for file in images.skipped] == ["b.tar"]
    assert "cut off" in images.skipped[0].reason


@pytest.mark.parametrize("content", [b"", b"no tar file" * 100])
def test_a_file_that_is_no_tar_file_is_named(tmp_path, content):
    (tmp_path / "x.tar").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.tar"):
        read_images(tmp_path / "x.tar")


def test_a_compressed_tar_file_says_what_to_do(tmp_path, write):
    shard = write.tar(tmp_path / "x.tar", {"a.png": write.png(write.pixels(1, 8, 8)[0])})
    shard.write_bytes(gzip.compress(shard.read_bytes()))
    with pytest.raises(InputError, match=r"x\.tar is compressed.*unzip it"):
        read_images(shard)


def test_a_tar_file_without_images_is_named(tmp_path, write):
    with pytest.raises(InputError, match=r"no images in the tar files of .*x\.tar"):
        read_images(write.tar(tmp_path / "x.tar", {"a.txt": b"no image"}))


def test_long_names_of_every_dialect_are_read(tmp_path, write):
    content = write.png(write.pixels(1, 8, 8)[0])
    name = "/".join(["folder" * 10] * 5) + "/a.png"
    for dialect in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        with tarfile.open(tmp_path / "x.tar", "w", format=dialect) as tar:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        assert read_images(tmp_path / "x.tar").names == [name]
