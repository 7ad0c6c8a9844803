"""The commands of `gatcluster data`, by running them."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, get_args

import pytest
from PIL import Image

from gatcluster import cli
from gatcluster.choices import Published
from gatcluster.data.download import DATA_SETS
from gatcluster.data.imagenet import IMAGENET_10, IMAGENET_DOG

PART = "dest/cifar-10-binary.tar.gz.part"


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def gatcluster(monkeypatch, capsys, tmp_path) -> Callable[..., Outcome]:
    """The command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["gatcluster", "data", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return Outcome(int(stop.value.code or 0), *capsys.readouterr())

    return call


def paths() -> set[str]:
    return {str(path) for path in Path().rglob("*")}


def assert_refused(outcome: Outcome, message: str, code: int = 2) -> None:
    """One line says what is wrong; before it there may only be progress."""
    assert outcome.code == code
    assert outcome.out == ""
    *progress, error = outcome.err.splitlines()
    assert error.startswith("error: ")
    assert message in error
    assert all(line.startswith(("downloading ", "unpacking ")) for line in progress)


def test_the_command_offers_the_data_sets_of_the_table():
    assert list(get_args(Published)) == list(DATA_SETS)


# --- download ---


def test_download_says_where_it_is_and_what_to_do_next(publisher, gatcluster):
    outcome = gatcluster("download", "cifar10", "dest")
    assert outcome.code == 0, outcome.err
    assert "cifar10 -> dest/cifar-10-batches-bin\n" in outcome.out
    assert "gatcluster fit dest/cifar-10-batches-bin -k 10" in outcome.out
    assert "downloading cifar-10-binary.tar.gz" in outcome.err
    assert paths() == {
        "dest",
        "dest/cifar-10-batches-bin",
        "dest/cifar-10-batches-bin/data_batch_1.bin",
        "dest/cifar-10-batches-bin/test_batch.bin",
    }


def test_download_again_says_that_it_is_complete(publisher, gatcluster):
    gatcluster("download", "mnist", "dest")
    asked = len(publisher.server.log)
    outcome = gatcluster("download", "mnist", "dest")
    assert outcome.code == 0
    assert "mnist is complete in dest/mnist\n" in outcome.out
    assert outcome.err == ""
    assert len(publisher.server.log) == asked


def test_download_json_is_one_object(publisher, gatcluster):
    outcome = gatcluster("download", "cifar10", "dest", "--json")
    assert json.loads(outcome.out) == {
        "name": "cifar10",
        "path": "dest/cifar-10-batches-bin",
        "fetched": ["cifar-10-binary.tar.gz"],
    }
    assert json.loads(gatcluster("download", "cifar10", "dest", "--json").out)["fetched"] == []


def test_a_mirror_is_taken_from_the_option_or_the_environment(publisher, gatcluster, monkeypatch):
    publisher.server.files = {f"/{name}/cifar10/cifar-10-binary.tar.gz": publisher.archive for name in "ab"}
    assert gatcluster("download", "cifar10", "one", "--mirror", f"{publisher.server.url}a").code == 0
    monkeypatch.setenv("GATCLUSTER_MIRROR", f"{publisher.server.url}b/")
    assert gatcluster("download", "cifar10", "two").code == 0
    assert [request.path[:2] for request in publisher.server.log] == ["/a", "/b"]


def test_a_cut_transfer_is_resumed_by_the_same_command(publisher, gatcluster):
    half = len(publisher.archive) // 2
    publisher.server.cut_after = half
    assert_refused(gatcluster("download", "cifar10", "dest"), "run the same command again to resume")
    assert paths() == {"dest", PART}
    publisher.server.cut_after = None
    assert gatcluster("download", "cifar10", "dest").code == 0
    assert publisher.server.log[-1].range == f"bytes={half}-"
    assert publisher.server.log[-1].sent == len(publisher.archive) - half
    assert not Path(PART).exists()


def test_control_c_ends_with_130_and_leaves_the_part(publisher, gatcluster, monkeypatch):
    def interrupt(self: object, work: str, done: int, total: int) -> None:
        if done > total / 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("gatcluster.report.transfers.PlainTransfers.__call__", interrupt)
    assert_refused(gatcluster("download", "cifar10", "dest"), "interrupted", code=130)
    assert paths() == {"dest", PART}
    assert Path(PART).stat().st_size > len(publisher.archive) / 2


def test_a_wrong_checksum_leaves_nothing(publisher, gatcluster):
    publisher.server.files["/cifar10/cifar-10-binary.tar.gz"] = bytes(len(publisher.archive))
    assert_refused(gatcluster("download", "cifar10", "dest"), "wrong checksum")
    assert paths() == set()


def test_a_missing_file_leaves_nothing(publisher, gatcluster):
    publisher.server.files.clear()
    assert_refused(gatcluster("download", "cifar10", "dest"), "answered 404 Not Found")
    assert paths() == set()


def test_no_server_leaves_nothing(publisher, gatcluster):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
        assert_refused(gatcluster("download", "cifar10", "dest", "--mirror", address), "Connection refused")
    assert paths() == set()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["download", "imagenet", "dest"], "imagenet"),
        (["download", "cifar10"], "DEST"),
        (["download", "cifar10", "dest", "--mirror", "ftp://old"], "cannot use mirror 'ftp://old'"),
        (["imagenet10", "nowhere", "dest"], "no such folder: nowhere"),
        (["imagenet-dog", ".", "dest"], "no synset folder of ImageNet-Dog"),
    ],
)
def test_bad_input_is_one_line_and_makes_nothing(publisher, gatcluster, arguments, message):
    assert_refused(gatcluster(*arguments), message)
    assert publisher.server.log == []
    assert paths() == set()


# --- ImageNet ---


@pytest.fixture
def imagenet(tmp_path) -> Path:
    """One drawn image for each synset of both subsets."""
    for synset in {*IMAGENET_10.synsets, *IMAGENET_DOG.synsets}:
        folder = tmp_path / "imagenet" / "train" / synset
        folder.mkdir(parents=True)
        Image.new("RGB", (4, 4)).save(folder / f"{synset}_1.JPEG")
    return tmp_path / "imagenet"


@pytest.mark.parametrize(
    ("command", "title", "classes", "published"),
    [("imagenet10", "ImageNet-10", 10, "13,000"), ("imagenet-dog", "ImageNet-Dog", 15, "19,500")],
)
def test_a_subset_says_what_was_done_and_warns_if_images_are_missing(
    imagenet, gatcluster, command, title, classes, published
):
    outcome = gatcluster(command, "imagenet", "dest")
    assert outcome.code == 0, outcome.err
    assert f"{title}: {classes} images of {classes} classes linked -> dest\n" in outcome.out
    assert f"gatcluster fit dest -k {classes}" in outcome.out
    assert outcome.err == f"warning: {title} of the papers has {published} images, not {classes}\n"
    assert len(list(Path("dest").iterdir())) == classes
    assert all(path.is_symlink() for path in Path("dest").glob("*/*"))


def test_copy_and_json(imagenet, gatcluster):
    outcome = gatcluster("imagenet10", "imagenet", "dest", "--copy", "--json")
    assert json.loads(outcome.out) == {"path": "dest", "n_images": 10, "n_classes": 10, "copied": True}
    copies = list(Path("dest").glob("*/*.JPEG"))
    assert len(copies) == 10
    assert not any(path.is_symlink() for path in copies)


def test_no_warning_if_the_subset_is_the_published_one(imagenet, gatcluster, monkeypatch):
    whole = type(IMAGENET_10)(IMAGENET_10.title, 10, IMAGENET_10.synsets)
    monkeypatch.setattr("gatcluster.data.imagenet.IMAGENET_10", whole)
    assert gatcluster("imagenet10", "imagenet", "dest").err == ""


def test_a_subset_is_not_made_twice(imagenet, gatcluster):
    gatcluster("imagenet10", "imagenet", "dest")
    assert_refused(gatcluster("imagenet10", "imagenet", "dest"), "dest exists and is not empty")


def test_missing_synsets_are_named(imagenet, gatcluster):
    (imagenet / "train" / "n02128757" / "n02128757_1.JPEG").unlink()
    assert_refused(gatcluster("imagenet10", "imagenet", "dest"), "n02128757 (snow leopard)")
    assert not Path("dest").exists()
