"""The demo: real digits, clustered as a user would cluster a folder, beside plain k-means."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from gatcluster.evaluation.metrics import evaluate_clusters
from gatcluster.experiments.baselines import kmeans_on_pixels
from gatcluster.experiments.demo import run_demo, write_digits
from gatcluster.prepare import read_images
from gatcluster.report.progress import PlainProgress
from gatcluster.workflow import evaluate_run


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A run of the demo, its summary and its scores."""
    run = tmp_path_factory.mktemp("demo") / "run"
    return run, *run_demo(run, seed=0, epochs=1, minutes=None, overwrite=False, progress=PlainProgress())


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_digit_is_a_file_with_its_own_pixels(tmp_path):
    labels = write_digits(tmp_path / "digits")
    digits = load_digits()
    files = sorted((tmp_path / "digits").iterdir())
    assert len(files) == len(labels) == 1797
    assert labels == [str(label) for label in digits.target]
    for number in (0, 1000, 1796):
        with Image.open(files[number]) as image:
            assert np.array_equal(np.round(np.asarray(image) / 255 * 16), digits.images[number])


def test_the_run_holds_clusters_images_and_labels_of_all_digits(demo):
    run, summary, _ = demo
    found, labels = rows(run / "clusters.csv"), rows(run / "demo-labels.csv")
    assert [row["path"] for row in found] == [row["path"] for row in labels]
    assert [row["label"] for row in labels] == [str(label) for label in load_digits().target]
    assert len(list((run / "demo-images").iterdir())) == summary.n_images == sum(summary.cluster_sizes) == 1797
    assert summary.n_clusters == len(summary.cluster_sizes) == 10


def test_the_source_of_the_run_is_still_there_afterwards(demo):
    run, _, _ = demo
    source = Path(json.loads((run / "config.json").read_text())["source"])
    assert source == (run / "demo-images").resolve()
    assert source.is_dir()


def test_the_scores_are_those_of_evaluate_and_of_k_means_on_the_same_pixels(demo):
    run, _, scores = demo
    assert scores["gatcluster"] == evaluate_run(run, str(run / "demo-labels.csv"))
    digits = load_digits()
    pixels = kmeans_on_pixels(read_images(run / "demo-images"), 10, seed=0)
    assert scores["k-means on pixels"] == evaluate_clusters(digits.target, pixels)
    assert 0.6 < scores["k-means on pixels"].accuracy < 0.9  # known of these digits: about 0.8
