from __future__ import annotations

import errno
import gzip
import hashlib
import math
import re
import shutil
import tarfile
from collections import namedtuple
from pathlib import Path

import pytest

from gatcluster.data import download as module
from gatcluster.data.download import DATA_SETS, DataSet, RemoteFile, download
from gatcluster.data.sources import read_images
from gatcluster.errors import InputError


def tree(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def unpacked_tree(publisher) -> dict[str, bytes | None]:
    files = {f"cifar-10-batches-bin/{name}": content for name, content in publisher.unpacked.items()}
    return {"cifar-10-batches-bin": None, **files}


# The real table.


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "stl10", "mnist", "fashion-mnist"])
def test_the_table_is_well_formed(name):
    data_set = DATA_SETS[name]
    assert data_set.mirrors
    assert all(re.fullmatch(r"https://[\w.-]+/.*/", mirror) for mirror in data_set.mirrors)
    assert all(re.fullmatch(r"[0-9a-f]{64}", file.sha256) for file in data_set.files)
    assert all(file.size > 0 for file in data_set.files)
    if data_set.unpacked is not None:
        assert [file.name.endswith(".tar.gz") for file in data_set.files] == [True]
    else:
        assert all(file.name.endswith("-ubyte.gz") for file in data_set.files)


def test_no_two_files_of_the_table_have_one_checksum_or_one_place():
    files = [(data_set, file) for data_set in DATA_SETS.values() for file in data_set.files]
    assert len({file.sha256 for _, file in files}) == len(files)
    assert len({(data_set.folder, file.name) for data_set, file in files}) == len(files)


@pytest.mark.parametrize(
    ("name", "images", "bytes_each"), [("cifar10", 60_000, 1 + 3072), ("cifar100", 60_000, 2 + 3072)]
)
def test_sizes_in_the_table_fit_the_number_of_images(name, images, bytes_each):
    assert sum(DATA_SETS[name].unpacked.values()) == images * bytes_each


def test_sizes_of_stl10_fit_the_number_of_images():
    unpacked = DATA_SETS["stl10"].unpacked
    for split, images in (("train", 5_000), ("test", 8_000), ("unlabeled", 100_000)):
        assert unpacked[f"{split}_X.bin"] == images * 3 * 96 * 96
    assert (unpacked["train_y.bin"], unpacked["test_y.bin"]) == (5_000, 8_000)


# Good transfers.


def test_an_archive_becomes_a_folder_and_nothing_else(publisher, tmp_path):
    found = download("cifar10", tmp_path / "new" / "dest")
    assert found.path == tmp_path / "new" / "dest" / "cifar-10-batches-bin"
    assert found.fetched == ["cifar-10-binary.tar.gz"]
    assert tree(tmp_path / "new" / "dest") == unpacked_tree(publisher)


def test_idx_files_are_kept_as_they_are(publisher, tmp_path):
    found = download("mnist", tmp_path)
    assert found.path == tmp_path / "mnist"
    assert found.fetched == list(publisher.idx)
    assert tree(tmp_path / "mnist") == publisher.idx


def test_data_sets_share_a_folder(publisher, tmp_path):
    download("mnist", tmp_path)
    download("cifar10", tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"mnist", "cifar-10-batches-bin"}


@pytest.mark.parametrize("name", ["cifar10", "mnist"])
def test_what_is_complete_is_not_fetched_again(publisher, tmp_path, name):
    download(name, tmp_path)
    before, asked = tree(tmp_path), len(publisher.server.log)
    assert download(name, tmp_path).fetched == []
    assert len(publisher.server.log) == asked
    assert tree(tmp_path) == before


def test_only_missing_files_are_fetched(publisher, tmp_path):
    download("mnist", tmp_path)
    (tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz").unlink()
    publisher.server.log.clear()
    assert download("mnist", tmp_path).fetched == ["t10k-images-idx3-ubyte.gz"]
    assert [request.path for request in publisher.server.log] == ["/mnist/t10k-images-idx3-ubyte.gz"]
    assert tree(tmp_path / "mnist") == publisher.idx


def test_an_archive_of_the_user_is_used_and_kept(publisher, tmp_path):
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(publisher.archive)
    assert download("cifar10", tmp_path).fetched == []
    assert publisher.server.log == []
    assert tree(tmp_path) == {**unpacked_tree(publisher), "cifar-10-binary.tar.gz": publisher.archive}


def test_a_relative_destination_is_below_the_current_folder(publisher, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert download("mnist", Path("~dest")).path == Path("~dest/mnist")
    assert tree(tmp_path / "~dest" / "mnist") == publisher.idx


def test_progress_is_told_for_fetching_and_unpacking(publisher, tmp_path):
    told = []
    download("cifar10", tmp_path, on_bytes=lambda work, done, total: told.append((work, done, total)))
    size = len(publisher.archive)
    assert ("downloading cifar-10-binary.tar.gz", size, size) in told
    assert told[-1] == ("unpacking cifar-10-binary.tar.gz", size, size)


def test_nothing_is_printed(publisher, tmp_path, capfd):
    download("cifar10", tmp_path)
    assert capfd.readouterr() == ("", "")


# Mirrors.


def test_a_mirror_of_the_user_is_the_only_one_asked(publisher, tmp_path):
    publisher.server.files = {"/our/mirror/cifar10/cifar-10-binary.tar.gz": publisher.archive}
    for address in (f"{publisher.server.url}our/mirror", f"{publisher.server.url}our/mirror/"):
        download("cifar10", tmp_path, mirror=address)
        assert tree(tmp_path) == unpacked_tree(publisher)
        shutil.rmtree(tmp_path / "cifar-10-batches-bin")
    assert {request.path for request in publisher.server.log} == {"/our/mirror/cifar10/cifar-10-binary.tar.gz"}


def test_a_mirror_that_is_no_address_is_refused(publisher, tmp_path):
    with pytest.raises(InputError, match="cannot use mirror '/srv/data'"):
        download("cifar10", tmp_path, mirror="/srv/data")


def test_the_next_mirror_is_asked_for_the_rest(publisher, tmp_path, monkeypatch):
    server, half = publisher.server, len(publisher.archive) // 2
    first = module.DATA_SETS["cifar10"]
    mirrors = (f"{server.url}gone/", *first.mirrors)
    both = DataSet(first.folder, 10, mirrors, first.files, first.unpacked)
    monkeypatch.setitem(module.DATA_SETS, "cifar10", both)
    (tmp_path / "cifar-10-binary.tar.gz.part").write_bytes(publisher.archive[:half])
    download("cifar10", tmp_path)
    assert tree(tmp_path) == unpacked_tree(publisher)
    assert [request.path.split("/")[1] for request in server.log] == ["gone", "cifar10"]
    assert server.log[-1].sent == len(publisher.archive) - half


def test_if_no_mirror_has_it_the_error_says_what_each_answered(publisher, tmp_path, monkeypatch):
    first = module.DATA_SETS["cifar10"]
    mirrors = (f"{publisher.server.url}a/", f"{publisher.server.url}b/")
    monkeypatch.setitem(module.DATA_SETS, "cifar10", DataSet(first.folder, 10, mirrors, first.files, first.unpacked))
    with pytest.raises(InputError, match=r"/a/\S+ answered 404 Not Found; \S+/b/\S+ answered 404 Not Found"):
        download("cifar10", tmp_path)


# What goes wrong.


def test_a_cut_transfer_leaves_its_part_and_the_next_call_gets_the_rest(publisher, tmp_path):
    server, half = publisher.server, len(publisher.archive) // 2
    server.cut_after = half
    with pytest.raises(InputError, match="run the same command again to resume"):
        download("cifar10", tmp_path / "dest")
    assert tree(tmp_path) == {"dest": None, "dest/cifar-10-binary.tar.gz.part": publisher.archive[:half]}
    server.cut_after = None
    download("cifar10", tmp_path / "dest")
    assert tree(tmp_path / "dest") == unpacked_tree(publisher)
    assert server.log[-1].range == f"bytes={half}-"
    assert server.log[-1].sent == len(publisher.archive) - half


def test_a_wrong_checksum_says_both_and_removes_the_file(publisher, tmp_path):
    wrong = bytes(len(publisher.archive))
    publisher.server.files["/cifar10/cifar-10-binary.tar.gz"] = wrong
    with pytest.raises(InputError) as refusal:
        download("cifar10", tmp_path / "dest")
    message = str(refusal.value)
    assert "wrong checksum" in message
    assert hashlib.sha256(publisher.archive).hexdigest() in message
    assert hashlib.sha256(wrong).hexdigest() in message
    assert "\n" not in message
    assert tree(tmp_path) == {}


def test_a_part_of_another_file_is_not_kept_for_ever(publisher, tmp_path):
    (tmp_path / "cifar-10-binary.tar.gz.part").write_bytes(b"?" * 1000)
    with pytest.raises(InputError, match="wrong checksum"):
        download("cifar10", tmp_path)
    assert tree(tmp_path) == {}
    download("cifar10", tmp_path)
    assert tree(tmp_path) == unpacked_tree(publisher)


@pytest.mark.parametrize("name", ["cifar10", "mnist"])
def test_a_file_that_is_not_there_leaves_no_folder(publisher, tmp_path, name):
    publisher.server.files.clear()
    with pytest.raises(InputError, match="answered 404 Not Found"):
        download(name, tmp_path / "new" / "dest")
    assert tree(tmp_path) == {}


def test_files_that_arrived_before_a_failure_stay(publisher, tmp_path):
    del publisher.server.files["/mnist/t10k-images-idx3-ubyte.gz"]
    with pytest.raises(InputError, match=r"t10k-images-idx3-ubyte\.gz answered 404"):
        download("mnist", tmp_path)
    assert set(tree(tmp_path / "mnist")) == {"train-images-idx3-ubyte.gz"}


@pytest.mark.parametrize(
    ("name", "path"), [("cifar10", "cifar-10-binary.tar.gz"), ("mnist", "mnist/t10k-images-idx3-ubyte.gz")]
)
def test_a_file_of_the_user_that_is_called_alike_is_not_replaced(publisher, tmp_path, name, path):
    (tmp_path / "mnist").mkdir()
    (tmp_path / path).write_bytes(b"mine")
    before = tree(tmp_path)
    with pytest.raises(InputError, match="is not the published file"):
        download(name, tmp_path)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "test_batch.bin is missing"),
        (lambda path: path.write_bytes(b"short"), "test_batch.bin has 5 bytes, not 100,000"),
    ],
)
def test_a_damaged_folder_is_neither_called_complete_nor_replaced(publisher, tmp_path, damage, message):
    download("cifar10", tmp_path)
    damage(tmp_path / "cifar-10-batches-bin" / "test_batch.bin")
    before = tree(tmp_path)
    with pytest.raises(InputError, match=message):
        download("cifar10", tmp_path)
    assert tree(tmp_path) == before


def test_an_evil_archive_is_refused_even_if_its_checksum_is_right(publisher, tmp_path, tar_gz, monkeypatch):
    link = tarfile.TarInfo("cifar-10-batches-bin/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    for archive in (tar_gz({"../evil": b"x"}), tar_gz({"/tmp/gatcluster-evil": b"x"}), tar_gz({}, link)):
        name = "cifar-10-binary.tar.gz"
        file = RemoteFile(name, len(archive), hashlib.sha256(archive).hexdigest())
        first = module.DATA_SETS["cifar10"]
        evil = DataSet(first.folder, 10, first.mirrors, (file,), first.unpacked)
        monkeypatch.setitem(module.DATA_SETS, "cifar10", evil)
        publisher.server.files[f"/cifar10/{name}"] = archive
        with pytest.raises(InputError, match="cannot unpack"):
            download("cifar10", tmp_path / "dest")
        assert set(tree(tmp_path)) == {"dest", f"dest/{name}"}
        shutil.rmtree(tmp_path / "dest")


def test_a_full_disk_is_noticed_before_anything_is_fetched(publisher, tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9, 400_000))
    with pytest.raises(InputError, match=r"not enough space for .*dest: 600\.\d kB needed, 400\.0 kB free"):
        download("cifar10", tmp_path / "dest")
    assert publisher.server.log == []
    assert tree(tmp_path) == {}


def test_a_disk_that_fills_up_meanwhile_is_one_line_and_leaves_the_part(publisher, tmp_path):
    def full(work: str, done: int, total: int) -> None:
        if done > 100_000:
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(InputError, match=r"cannot write to .*dest: No space left on device"):
        download("cifar10", tmp_path / "dest", on_bytes=full)
    assert set(tree(tmp_path)) == {"dest", "dest/cifar-10-binary.tar.gz.part"}


@pytest.mark.parametrize("destination", ["file", "file/dest"])
@pytest.mark.parametrize("name", ["cifar10", "mnist"])
def test_a_destination_that_is_no_folder_is_refused(publisher, tmp_path, name, destination):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match=r"cannot write to .*file is not a folder"):
        download(name, tmp_path / destination)
    assert publisher.server.log == []
    assert tree(tmp_path) == {"file": b"mine"}


def test_a_destination_without_permission_is_refused(publisher, tmp_path, monkeypatch):
    def refuse(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(InputError, match=r"cannot write to .*dest: Permission denied"):
        download("cifar10", tmp_path / "dest")
    assert publisher.server.log == []


# What can be done with it.


def idx(kind: int, *shape: int) -> bytes:
    header = bytes([0, 0, kind, len(shape)]) + b"".join(size.to_bytes(4, "big") for size in shape)
    return gzip.compress(header + bytes(math.prod(shape)))


FORMATS = {
    "cifar10": {f"{name}.bin": bytes(2 * 3073) for name in (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch")},
    "cifar100": {"train.bin": bytes(10 * 3074), "test.bin": bytes(2 * 3074)},
    "stl10": {
        "train_X.bin": bytes(8 * 27648),
        "train_y.bin": b"\1" * 8,
        "test_X.bin": bytes(4 * 27648),
        "test_y.bin": b"\1" * 4,
        "unlabeled_X.bin": bytes(5 * 27648),
    },
    "mnist": {
        "train-images-idx3-ubyte.gz": idx(8, 9, 28, 28),
        "train-labels-idx1-ubyte.gz": idx(8, 9),
        "t10k-images-idx3-ubyte.gz": idx(8, 3, 28, 28),
        "t10k-labels-idx1-ubyte.gz": idx(8, 3),
    },
}


@pytest.mark.parametrize("name", FORMATS)
def test_the_path_of_a_download_can_be_read_as_images(server, tar_gz, tmp_path, monkeypatch, name):
    real, contents = DATA_SETS[name], FORMATS[name]
    if real.unpacked is not None:
        assert set(real.unpacked) == set(contents)
        contents = {real.files[0].name: tar_gz({f"{real.folder}/{file}": text for file, text in contents.items()})}
    assert [file.name for file in real.files] == list(contents)
    files = tuple(RemoteFile(file, len(text), hashlib.sha256(text).hexdigest()) for file, text in contents.items())
    unpacked = real.unpacked and {file: len(text) for file, text in FORMATS[name].items()}
    monkeypatch.setattr(module, "DATA_SETS", {name: DataSet(real.folder, 10, (), files, unpacked)})
    server.files = {f"/{name}/{file}": text for file, text in contents.items()}
    assert len(read_images(download(name, tmp_path, mirror=server.url).path)) == 12
