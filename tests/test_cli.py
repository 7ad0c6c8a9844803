"""The command line, by running it."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image

from gatcluster import cli
from gatcluster.config import PRESETS
from gatcluster.learning.history import Record

N = 20
RUN_FILES = {
    "config.json",
    "model.safetensors",
    "clusters.csv",
    "label_features.npy",
    "history.jsonl",
    "snapshots.npz",
    "clusters.png",
    "report",
}


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


def pixels(number: int) -> np.ndarray:
    """An RGB image of noise, 12x10; the second half is light."""
    noise = np.random.default_rng(number).integers(0, 60, size=(12, 10, 3))
    return (noise + (190 if number >= N // 2 else 0)).astype(np.uint8)


def write_photos(folder: Path, name: Callable[[int], str]) -> Path:
    for number in range(N):
        path = folder / name(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels(number)).save(path)
    return folder


def class_name(number: int) -> str:
    return f"{'dark' if number < N // 2 else 'light'}/{number:02}.png"


def in_a_process(*arguments: object, cwd: Path, **environment: str) -> Outcome:
    done = subprocess.run(
        [sys.executable, "-m", "gatcluster", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every path below a folder with its content: what an error must leave as it was."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, Outcome]:
    """A folder with photos/ (in class folders) and the run/ that a fit in a process of its own left of them."""
    folder = tmp_path_factory.mktemp("trained")
    write_photos(folder / "photos", class_name)
    return folder, in_a_process(
        "fit", "photos", "-k", 2, "-o", "run", "--epochs", 4, "--json", cwd=folder, PYTHONHASHSEED="1"
    )


@pytest.fixture
def desk(trained, tmp_path, monkeypatch) -> Path:
    """The current folder: photos, the run of a fit, and things that cannot be used."""
    desk = tmp_path / "desk"
    shutil.copytree(trained[0], desk)
    (desk / "empty").mkdir()
    (desk / "texts").mkdir()
    (desk / "texts" / "notes.txt").write_text("no image")
    (desk / "broken").mkdir()
    (desk / "broken" / "photo.png").write_bytes(b"no image")
    (desk / "mine").mkdir()
    (desk / "mine" / "thesis.tex").write_text("years of work")
    shutil.copytree(desk / "run", desk / "run-and-mine")
    (desk / "run-and-mine" / "thesis.tex").write_text("years of work")
    images = np.random.default_rng(0).random((N, 8, 8))
    np.save(desk / "images.npy", images)
    images[3, 2, 1] = np.nan
    np.save(desk / "nan.npy", images)
    images[3, 2, 1] = np.inf
    np.save(desk / "inf.npy", images)
    np.save(desk / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    (desk / "few.csv").write_text("path,label\ndark/00.png,dark\n")
    (desk / "headless.csv").write_text("dark/00.png,dark\n")
    (desk / "damaged").mkdir()
    (desk / "damaged" / "config.json").write_text("{")
    monkeypatch.chdir(desk)
    return desk


@pytest.fixture
def gatcluster(monkeypatch, capsys) -> Command:
    """The command line in this process: torch takes seconds to import."""

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["gatcluster", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return Outcome(int(stop.value.code or 0), *capsys.readouterr())

    return call


def the_object(outcome: Outcome) -> dict[str, object]:
    """The one JSON object that is all of standard output."""
    assert outcome.code == 0, outcome.err
    assert outcome.out.count("\n") == 1
    found = json.loads(outcome.out)
    assert isinstance(found, dict)
    return found


def assert_refused(outcome: Outcome, message: str, code: int = 2) -> None:
    """One line says what is wrong; before it there may only be progress."""
    assert outcome.code == code
    assert outcome.out == ""
    *progress, error = outcome.err.splitlines()
    assert error.startswith("error: ")
    assert message in error
    assert all(line.startswith("reading images") for line in progress)


# --- fit ---


def test_fit_leaves_exactly_the_files_of_a_run(trained):
    folder, outcome = trained
    assert outcome.code == 0, outcome.err
    assert {path.name for path in (folder / "run").iterdir()} == RUN_FILES
    assert {path.name for path in folder.iterdir()} == {"photos", "run"}


def test_clusters_csv_has_a_row_for_each_image_in_the_order_of_their_paths(trained):
    folder, _ = trained
    table = rows(folder / "run" / "clusters.csv")
    assert list(table[0]) == ["path", "cluster", "confidence"]
    assert [row["path"] for row in table] == [class_name(number) for number in range(N)]
    features = np.load(folder / "run" / "label_features.npy", allow_pickle=False)
    assert features.shape == (N, 2)
    assert [int(row["cluster"]) for row in table] == features.argmax(axis=1).tolist()
    assert np.allclose([float(row["confidence"]) for row in table], features.max(axis=1), atol=1e-6)


def test_history_is_json_lines_with_every_field(trained):
    folder, _ = trained
    lines = [json.loads(line) for line in (folder / "run" / "history.jsonl").read_text().splitlines()]
    assert lines
    assert all(set(line) == {field.name for field in fields(Record)} for line in lines)
    assert [line["iteration"] for line in lines] == list(range(1, len(lines) + 1))
    assert 0 < sum(lines[-1]["cluster_sizes"]) <= N  # of the images seen so far
    assert all(np.isfinite(list(line["losses"].values())).all() for line in lines)


def test_config_holds_settings_seed_and_versions(trained):
    folder, _ = trained
    config = json.loads((folder / "run" / "config.json").read_text())
    assert config["source"] == str((folder / "photos").resolve())
    assert config["n_images"] == N
    assert config["settings"]["seed"] == 0
    assert config["settings"]["n_clusters"] == 2
    assert config["settings"]["training"]["epochs"] == 4
    assert config["settings"]["images"]["size"] == [12, 10]
    assert {"python", "gatcluster", "torch", "numpy", "scikit-learn"} <= set(config["versions"])
    assert config["threads"] >= 1


def test_the_picture_of_the_clusters_is_a_png(trained):
    folder, _ = trained
    with Image.open(folder / "run" / "clusters.png") as picture:
        assert picture.format == "PNG"


def test_fit_json_is_one_object_and_progress_goes_to_standard_error(trained):
    summary = the_object(trained[1])
    assert summary["run"] == "run"
    assert summary["n_images"] == N
    assert sum(summary["cluster_sizes"]) == N
    assert summary["epochs"] == 4
    assert summary["seed"] == 0
    assert "reading images" in trained[1].err


def test_the_same_seed_gives_the_same_bytes_in_another_process(trained, tmp_path):
    folder, _ = trained
    photos = folder / "photos"
    outcome = in_a_process("fit", photos, "-k", 2, "-o", "again", "--epochs", 4, cwd=tmp_path, PYTHONHASHSEED="2")
    assert outcome.code == 0, outcome.err
    for name in ("clusters.csv", "label_features.npy", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / "run" / name).read_bytes()


def test_another_seed_gives_another_run(desk, gatcluster):
    assert gatcluster("fit", "photos", "-k", 2, "-o", "other", "--epochs", 4, "--seed", 1).code == 0
    assert (desk / "other" / "clusters.csv").read_bytes() != (desk / "run" / "clusters.csv").read_bytes()


def test_class_folders_do_not_influence_the_clusters(desk, gatcluster):
    write_photos(desk / "flat", lambda number: f"{number:02}.png")
    write_photos(desk / "other-classes", lambda number: f"{number // 3:02}/{number:02}.png")
    found = []
    for source in ("photos", "flat", "other-classes"):
        assert gatcluster("fit", source, "-k", 3, "-o", f"{source}-run", "--epochs", 1).code == 0
        found.append([(row["cluster"], row["confidence"]) for row in rows(desk / f"{source}-run" / "clusters.csv")])
    assert found[0] == found[1] == found[2]


def test_fit_prints_the_clusters_with_their_sizes_and_what_to_do_next(desk, gatcluster):
    outcome = gatcluster("fit", "photos", "-k", 2, "-o", "out", "--epochs", 1)
    assert outcome.code == 0
    assert f"2 clusters of {N} images" in outcome.out
    assert "out/clusters.csv" in outcome.out
    assert "gatcluster predict out FOLDER" in outcome.out
    sizes = [int(line.split()[-2]) for line in outcome.out.splitlines() if line.strip().startswith(("0 ", "1 "))]
    assert sum(sizes) == N


def test_without_an_output_the_run_is_named_after_the_source_and_never_over_another(desk, gatcluster):
    for expected in ("images-k3", "images-k3-2", "images-k3-3"):
        assert the_object(gatcluster("fit", "images.npy", "-k", 3, "--epochs", 1, "--json"))["run"] == expected
        assert {path.name for path in (desk / expected).iterdir()} == RUN_FILES


@pytest.mark.parametrize(("size", "expected"), [("16", [16, 16]), ("16x24", [16, 24]), ("24X16", [24, 16])])
def test_size_is_height_by_width(desk, gatcluster, size, expected):
    assert gatcluster("fit", "photos", "-k", 2, "-o", "out", "--epochs", 1, "--size", size).code == 0
    assert json.loads((desk / "out" / "config.json").read_text())["settings"]["images"]["size"] == expected


@pytest.mark.parametrize("minutes", ["0.001", "1e-9"])
def test_a_tiny_time_budget_still_ends_in_a_whole_run(desk, gatcluster, minutes):
    outcome = gatcluster("fit", "photos", "-k", 2, "-o", "out", "--minutes", minutes, "--json")
    assert sum(the_object(outcome)["cluster_sizes"]) == N
    assert {path.name for path in (desk / "out").iterdir()} == RUN_FILES
    assert gatcluster("info", "out").code == 0


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        (["--recipe", "paper"], ("recipe",), "paper"),
        (["--preset", "cifar10", "--size", "16"], ("network", "preset"), "cifar10"),
        (["--colour", "grey"], ("images", "grey"), True),
        (["--colour", "colour", "--recipe", "paper"], ("images", "grey"), False),
        (["--precision", "32-true"], ("precision",), "32-true"),
        (["--precision", "bf16-mixed"], ("precision",), "bf16-mixed"),
        (["--learning-rate", "0.005"], ("training", "learning_rate"), 0.005),
        (["--augment", "none"], ("images", "augment"), "none"),
        (["--resize", "squash"], ("images", "resize"), "squash"),
        (["--batch-size", "10"], ("training", "batch_size"), 10),
        (["--patience", "3"], ("training", "patience"), 3),
        (["--device", "cpu"], ("device",), "cpu"),
    ],
)
def test_every_option_reaches_the_settings(desk, gatcluster, options, field, value):
    assert gatcluster("fit", "photos", "-k", 2, "-o", "out", "--epochs", 1, *options).code == 0
    found = json.loads((desk / "out" / "config.json").read_text())["settings"]
    for part in field:
        found = found[part]
    assert found == value


def test_unreadable_files_are_skipped_with_a_warning_and_listed(desk, gatcluster):
    (desk / "photos" / "broken.png").write_bytes(b"no image")
    outcome = gatcluster("fit", "photos", "-k", 2, "-o", "out", "--epochs", 1, "--json")
    assert the_object(outcome)["skipped"] == 1
    assert "warning: 1 files could not be read" in outcome.err
    assert [row["path"] for row in rows(desk / "out" / "skipped.csv")] == ["broken.png"]
    assert len(rows(desk / "out" / "clusters.csv")) == N


def test_empty_clusters_are_a_warning_on_standard_error_and_in_the_json(desk, gatcluster):
    np.save("alike.npy", np.full((N, 8, 8), 0.5))
    outcome = gatcluster("fit", "alike.npy", "-k", 3, "-o", "out", "--epochs", 1, "--json")
    assert "only 1 of the 3 clusters" in the_object(outcome)["warnings"][0]
    assert "warning: only 1 of the 3 clusters" in outcome.err


def test_an_empty_output_folder_is_used(desk, gatcluster):
    assert gatcluster("fit", "photos", "-k", 2, "-o", "empty", "--epochs", 1).code == 0
    assert {path.name for path in (desk / "empty").iterdir()} == RUN_FILES


def test_overwrite_replaces_a_run_and_all_that_belonged_to_it(desk, gatcluster):
    assert gatcluster("evaluate", "run").code == 0
    assert gatcluster("fit", "photos", "-k", 3, "-o", "run", "--epochs", 1, "--overwrite").code == 0
    assert {path.name for path in (desk / "run").iterdir()} == RUN_FILES
    assert json.loads((desk / "run" / "config.json").read_text())["settings"]["n_clusters"] == 3


# --- predict ---


def test_predict_on_the_training_images_gives_the_clusters_of_fit_byte_for_byte(trained, tmp_path):
    folder, _ = trained
    outcome = in_a_process("predict", folder / "run", folder / "photos", cwd=tmp_path)
    assert outcome.code == 0, outcome.err
    assert f"{N} images labelled -> clusters.csv" in outcome.out
    assert (tmp_path / "clusters.csv").read_bytes() == (folder / "run" / "clusters.csv").read_bytes()


def test_predict_labels_new_images_and_counts_them(desk, gatcluster):
    shutil.copytree("photos/light", "new")
    outcome = gatcluster("predict", "run", "new", "-o", "new.csv", "--json")
    assert the_object(outcome) == {
        "output": "new.csv",
        "n_images": N // 2,
        "cluster_sizes": [sum(row["cluster"] == str(cluster) for row in rows(Path("new.csv"))) for cluster in (0, 1)],
        "skipped": 0,
    }
    assert [row["path"] for row in rows(Path("new.csv"))] == [f"{number}.png" for number in range(N // 2, N)]


def test_predict_may_write_to_standard_output(desk, gatcluster):
    before = tree(desk)
    outcome = gatcluster("predict", "run", "photos", "-o", "-")
    assert outcome.code == 0
    assert outcome.out.startswith("path,cluster,confidence\n")
    assert outcome.out.count("\n") == N + 1
    assert tree(desk) == before


def test_predict_replaces_a_file_only_when_asked(desk, gatcluster):
    Path("clusters.csv").write_text("mine")
    assert_refused(gatcluster("predict", "run", "photos"), "clusters.csv exists")
    assert Path("clusters.csv").read_text() == "mine"
    assert gatcluster("predict", "run", "photos", "--overwrite").code == 0
    assert len(rows(Path("clusters.csv"))) == N


# --- evaluate ---


def test_evaluate_reads_class_folders_and_writes_the_scores(desk, gatcluster):
    scores = the_object(gatcluster("evaluate", "run", "--labels", "folders", "--json"))
    assert set(scores) == {"accuracy", "nmi_geometric", "ari", "n_images", "n_clusters_used", "n_labels"}
    assert scores["n_images"] == N
    assert scores["n_labels"] == 2
    assert json.loads((desk / "run" / "metrics.json").read_text()) == scores


def test_evaluate_names_the_averaging_of_nmi(desk, gatcluster):
    outcome = gatcluster("evaluate", "run")
    assert outcome.code == 0
    assert "NMI (geometric)" in outcome.out
    assert "ACC" in outcome.out
    assert "ARI" in outcome.out


@pytest.mark.parametrize("prefix", ["", "photos/"])
def test_evaluate_takes_labels_from_a_csv_file_in_any_order(desk, gatcluster, prefix):
    found = rows(desk / "run" / "clusters.csv")
    where = f"{(desk / 'photos').resolve()}/" if prefix else ""
    config = json.loads((desk / "run" / "config.json").read_text())
    (desk / "run" / "config.json").write_text(json.dumps({**config, "source": str((desk / "photos").resolve())}))
    lines = [f"{where}{row['path']},c{row['cluster']},extra\n" for row in reversed(found)]
    Path("labels.csv").write_text("path,label,note\n" + "".join(lines) + "unknown.png,c9,other\n")
    scores = the_object(gatcluster("evaluate", "run", "--labels", "labels.csv", "--json"))
    assert scores["accuracy"] == 1  # the labels are the clusters
    assert scores["ari"] == 1


# --- demo and info ---


def test_demo_prints_sizes_and_scores_beside_k_means(tmp_path, gatcluster, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = gatcluster("demo", "--epochs", 1)
    assert outcome.code == 0
    assert "10 clusters of 1,797 images" in outcome.out
    assert "NMI (geometric)" in outcome.out
    assert "k-means on pixels" in outcome.out
    assert {path.name for path in Path("demo-run").iterdir()} >= {*RUN_FILES, "metrics.json"}


def test_demo_json_is_one_object(tmp_path, gatcluster):
    found = the_object(gatcluster("demo", "-o", tmp_path / "run", "--minutes", "0.001", "--json"))
    assert sum(found["cluster_sizes"]) == 1797
    assert set(found["scores"]) == {"gatcluster", "k-means on pixels"}


def test_info_names_versions_devices_and_every_preset(gatcluster):
    found = the_object(gatcluster("info", "--json"))
    assert set(found) == {"versions", "devices", "presets"}
    assert set(found["presets"]) == set(PRESETS)
    text = gatcluster("info").out
    assert all(name in text for name in [*PRESETS, "torch", "cuda"])


def test_info_of_a_run_tells_settings_results_and_scores(desk, gatcluster):
    found = the_object(gatcluster("info", "run", "--json"))
    assert found["settings"]["n_clusters"] == 2
    assert found["results"]["images"] == N
    assert sum(found["results"]["cluster sizes"]) == N
    assert "metrics" not in found
    assert gatcluster("evaluate", "run").code == 0
    assert the_object(gatcluster("info", "run", "--json"))["metrics"]["n_images"] == N
    assert "nmi_geometric" in gatcluster("info", "run").out


@pytest.mark.parametrize("name", ["[bold] run", "a[/b]", "run :cat:"])
def test_names_that_look_like_markup_are_printed_as_they_are(desk, gatcluster, name):
    shutil.copytree("run", name.replace("/", "_"))
    outcome = gatcluster("info", name.replace("/", "_"))
    assert outcome.code == 0
    assert name.replace("/", "_") in outcome.out
    assert f"nowhere {name}" in gatcluster("info", f"nowhere {name}").err


def test_help_and_no_arguments_show_the_commands(gatcluster):
    for outcome in (gatcluster("--help"), gatcluster()):
        assert all(command in outcome.out + outcome.err for command in ("fit", "predict", "evaluate", "demo", "info"))
        assert "Traceback" not in outcome.err


def test_the_console_script_runs():
    script = Path(sys.executable).parent / "gatcluster"
    done = subprocess.run([script, "fit", "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "--clusters" in done.stdout


# --- bad input: exit code 2, one line, and every file as it was ---

FIT = ["--epochs", "1", "-o", "out"]
REFUSED = {
    "k of 1": (["fit", "photos", "-k", "1", *FIT], "k is 1: at least 2 clusters are needed"),
    "negative k": (["fit", "photos", "-k", "-2", *FIT], "at least 2"),
    "k above N": (["fit", "photos", "-k", "21", *FIT], "k is 21, but there are only 20 images"),
    "k is no number": (["fit", "photos", "-k", "many", *FIT], "-k"),
    "no k": (["fit", "photos", *FIT], "-k"),
    "folder without images": (["fit", "texts", "-k", "2", *FIT], "no images in texts"),
    "empty folder": (["fit", "empty", "-k", "2", *FIT], "no images in empty"),
    "only broken images": (["fit", "broken", "-k", "2", *FIT], "none of the 1 images could be read"),
    "missing source": (["fit", "nowhere", "-k", "2", *FIT], "no such file or folder: nowhere"),
    "source of another kind": (["fit", "run/model.safetensors", "-k", "2", *FIT], "cannot read run/model.safetensors"),
    "table without paths": (["fit", "headless.csv", "-k", "2", *FIT], "headless.csv has no column of image paths"),
    "listed files are elsewhere": (["fit", "few.csv", "-k", "2", *FIT], "dark/00.png: "),
    "unknown format": (["fit", "photos", "-k", "2", "--format", "zip", *FIT], "'cifar100-20', 'stl10'"),
    "format of a file for a folder": (["fit", "photos", "-k", "2", "--format", "csv", *FIT], "photos is a folder"),
    "pattern without matches": (["fit", "photos/*.bmp", "-k", "2", *FIT], "nothing matches"),
    "evaluate, no labels in the source": (["evaluate", "run", "--labels", "source", "--format", "cifar10"], "photos"),
    "unknown preset": (["fit", "photos", "-k", "2", "--preset", "vgg", *FIT], "unknown preset 'vgg'"),
    "too small for the preset": (
        ["fit", "photos", "-k", "2", "--preset", "cifar10", "--size", "12", *FIT],
        "12x12 pixels are too small for preset 'cifar10': each side must be at least 16",
    ),
    "size below 8": (["fit", "photos", "-k", "2", "--size", "7", *FIT], "at least 8"),
    "size is no size": (["fit", "photos", "-k", "2", "--size", "big", *FIT], "cannot read size 'big'"),
    "size of three": (["fit", "photos", "-k", "2", "--size", "8x8x3", *FIT], "cannot read size '8x8x3'"),
    "NaN": (["fit", "nan.npy", "-k", "2", *FIT], "NaN or infinity"),
    "infinity": (["fit", "inf.npy", "-k", "2", *FIT], "NaN or infinity"),
    "pickled array": (["fit", "objects.npy", "-k", "2", *FIT], "cannot read objects.npy"),
    "output not empty": (["fit", "photos", "-k", "2", "-o", "run", "--epochs", "1"], "run exists and is not empty"),
    "output with other things": (["fit", "photos", "-k", "2", "-o", "mine", "--epochs", "1"], "--overwrite"),
    "overwrite of other things": (
        ["fit", "photos", "-k", "2", "-o", "mine", "--epochs", "1", "--overwrite"],
        "mine holds thesis.tex",
    ),
    "overwrite of a run with other things": (
        ["fit", "photos", "-k", "2", "-o", "run-and-mine", "--epochs", "1", "--overwrite"],
        "run-and-mine holds thesis.tex",
    ),
    "output below a file": (
        ["fit", "photos", "-k", "2", "-o", "few.csv/run", "--epochs", "1"],
        "cannot write to few.csv/run",
    ),
    "output is a file": (["fit", "photos", "-k", "2", "-o", "few.csv", "--epochs", "1"], "cannot write to few.csv"),
    "unknown option": (["fit", "photos", "-k", "2", "--speed", "9", *FIT], "--speed"),
    "unknown recipe": (["fit", "photos", "-k", "2", "--recipe", "slow", *FIT], "slow"),
    "unknown command": (["cluster", "photos"], "cluster"),
    "epochs with minutes": (["fit", "photos", "-k", "2", "--minutes", "1", *FIT], "epochs and minutes exclude"),
    "no epochs": (["fit", "photos", "-k", "2", "--epochs", "0", "-o", "out"], "epochs is 0"),
    "no minutes": (["fit", "photos", "-k", "2", "--minutes", "0", "-o", "out"], "minutes is 0"),
    "minutes not a number": (["fit", "photos", "-k", "2", "--minutes", "nan", "-o", "out"], "minutes is nan"),
    "negative seed": (["fit", "photos", "-k", "2", "--seed", "-1", *FIT], "seed"),
    "no CUDA": (["fit", "photos", "-k", "2", "--device", "cuda", *FIT], "no CUDA device"),
    "batch of none": (["fit", "photos", "-k", "2", "--batch-size", "0", *FIT], "batch_size"),
    # an earlier run outlives what cannot be used
    "overwrite, missing source": (["fit", "nowhere", "-k", "2", "-o", "run", "--overwrite"], "no such file"),
    "overwrite, NaN": (["fit", "nan.npy", "-k", "2", "-o", "run", "--overwrite"], "NaN"),
    "overwrite, k above N": (["fit", "photos", "-k", "99", "-o", "run", "--overwrite"], "k is 99"),
    "overwrite, too small": (
        ["fit", "photos", "-k", "2", "-o", "run", "--overwrite", "--preset", "stl10", "--size", "32"],
        "at least 50",
    ),
    "overwrite, no CUDA": (["fit", "photos", "-k", "2", "-o", "run", "--overwrite", "--device", "cuda"], "no CUDA"),
    "overwrite, demo, no epochs": (["demo", "-o", "run", "--overwrite", "--epochs", "0"], "epochs is 0"),
    "overwrite, demo, bad seed": (["demo", "-o", "run", "--overwrite", "--epochs", "1", "--seed", "-1"], "seed"),
    "predict, no such run": (["predict", "nowhere", "photos"], "nowhere is not a run folder"),
    "predict, not a run": (["predict", "mine", "photos"], "mine is not a run folder: it has no config.json"),
    "predict, a file": (["predict", "few.csv", "photos"], "few.csv is not a run folder"),
    "predict, damaged run": (["predict", "damaged", "photos"], "config.json is damaged"),
    "predict, missing source": (["predict", "run", "nowhere"], "no such file or folder: nowhere"),
    "predict, no images": (["predict", "run", "empty"], "no images in empty"),
    "predict, NaN": (["predict", "run", "nan.npy"], "NaN or infinity"),
    "predict, other channels": (["predict", "run", "images.npy"], "1 channels, but the model was trained on 3"),
    "predict, output below a file": (["predict", "run", "photos", "-o", "few.csv/out.csv"], "cannot write"),
    "predict, output in no folder": (["predict", "run", "photos", "-o", "nowhere/out.csv"], "cannot write"),
    "predict, two things on one output": (["predict", "run", "photos", "-o", "-", "--json"], "standard output"),
    "evaluate, not a run": (["evaluate", "mine"], "mine is not a run folder"),
    "evaluate, missing labels": (["evaluate", "run", "--labels", "nowhere.csv"], "no such label file: nowhere.csv"),
    "evaluate, labels of other images": (
        ["evaluate", "run", "--labels", "few.csv"],
        "few.csv does not match the run: no label for 19 of 20 images",
    ),
    "evaluate, labels without a header": (["evaluate", "run", "--labels", "headless.csv"], "no column 'label'"),
    "demo, output not empty": (["demo", "-o", "mine", "--epochs", "1"], "mine exists and is not empty"),
    "demo, epochs with minutes": (["demo", "-o", "out", "--epochs", "1", "--minutes", "1"], "exclude"),
    "info, not a run": (["info", "mine"], "mine is not a run folder"),
    "info, no such run": (["info", "nowhere"], "nowhere is not a run folder"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_one_line_with_exit_code_2_and_changes_no_file(desk, gatcluster, monkeypatch, case):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    arguments, message = REFUSED[case]
    before = tree(desk)
    assert_refused(gatcluster(*arguments), message)
    assert tree(desk) == before


def test_an_unknown_preset_is_answered_with_the_known_ones(desk, gatcluster):
    error = gatcluster("fit", "photos", "-k", 2, "--preset", "vgg").err
    assert all(name in error for name in PRESETS)


def test_flat_folders_have_no_labels_to_evaluate(desk, gatcluster):
    assert gatcluster("fit", "photos/dark", "-k", 2, "-o", "out", "--epochs", 1).code == 0
    assert_refused(gatcluster("evaluate", "out"), "lies in no class folder")
    assert not Path("out/metrics.json").exists()


def test_bad_input_in_a_process_of_its_own_shows_no_traceback(tmp_path):
    (tmp_path / "file").touch()
    outcome = in_a_process("fit", "nowhere", "-k", 2, "-o", "file/run", cwd=tmp_path)
    assert_refused(outcome, "cannot write to file/run")
    assert set(tree(tmp_path)) == {"file"}


def test_a_failure_while_the_result_is_written_keeps_the_training_and_says_so(desk, gatcluster, monkeypatch):
    def disk_full(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("gatcluster.workflow.contact_sheet", disk_full)
        outcome = gatcluster("fit", "photos", "-k", 2, "-o", "new/out", "--epochs", 1)
    assert outcome.code == 2
    said = outcome.err.splitlines()[-1]
    assert said.startswith("error: cannot write to new/out: No space left on device; `gatcluster fit --resume new/out`")
    assert gatcluster("fit", "--resume", "new/out").code == 0
    assert set(tree(desk / "new" / "out")) >= RUN_FILES
    assert not {"resume.json", "checkpoints"} & set(tree(desk / "new" / "out"))


# --- Ctrl-C ---


def test_an_interruption_while_images_are_read_ends_with_130_and_leaves_nothing(desk, gatcluster, monkeypatch):
    def interrupted(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("gatcluster.resume.prepare", interrupted)
    before = tree(desk)
    assert_refused(gatcluster("fit", "photos", "-k", 2, "-o", "out"), "interrupted", code=130)
    assert tree(desk) == before


def test_control_c_during_training_ends_with_130_without_a_traceback(trained, tmp_path):
    fit = ["fit", trained[0] / "photos", "-k", "2", "-o", "out", "--epochs", "1000000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "gatcluster", *fit],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        history = tmp_path / "out" / "history.jsonl"
        while process.poll() is None and not (history.exists() and history.read_text()):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 130
    assert out == ""
    assert err.splitlines()[-1] == "error: interrupted: `gatcluster fit --resume out` goes on from here"
    assert "Traceback" not in err
    assert {"out/resume.json", "out/checkpoints", "out/history.jsonl"} <= set(tree(tmp_path))
