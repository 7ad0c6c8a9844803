"""The whole job, from a source to a run folder, without the command line around it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from gatcluster.errors import ConvergenceWarning, InputError
from gatcluster.evaluation.metrics import evaluate_clusters
from gatcluster.report.progress import PlainProgress
from gatcluster.runs.folder import load_run
from gatcluster.workflow import Summary, cluster_figures, evaluate_run, fit_to_run, predict_source, resume_run

N = 16


def write_images(folder: Path) -> Path:
    """An array file of N grey images."""
    path = folder / "images.npy"
    np.save(path, np.random.default_rng(0).integers(0, 256, size=(N, 8, 8)).astype(np.uint8))
    return path


def fit_quickly(source: Path, output: Path, overwrite: bool = False, **choices: object) -> Summary:
    choices = {"n_clusters": 3, "seed": 0, "epochs": 4, **choices}
    return fit_to_run(source, output, overwrite, PlainProgress(), **choices)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_images(tmp_path)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> tuple[Path, Path, Summary]:
    """Source, run folder and summary; tests must not change them."""
    folder = tmp_path_factory.mktemp("fitted")
    source = write_images(folder)
    return source, folder / "run", fit_quickly(source, folder / "run")


def test_sizes_and_confidence_of_clusters_by_hand():
    features = np.array([[0.9, 0.1, 0.0], [0.6, 0.3, 0.1], [0.2, 0.8, 0.0]], dtype=np.float32)
    sizes, confidence = cluster_figures(features)
    assert sizes == [2, 1, 0]
    assert confidence[:2] == pytest.approx([0.75, 0.8])
    assert confidence[2] is None  # an empty cluster has no confidence, and JSON no NaN


def test_the_summary_agrees_with_the_run_folder(fitted):
    source, path, summary = fitted
    run = load_run(path)
    names, clusters = run.clusters()
    assert summary.run == str(path)
    assert summary.n_images == len(names) == N
    assert summary.cluster_sizes == np.bincount(clusters, minlength=3).tolist()
    assert summary.mean_confidence == pytest.approx(float(run.label_features().max(axis=1).mean()))
    assert summary.iterations == len(run.history())
    assert summary.epochs == run.history()[-1].epoch == 4
    assert (summary.recipe, summary.seed, summary.skipped) == ("fast", 0, 0)
    assert run.config()["source"] == str(source.resolve())
    assert json.loads(json.dumps(summary.as_json())) == summary.as_json()


def test_prediction_on_the_source_gives_the_label_features_of_the_run(fitted):
    source, path, _ = fitted
    images, features = predict_source(path, source, PlainProgress())
    assert images.names == load_run(path).clusters()[0]
    assert_array_equal(features, load_run(path).label_features())


def test_unused_clusters_are_told_in_the_summary_and_not_raised(tmp_path):
    np.save(tmp_path / "alike.npy", np.full((N, 8, 8), 7, dtype=np.uint8))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        summary = fit_quickly(tmp_path / "alike.npy", tmp_path / "run", epochs=8)  # three records of clusters
    assert "only 1 of the 3 clusters" in summary.warnings[0]
    assert [line.split(":")[0] for line in summary.warnings[1:]] == ["giant-cluster"]
    assert {"empty-cluster", "giant-cluster"} <= set(summary.findings)


def test_other_warnings_reach_the_user(source, tmp_path, monkeypatch):
    from gatcluster import workflow

    fit = workflow.fit

    def fit_with_a_warning(*arguments):
        warnings.warn("your disk is on fire", RuntimeWarning, stacklevel=1)
        return fit(*arguments)

    monkeypatch.setattr(workflow, "fit", fit_with_a_warning)
    with pytest.warns(RuntimeWarning, match="your disk is on fire"):
        fit_quickly(source, tmp_path / "run", epochs=1)


def test_a_failed_fit_leaves_no_folder(source, tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr("gatcluster.workflow.fit", fail)
    with pytest.raises(RuntimeError, match="out of luck"):
        fit_quickly(source, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_disk_that_is_full_after_the_training_costs_nothing_of_it(source, tmp_path, monkeypatch):
    def disk_full(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("gatcluster.workflow.contact_sheet", disk_full)
        with pytest.raises(InputError, match=r"No space left on device; `gatcluster fit --resume .*run` goes on"):
            fit_quickly(source, tmp_path / "run", epochs=1)
    assert not (tmp_path / "run" / "config.json").exists()  # the run does not pass for whole
    resume_run(tmp_path / "run", PlainProgress())
    fit_quickly(source, tmp_path / "unbroken", epochs=1)
    for name in ("clusters.csv", "model.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "unbroken" / name).read_bytes()


def test_images_too_small_for_a_preset_are_refused_before_an_earlier_run_is_touched(source, tmp_path):
    fit_quickly(source, tmp_path / "run", epochs=1)
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(InputError, match="at least 16"):
        fit_quickly(source, tmp_path / "run", overwrite=True, preset="cifar10", image_size=8)
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


def test_evaluate_scores_the_clusters_that_were_written(source, tmp_path):
    fit_quickly(source, tmp_path / "run", epochs=1)
    names, clusters = load_run(tmp_path / "run").clusters()
    truth = [str(number % 2) for number in range(N)]
    lines = [f"{name},{label}" for name, label in zip(names, truth, strict=True)]
    (tmp_path / "labels.csv").write_text("\n".join(["path,label", *lines]) + "\n")
    metrics = evaluate_run(tmp_path / "run", str(tmp_path / "labels.csv"))
    assert metrics == evaluate_clusters(truth, clusters)
    assert json.loads((tmp_path / "run" / "metrics.json").read_text()) == metrics.as_json()


def test_labels_that_do_not_match_leave_no_metrics(source, tmp_path):
    fit_quickly(source, tmp_path / "run", epochs=1)
    with pytest.raises(InputError, match="carries no labels"):
        evaluate_run(tmp_path / "run", None)
    with pytest.raises(InputError, match="'numpy' lie in no class folders: give --labels source"):
        evaluate_run(tmp_path / "run", "folders")
    assert not (tmp_path / "run" / "metrics.json").exists()
