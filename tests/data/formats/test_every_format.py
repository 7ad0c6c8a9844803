"""One command for all: fit, predict and evaluate on each format, and no label is read before evaluate."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gatcluster import cli
from gatcluster.evaluation import source_labels

N = 10
LABELS = [0] * 5 + [1] * 5
QUICK = ["--epochs", 1, "--size", 8]

pytestmark = pytest.mark.filterwarnings("ignore::gatcluster.errors.ConvergenceWarning")


def pictures(size: int = 32) -> np.ndarray:
    """(N, size, size, 3): the first half dark, the second light."""
    noise = np.random.default_rng(0).integers(0, 60, (N, size, size, 3))
    return (noise + 190 * np.array(LABELS)[:, None, None, None]).astype(np.uint8)


def photo_folder(folder: Path, write) -> str:
    for number, (picture, label) in enumerate(zip(pictures(), LABELS, strict=True)):
        path = folder / "photos" / f"class {label}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(path)
    return "photos"


def pattern(folder: Path, write) -> str:
    photo_folder(folder, write)
    return "photos/*/*.png"


def text_list(folder: Path, write) -> str:
    photo_folder(folder, write)
    (folder / "photos.txt").write_text("\n".join(map(str, sorted((folder / "photos").rglob("*.png")))))
    return "photos.txt"


def csv_of_paths(folder: Path, write) -> str:
    photo_folder(folder, write)
    rows = [f"photos/class {label}/{number}.png,{label}" for number, label in enumerate(LABELS)]
    (folder / "photos.csv").write_text("\n".join(["path,label", *rows]))
    return "photos.csv"


def cifar10(folder: Path, write) -> str:
    write.cifar_binary(folder / "cifar-10-batches-bin" / "data_batch_1.bin", pictures()[:8], LABELS[:8])
    write.cifar_binary(folder / "cifar-10-batches-bin" / "test_batch.bin", pictures()[8:], LABELS[8:])
    return "cifar-10-batches-bin"


def cifar10_python(folder: Path, write) -> str:
    write.cifar_python(folder / "cifar-10-batches-py" / "data_batch_1", pictures(), labels=LABELS)
    return "cifar-10-batches-py"


def cifar100(folder: Path, write) -> str:
    write.cifar_binary(folder / "cifar-100-binary" / "train.bin", pictures(), LABELS, list(range(N)))
    return "cifar-100-binary"


def stl10(folder: Path, write) -> str:
    write.stl(folder / "stl10_binary", "train", pictures(96)[:5], LABELS[:5])
    write.stl(folder / "stl10_binary", "test", pictures(96)[5:], LABELS[5:])
    return "stl10_binary"


def mnist(folder: Path, write) -> str:
    grey = np.ascontiguousarray(pictures(28)[..., 0])
    labels = np.array(LABELS, np.uint8)
    for name, part in [("train", slice(0, 6)), ("t10k", slice(6, N))]:
        write.idx(folder / "mnist" / f"{name}-images-idx3-ubyte.gz", grey[part])
        write.idx(folder / "mnist" / f"{name}-labels-idx1-ubyte.gz", labels[part])
    return "mnist"


def npz(folder: Path, write) -> str:
    np.savez(folder / "images.npz", images=pictures(), labels=LABELS)
    return "images.npz"


def parquet(folder: Path, write) -> str:
    cells = [{"bytes": write.png(picture), "path": None} for picture in pictures()]
    write.parquet(folder / "images.parquet", {"image": cells, "label": LABELS})
    return "images.parquet"


def huggingface(folder: Path, write) -> str:
    cells = [{"bytes": write.png(picture), "path": None} for picture in pictures()]
    write.saved_dataset(folder / "saved", {"image": cells, "label": LABELS})
    return "saved"


def webdataset(folder: Path, write) -> str:
    members = {}
    for number, (picture, label) in enumerate(zip(pictures(), LABELS, strict=True)):
        members |= {f"{number:04}.png": write.png(picture), f"{number:04}.cls": str(label).encode()}
    write.tar(folder / "shard-000000.tar", members)
    return "shard-000000.tar"


# What writes the source, the format that is recorded, and the number of its classes.
SOURCES: dict[str, tuple[Callable[..., str], str, int]] = {
    "photo folder": (photo_folder, "folder", 2),
    "pattern": (pattern, "glob", 2),
    "text list": (text_list, "list", 2),
    "CSV of paths": (csv_of_paths, "csv", 2),
    "CIFAR-10": (cifar10, "cifar10", 2),
    "CIFAR-10, python version": (cifar10_python, "cifar10", 2),
    "CIFAR-100": (cifar100, "cifar100", N),
    "STL-10": (stl10, "stl10", 2),
    "MNIST": (mnist, "idx", 2),
    "npz": (npz, "numpy", 2),
    "Parquet": (parquet, "parquet", 2),
    "Hugging Face": (huggingface, "huggingface", 2),
    "WebDataset": (webdataset, "webdataset", 2),
}


@pytest.fixture
def gatcluster(tmp_path, monkeypatch, capsys) -> Callable[..., dict]:
    """The command line, in a folder of its own; returns the JSON object that it prints."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> dict:
        monkeypatch.setattr(sys, "argv", ["gatcluster", *map(str, arguments), "--json"])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            cli.main()
        out, err = capsys.readouterr()
        assert not stop.value.code, err
        return json.loads(out)

    return call


def no_label(*_: object) -> None:
    raise AssertionError("labels were read")


@pytest.mark.parametrize("name", SOURCES)
def test_the_same_commands_work_on_every_format(name, tmp_path, write, gatcluster, monkeypatch):
    make, format_, n_classes = SOURCES[name]
    source = make(tmp_path, write)
    with monkeypatch.context() as blind:
        for carried in source_labels._CARRIED:
            blind.setitem(source_labels._CARRIED, carried, no_label)
        for module in [module for key, module in sys.modules.items() if key.startswith("gatcluster.data.formats.")]:
            for function in [function for function in vars(module) if function.endswith("_labels")]:
                blind.setattr(module, function, no_label)
        as_they_are = name in ("CIFAR-10", "MNIST")  # the others are made small, to be quick
        summary = gatcluster("fit", source, "-k", 2, "-o", "run", *(["--epochs", 1] if as_they_are else QUICK))
        gatcluster("predict", "run", source, "-o", "again.csv")
    assert summary["n_images"] == N
    assert json.loads(Path("run/config.json").read_text())["source_format"] == format_
    assert Path("again.csv").read_bytes() == Path("run/clusters.csv").read_bytes()
    for labels in ([], ["--labels", "source"]):
        metrics = gatcluster("evaluate", "run", *labels)
        assert (metrics["n_images"], metrics["n_labels"]) == (N, n_classes)


def test_labels_of_the_source_are_those_of_the_images(tmp_path, write, gatcluster):
    """Scores of a run whose clusters are replaced by the truth, in the order of the images."""
    gatcluster("fit", mnist(tmp_path, write), "-k", 2, "-o", "run", *QUICK)
    with Path("run/clusters.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [f"{row['path']},{label},1.0" for row, label in zip(rows, LABELS, strict=True)]
    Path("run/clusters.csv").write_text("\n".join(["path,cluster,confidence", *lines]) + "\n")
    assert gatcluster("evaluate", "run")["accuracy"] == 1


def test_the_coarse_classes_of_cifar_100_may_be_asked_for_afterwards(tmp_path, write, gatcluster):
    gatcluster("fit", cifar100(tmp_path, write), "-k", 2, "-o", "run", *QUICK)
    assert gatcluster("evaluate", "run", "--format", "cifar100-20")["n_labels"] == 2


def test_unlabelled_images_are_learned_from_and_not_scored(tmp_path, write, gatcluster):
    source = stl10(tmp_path, write)
    write.stl(tmp_path / source, "unlabeled", pictures(96)[:3])
    assert gatcluster("fit", source, "-k", 2, "-o", "plain", *QUICK)["n_images"] == N
    summary = gatcluster("fit", source, "-k", 2, "-o", "run", *QUICK, "--format", "stl10-unlabelled")
    assert summary["n_images"] == N + 3
    assert gatcluster("evaluate", "run")["n_images"] == N
    assert gatcluster("predict", "run", source)["n_images"] == N + 3  # its own source, as it was read then


def test_the_run_of_a_pattern_is_named_after_its_folder(tmp_path, write, gatcluster):
    assert gatcluster("fit", pattern(tmp_path, write), "-k", 2, *QUICK)["run"] == "photos-k2"
