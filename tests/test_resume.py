"""Going on with an interrupted fit: by the estimator, and what the command line takes and refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone

from gatcluster import GATCluster, cli, estimator
from gatcluster.errors import ConvergenceWarning, InputError
from gatcluster.learning.callbacks import Callback

pytestmark = pytest.mark.filterwarnings("ignore::gatcluster.errors.ConvergenceWarning")

CHOICES = {"n_clusters": 3, "epochs": 2, "random_state": 0, "recipe": "paper", "batch_size": 20}


class PullThePlug(Callback):
    """Raises after so many steps."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_progress(self, progress):
        self.steps -= 1
        if self.steps == 0:
            raise KeyboardInterrupt


def images(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((40, 8, 8))


@pytest.fixture(scope="module")
def unbroken() -> GATCluster:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GATCluster(**CHOICES).fit(images())


def interrupted(run: Path, X: object, steps: int = 2) -> Path:
    with pytest.raises(KeyboardInterrupt):
        GATCluster(**CHOICES, run=run, callbacks=[PullThePlug(steps)]).fit(X)
    return run


def test_a_fit_in_a_run_is_the_same_fit_and_leaves_a_whole_run(tmp_path, unbroken):
    model = GATCluster(**CHOICES, run=tmp_path / "run").fit(images())
    np.testing.assert_array_equal(model.label_features_, unbroken.label_features_)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "clusters.csv",
        "config.json",
        "history.jsonl",
        "label_features.npy",
        "model.safetensors",
        "snapshots.npz",
    }
    np.testing.assert_array_equal(GATCluster.load(tmp_path / "run").labels_, unbroken.labels_)


def test_resume_goes_on_with_the_same_images_and_refuses_others(tmp_path, unbroken):
    run = interrupted(tmp_path / "run", images())
    with pytest.raises(InputError, match=r"images came from memory: GATCluster\.resume\(run, X\)"):
        GATCluster.resume(run)
    with pytest.raises(InputError, match="X has images with other pixels"):
        GATCluster.resume(run, images(seed=1))
    with pytest.raises(InputError, match="X has 39 images, but the run was begun with 40"):
        GATCluster.resume(run, images()[1:])
    model = GATCluster.resume(run, images())
    np.testing.assert_array_equal(model.label_features_, unbroken.label_features_)
    for name, value in CHOICES.items():
        assert getattr(model, name) == value
    with pytest.raises(InputError, match="nothing to resume"):
        GATCluster.resume(run, images())


def test_of_a_path_nothing_but_the_run_is_needed(tmp_path, unbroken, monkeypatch):
    np.save(tmp_path / "images.npy", images())
    monkeypatch.chdir(tmp_path)
    run = interrupted(tmp_path / "run", "images.npy")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    np.testing.assert_array_equal(GATCluster.resume(run).label_features_, unbroken.label_features_)
    assert json.loads((run / "config.json").read_text())["source"] == str(tmp_path / "images.npy")


def test_rows_of_a_table_are_images_of_one_row(tmp_path):
    table = np.random.default_rng(0).random((40, 12))
    run = interrupted(tmp_path / "run", table)
    model = GATCluster.resume(run, table)
    assert model.n_features_in_ == 12
    np.testing.assert_array_equal(model.predict(table), model.labels_)


def test_a_run_folder_that_is_taken_is_refused_before_training(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="not empty"):
        GATCluster(**CHOICES, run=tmp_path / "run").fit(images())


def test_the_folder_is_a_parameter_like_others(tmp_path):
    assert clone(GATCluster(run=tmp_path, watch=False)).get_params()["run"] == tmp_path


# Signals.

# Fits, and in its third step waits for a line: what was sent before that has arrived when it goes on.
_FIT = """import json, sys
import numpy as np
from gatcluster import GATCluster
from gatcluster.learning.callbacks import Callback

class Wait(Callback):
    steps = 0
    def on_progress(self, progress):
        self.steps += 1
        print("step", self.steps, flush=True)
        if self.steps == 3:
            sys.stdin.readline()

choices, run, images = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
X = images if sys.argv[4] == "path" else np.load(images)
try:
    GATCluster(**choices, run=run, callbacks=[Wait()]).fit(X)
except KeyboardInterrupt as stop:
    print(stop, flush=True)
    sys.exit(stop.exit_code)
"""


@pytest.mark.parametrize(
    ("number", "given", "hint"),
    [(signal.SIGINT, "array", ", X"), (signal.SIGTERM, "path", "")],
)
def test_a_signal_finishes_the_step_keeps_the_state_and_says_how_to_go_on(tmp_path, unbroken, number, given, hint):
    run, file = tmp_path / "run", tmp_path / "images.npy"
    np.save(file, images())
    with subprocess.Popen(
        [sys.executable, "-c", _FIT, json.dumps(CHOICES), run, file, given],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},
    ) as process:
        while (line := process.stdout.readline()) != "step 3\n":
            assert line.startswith("step"), process.stderr.read()
        process.send_signal(number)
        out, err = process.communicate("\n")
    assert process.returncode == 128 + number, err
    # The last line, and no further step before it.
    assert out == f"ended by signal {number}; GATCluster.resume({str(run)!r}{hint}) goes on from here\n"
    assert len(list((run / "checkpoints").iterdir())) == 1
    model = GATCluster.resume(run, None if given == "path" else images())
    np.testing.assert_array_equal(model.label_features_, unbroken.label_features_)


def test_a_resumed_fit_can_be_interrupted_too_and_handlers_return(tmp_path, unbroken):
    class Signal(Callback):
        steps = 0

        def on_progress(self, progress):
            self.steps += 1
            if self.steps == 2:  # the first is not worth waiting for a checkpoint
                signal.raise_signal(signal.SIGINT)

    run, before = interrupted(tmp_path / "run", images()), signal.getsignal(signal.SIGINT)
    assert not (run / "checkpoints").exists()
    with pytest.raises(KeyboardInterrupt, match=r"GATCluster\.resume\(.*, X\) goes on from here"):
        GATCluster.resume(run, images(), callbacks=[Signal()])
    assert signal.getsignal(signal.SIGINT) is before
    assert len(list((run / "checkpoints").iterdir())) == 1
    np.testing.assert_array_equal(GATCluster.resume(run, images()).label_features_, unbroken.label_features_)


def test_in_another_thread_it_fits_and_resumes_without_listening_for_signals(tmp_path, unbroken):
    models = []

    def work() -> None:
        run = interrupted(tmp_path / "run", images())
        models.append(GATCluster.resume(run, images()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    np.testing.assert_array_equal(models[0].label_features_, unbroken.label_features_)


def test_images_are_read_with_the_cache_and_the_threads_of_the_run(tmp_path, monkeypatch):
    (tmp_path / "photos").mkdir()
    for number, pixels in enumerate(images()):
        Image.fromarray((pixels * 255).astype(np.uint8)).save(tmp_path / "photos" / f"{number:02}.png")
    run, cache = interrupted(tmp_path / "run", tmp_path / "photos"), tmp_path / "cache"
    plan = json.loads((run / "resume.json").read_text())
    threads = plan["threads"] + 1
    (run / "resume.json").write_text(json.dumps({**plan, "cache": str(cache), "threads": threads}))
    read = estimator.planned_images

    def read_and_stop(*given: object, **named: object) -> None:
        read(*given, **named)
        raise InputError(f"read with {torch.get_num_threads()} threads")

    monkeypatch.setattr(estimator, "planned_images", read_and_stop)
    with pytest.raises(InputError, match=f"read with {threads} threads"):
        GATCluster.resume(run)
    assert any(cache.iterdir())
    assert torch.get_num_threads() == threads - 1


# The command line.


@pytest.fixture
def gatcluster(monkeypatch, capsys) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gatcluster", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        printed = capsys.readouterr()
        return stop.value.code, printed.out, printed.err

    return run


def test_a_run_of_the_estimator_on_a_path_is_resumed_by_the_command_line(tmp_path, unbroken, gatcluster):
    np.save(tmp_path / "images.npy", images())
    run = interrupted(tmp_path / "run", tmp_path / "images.npy")
    code, out, _ = gatcluster("fit", "--resume", run, "--json")
    assert code == 0
    assert json.loads(out)["n_images"] == 40
    np.testing.assert_array_equal(GATCluster.load(run).label_features_, unbroken.label_features_)


def test_one_on_an_array_is_not_and_the_error_says_what_to_do(tmp_path, gatcluster):
    run = interrupted(tmp_path / "run", images())
    code, _, err = gatcluster("fit", "--resume", run)
    assert code == 2
    assert "GATCluster.resume(run, X) goes on with it" in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("photos",), "SOURCE"),
        (("-k", 3), "--clusters"),
        (("--epochs", 3), "--epochs"),
        (("--overwrite",), "--overwrite"),
        (("-o", "other"), "--output"),
    ],
)
def test_with_resume_other_choices_are_refused(tmp_path, gatcluster, arguments, named):
    code, _, err = gatcluster("fit", "--resume", tmp_path, *arguments)
    assert code == 2
    assert err == f"error: --resume takes everything from the interrupted run: leave out {named}\n"


def test_without_resume_images_and_k_are_asked_for(gatcluster):
    for arguments in ((), ("-k", 3), ("photos",)):
        code, _, err = gatcluster("fit", *arguments)
        assert code == 2
        assert err == "error: give the images and how many clusters: gatcluster fit SOURCE -k NUMBER\n"


@pytest.mark.parametrize("strict", [True, False])
def test_fewer_clusters_than_asked_for_are_told_and_strict_makes_them_an_exit_code(tmp_path, gatcluster, strict):
    np.save(tmp_path / "alike.npy", np.full((16, 8, 8), 7, np.uint8))
    options = ("--strict",) if strict else ()
    code, out, err = gatcluster(
        *("fit", tmp_path / "alike.npy", "-k", 3, "-o", tmp_path / "run", "--epochs", 5, "--recipe", "paper"),
        *("--no-report", "--json", *options),
    )
    assert code == (3 if strict else 0)
    assert "warning: only 1 of the 3 clusters asked for hold any image." in err
    assert (
        err.count("warning: giant-cluster: one cluster holds more than nine tenths") == 2
    )  # when found, and at the end
    assert json.loads(out)["findings"]["giant-cluster"] == 3
    assert (tmp_path / "run" / "config.json").is_file()
    found = [json.loads(line)["findings"] for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert sum("giant-cluster" in names for names in found) == 3


def test_the_watch_can_be_switched_off(tmp_path, gatcluster):
    np.save(tmp_path / "images.npy", images())
    code, _, _ = gatcluster(
        *("fit", tmp_path / "images.npy", "-k", 3, "-o", tmp_path / "run", "--epochs", 1, "--recipe", "paper"),
        *("--no-report", "--no-watch"),
    )
    assert code == 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["settings"]["watch"] is False
