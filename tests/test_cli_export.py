"""`gatcluster export`, by running it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from gatcluster import cli


class Outcome(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def gatcluster(monkeypatch, capsys, tmp_path) -> Callable[..., Outcome]:
    """Runs the command line in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["gatcluster", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return Outcome(int(ended.value.code or 0), *capsys.readouterr())

    return call


@pytest.fixture(scope="module")
def run(tmp_path_factory, untrained_run) -> Path:
    folder = tmp_path_factory.mktemp("cli-export")
    (folder / "photos").mkdir()
    for number in range(12):
        Image.fromarray(np.full((8, 8), number * 20, np.uint8)).save(folder / "photos" / f"{number:02}.png")
    features = np.full((12, 3), 0.05, np.float32)
    features[range(12), [number % 3 for number in range(12)]] = 0.9
    features[11] = (0.3, 0.3, 0.4)
    return untrained_run(folder / "run", folder / "photos", 3, features=features)


def test_a_person_names_merges_and_sorts_out_and_gets_folders(run, tmp_path, gatcluster):
    (tmp_path / "c.json").write_text(
        json.dumps(
            {
                "format": "gatcluster-curation",
                "version": 1,
                "names": {"0": "[red]cats"},
                "merge": [[1, 2]],
                "wrong": ["03.png"],
            }
        )
    )
    done = gatcluster("export", run, "--to", "folders", "--curation", "c.json", "--min-confidence", 0.5)
    assert done.returncode == 0, done.stderr
    assert "10 images -> run-folders" in done.stdout
    assert "[red]cats" in done.stdout  # a name is no markup
    assert "left out: 1 below the confidence asked for, 1 marked wrong" in done.stdout
    made = sorted(path.relative_to(tmp_path).as_posix() for path in (tmp_path / "run-folders").rglob("*.png"))
    assert made == [
        *[f"run-folders/[red]cats/{number:02}.png" for number in (0, 6, 9)],
        *[f"run-folders/cluster-1/{number:02}.png" for number in (1, 2, 4, 5, 7, 8, 10)],
    ]
    again = gatcluster("export", run, "--to", "folders")
    assert again.returncode == 2
    assert (
        again.stderr
        == "error: run-folders exists, and an export overwrites nothing: give another destination with -o\n"
    )


@pytest.mark.parametrize("kind", ["csv", "parquet", "zip", "links"])
def test_json_says_what_was_done(kind, run, tmp_path, gatcluster):
    done = gatcluster("export", run, "--to", kind, "-o", "there", "--json")
    said = json.loads(done.stdout)
    assert (said["destination"], said["kind"], said["n_images"]) == ("there", kind, 12)
    assert [group["n_images"] for group in said["groups"]] == [4, 4, 4]
    assert (tmp_path / "there").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "--to", "csv"], "nowhere is not a run folder"),
        (["RUN", "--to", "csv", "--curation", "none.json"], "cannot read none.json"),
        (["RUN", "--to", "tar"], "Invalid value for '--to'"),
        (["RUN", "--to", "csv", "--min-confidence", "2"], "Invalid value for '--min-confidence'"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, message, run, tmp_path, gatcluster):
    done = gatcluster("export", *[run if argument == "RUN" else argument for argument in arguments])
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_without_pyarrow_the_pip_line_is_named(run, tmp_path, gatcluster, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = gatcluster("export", run, "--to", "parquet")
    assert done.returncode == 2
    assert 'pip install "gatcluster[parquet]"' in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_killed_export_leaves_nothing_of_its_name(tmp_path, untrained_run, gatcluster):
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / "one.png")
    content = (tmp_path / "one.png").read_bytes()
    (tmp_path / "photos").mkdir()
    for number in range(1000):
        (tmp_path / "photos" / f"{number:04}.png").write_bytes(content)
    run = untrained_run(tmp_path / "run", tmp_path / "photos", 2)
    process = subprocess.Popen(
        [sys.executable, "-m", "gatcluster", "export", str(run), "--to", "folders", "-o", "out"], cwd=tmp_path
    )
    while process.poll() is None and not list(tmp_path.glob(".gatcluster-export-*.tmp/*")):
        time.sleep(0.001)
    process.kill()
    process.wait()
    if (tmp_path / "out").exists():  # it was quicker than the kill
        assert len(list((tmp_path / "out").rglob("*.png"))) == 1000
    else:  # what is left does not stand in the way
        assert gatcluster("export", run, "--to", "folders", "-o", "out").returncode == 0
