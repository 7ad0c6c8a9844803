"""A disk that is full, wherever it strikes: one line says so, what was there stays, nothing half-written is left.

The limit on the size of files stands in for the disk: writing beyond it fails as on a full one.
"""

from __future__ import annotations

import re
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gatcluster import GATCluster, cli
from gatcluster.errors import InputError, Interrupted
from gatcluster.report.progress import PlainProgress
from gatcluster.runs import folder
from gatcluster.runs.folder import load_run
from gatcluster.runs.interruption import Interruption
from gatcluster.workflow import Summary, evaluate_run, fit_to_run, report_run, resume_run

N = 24
pytestmark = pytest.mark.filterwarnings("ignore::gatcluster.errors.ConvergenceWarning")


@contextmanager
def files_of_at_most(n_bytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("full") / "photos"
    random = np.random.default_rng(0)
    for number in range(N):
        path = folder / f"class-{number % 2}" / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (12, 12)).astype(np.uint8)).save(path)
    return folder


def fit_photos(photos: Path, run: Path, interruption: Interruption | None = None, **choices: object) -> Summary:
    choices = {"n_clusters": 2, "seed": 0, "epochs": 2, "recipe": "paper", "batch_size": 12, **choices}
    return fit_to_run(photos, run, False, PlainProgress(), with_report=False, interruption=interruption, **choices)


@pytest.fixture(scope="module")
def whole(photos, tmp_path_factory) -> Path:
    """A whole run with a report; tests copy it."""
    run = tmp_path_factory.mktemp("whole") / "run"
    fit_photos(photos, run)
    report_run(run, PlainProgress())
    return run


class _Stopping(Interruption):
    """Wants the training to end after its first step."""

    @property
    def is_wanted(self) -> bool:
        return True

    def obey(self) -> None:
        raise Interrupted(15)


def test_a_checkpoint(photos, whole, tmp_path):
    run = tmp_path / "run"
    with pytest.raises(Interrupted):
        fit_photos(photos, run, _Stopping())
    before = tree(run / "checkpoints")
    assert len(before) == 1
    with files_of_at_most(100_000), pytest.raises(InputError, match=r"cannot write a checkpoint to .*File too large"):
        resume_run(run, PlainProgress(), checkpoint_minutes=0)
    assert tree(run / "checkpoints") == before
    resume_run(run, PlainProgress())
    for name in ("clusters.csv", "model.safetensors"):
        assert (run / name).read_bytes() == (whole / name).read_bytes()


def test_the_first_checkpoint(photos, tmp_path):
    with files_of_at_most(100_000), pytest.raises(InputError, match=r"cannot write a checkpoint to .*File too large"):
        fit_photos(photos, tmp_path / "run")
    assert tree(tmp_path) == {}  # nothing to go on from, nothing left behind


def test_the_plan_of_a_run(photos, tmp_path):
    with files_of_at_most(100), pytest.raises(InputError, match=r"cannot write to .*run: File too large"):
        fit_photos(photos, tmp_path / "run")
    assert tree(tmp_path) == {}


def test_the_cache(photos, tmp_path, cache_folder):
    with files_of_at_most(3000), pytest.raises(InputError, match=r"cannot keep decoded images in .*File too large"):
        fit_photos(photos, tmp_path / "run")
    assert tree(tmp_path) == {}
    fit_photos(photos, tmp_path / "run")  # what is left of the cache is not taken for whole
    assert (tmp_path / "run" / "config.json").is_file()


def test_the_history(photos, whole, tmp_path):
    run = tmp_path / "run"
    with pytest.raises(Interrupted):
        fit_photos(photos, run, _Stopping())
    (run / "history.jsonl").unlink()
    (run / "history.jsonl").mkdir()  # cannot be written to, either
    with pytest.raises(InputError, match=r"cannot write to .*history\.jsonl"):
        resume_run(run, PlainProgress())
    (run / "history.jsonl").rmdir()
    resume_run(run, PlainProgress())
    assert (run / "clusters.csv").read_bytes() == (whole / "clusters.csv").read_bytes()


@pytest.fixture
def gatcluster(monkeypatch, capsys) -> Callable[..., tuple[int, list[str]]]:
    """Runs the command line; gives its exit code, and what it says on standard error but for its progress."""

    def run(*arguments: object) -> tuple[int, list[str]]:
        monkeypatch.setattr(sys, "argv", ["gatcluster", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        lines = capsys.readouterr().err.splitlines()
        return stop.value.code, [
            line for line in lines if not re.match(r"reading images|warning: |.*% +\w+, epoch ", line)
        ]

    return run


@pytest.mark.parametrize(("writer", "name"), [("write_model", "model.safetensors"), ("write_csv", "clusters.csv")])
def test_the_result(photos, whole, tmp_path, monkeypatch, gatcluster, writer, name):
    run, before = tmp_path / "run", {}
    write = getattr(folder, writer)

    def write_to_a_full_disk(path: Path, *content: object) -> None:
        assert path.name == name
        before.update(tree(run / "checkpoints"))  # larger than the result: with less room they would have failed
        with files_of_at_most(100):
            write(path, *content)

    choices = ("--epochs", 2, "--recipe", "paper", "--batch-size", 12, "--no-report")
    with monkeypatch.context() as patch:
        patch.setattr(folder, writer, write_to_a_full_disk)
        failure = f"error: cannot write to {run}: File too large"
        first = gatcluster("fit", photos, "-k", 2, "-o", run, *choices)
        assert first == (2, [f"{failure}; `gatcluster fit --resume {run}` goes on with the run"])
        for _ in range(2):  # when the run is made, and when it is gone on with and the disk is still full
            assert before
            assert tree(run / "checkpoints") == before
            assert not {name, "config.json"} & set(tree(run))
            assert not [path for path in tree(run) if path.endswith(".tmp")]
            with pytest.raises(InputError, match="is not finished"):
                load_run(run).config()
            before.clear()
            assert gatcluster("fit", "--resume", run) == (2, [failure])
    assert tree(run / "checkpoints") == before
    assert gatcluster("fit", "--resume", run) == (0, [])
    assert set(tree(run)) == {path for path in tree(whole) if not path.startswith("report")}
    for file in ("clusters.csv", "model.safetensors", "label_features.npy"):
        assert (run / file).read_bytes() == (whole / file).read_bytes()


def test_the_report(whole, tmp_path):
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    before = tree(run)
    with files_of_at_most(2000), pytest.raises(InputError, match=r"cannot write to .*run: File too large"):
        report_run(run, PlainProgress())
    assert tree(run) == before


def test_the_scores(whole, tmp_path):
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    before = tree(run)
    with files_of_at_most(20), pytest.raises(InputError, match=r"cannot write to .*metrics\.json: File too large"):
        evaluate_run(run, "folders")
    assert tree(run) == before


def test_a_saved_estimator(whole, tmp_path):
    model = GATCluster.load(whole)
    with files_of_at_most(2000), pytest.raises(InputError, match=r"cannot write to .*saved: File too large"):
        model.save(tmp_path / "saved")
    assert tree(tmp_path) == {}


def test_a_prediction(whole, photos, tmp_path, monkeypatch, capsys):
    def predict(output: Path) -> int:
        monkeypatch.setattr(
            sys, "argv", ["gatcluster", "predict", *map(str, (whole, photos, "--overwrite", "-o", output))]
        )
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return stop.value.code

    assert predict(tmp_path / "new.csv") == 0  # and the decoded images are in the cache
    before = tree(tmp_path)
    with files_of_at_most(100):
        assert predict(tmp_path / "new.csv") == 2
    assert f"error: cannot write {tmp_path / 'new.csv'}: File too large" in capsys.readouterr().err
    assert tree(tmp_path) == before
