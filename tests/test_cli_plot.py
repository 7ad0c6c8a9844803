"""`gatcluster plot`, by running it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from gatcluster import cli


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def gatcluster(monkeypatch, capsys, tmp_path) -> Callable[..., Outcome]:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["gatcluster", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return Outcome(int(ended.value.code or 0), *capsys.readouterr())

    return call


@pytest.fixture(scope="module")
def run(tmp_path_factory, untrained_run) -> Path:
    folder = tmp_path_factory.mktemp("cli-plot")
    (folder / "photos").mkdir()
    for number in range(12):
        Image.fromarray(np.full((8, 8), number * 20, np.uint8)).save(folder / "photos" / f"{number:02}.png")
    features = np.full((12, 4), 0.02, np.float32)  # the last cluster is empty
    features[range(12), [number % 3 for number in range(12)]] = 0.94
    return untrained_run(folder / "run", folder / "photos", 4, features=features)


@pytest.mark.parametrize("kind", ["map", "curves", "sizes", "grid", "attention"])
def test_every_kind_of_figure_of_a_run(kind, run, gatcluster, tmp_path):
    done = gatcluster("plot", run, kind, "--dpi", 60)
    assert done == (0, f"{kind} -> run-{kind}.png\n", "")
    with Image.open(tmp_path / f"run-{kind}.png") as picture:
        extremes = picture.convert("L").getextrema()
    assert extremes[0] < 120
    assert extremes[1] > 240  # something on white
    again = gatcluster("plot", run, kind)
    assert (again.code, again.err) == (2, f"error: run-{kind}.png exists: give another file with -o, or --overwrite\n")


@pytest.mark.parametrize(("name", "start"), [("m.svg", b"<?xml"), ("m.PDF", b"%PDF"), ("m.png", b"\x89PNG")])
def test_the_name_says_the_kind_of_file(name, start, run, gatcluster, tmp_path):
    done = gatcluster("plot", run, "map", "-o", name, "--json")
    assert json.loads(done.out) == {"output": name, "kind": "map", "bytes": (tmp_path / name).stat().st_size}
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize("kind", ["map", "curves", "sizes", "grid", "attention"])
def test_only_what_shows_images_needs_them(kind, run, gatcluster, tmp_path, untrained_run):
    shutil.copytree(run, tmp_path / "moved")
    config = json.loads((tmp_path / "moved" / "config.json").read_text())
    config["source"] = str(tmp_path / "gone")
    (tmp_path / "moved" / "config.json").write_text(json.dumps(config))
    done = gatcluster("plot", "moved", kind, "--dpi", 50)
    if kind in ("grid", "attention"):
        assert (done.code, done.err) == (2, f"error: no such file or folder: {tmp_path / 'gone'}\n")
    else:
        assert done.code == 0


def test_images_that_are_gone_are_passed_over(tmp_path, gatcluster, untrained_run):
    (tmp_path / "photos").mkdir()
    for number in range(4):
        Image.fromarray(np.full((8, 8), number * 60, np.uint8)).save(tmp_path / "photos" / f"{number}.png")
    run = untrained_run(tmp_path / "run", tmp_path / "photos", 2)
    (tmp_path / "photos" / "1.png").unlink()
    assert gatcluster("plot", run, "grid", "--dpi", 50).code == 0
    assert gatcluster("plot", run, "attention", "--dpi", 50).code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "map"], "nowhere is not a run folder"),
        (["RUN", "map", "-o", "x.jpg"], "cannot write x.jpg: a figure is a .png, .svg or .pdf file"),
        (["RUN", "map", "-o", "no/x.png"], "cannot write no/x.png: No such file or directory"),
        (["RUN", "pie"], "Invalid value for"),
        (["RUN", "grid", "--images", "0"], "Invalid value for '--images'"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, message, run, gatcluster, tmp_path):
    done = gatcluster("plot", *[run if argument == "RUN" else argument for argument in arguments])
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_help_imports_neither_matplotlib_nor_torch():
    code = "import sys, gatcluster.cli; assert not {'matplotlib', 'torch', 'numpy', 'PIL'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
