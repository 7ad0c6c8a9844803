"""No table that is written is a program to a spreadsheet, and each is read back exactly."""

from __future__ import annotations

import csv
import io
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatcluster.data.images import Skipped
from gatcluster.evaluation.labels import labels_from_csv
from gatcluster.runs.create import new_run
from gatcluster.runs.folder import clusters_csv, load_run
from gatcluster.runs.labels import read_labels, write_labels
from gatcluster.runs.skipped import read_skipped
from gatcluster.spreadsheets import PATH, TEXT, harmless, original

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
NAMES = ["=1+1.png", "./=1+1.png", "-b;=c.png", "\t@d.png", "./e.png", os.fsdecode(b"+caf\xe9.png")]


def cells(content: bytes, delimiter: str) -> list[str]:
    text = content.decode("utf-8", "surrogateescape")
    return [cell for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) for cell in row]


def is_formula(cell: str) -> bool:
    return cell.startswith(FORMULAS) or cell.lstrip().startswith(FORMULAS)


@given(st.text(st.sampled_from("./';=-+@ \t\r\nab\uff1d"), max_size=8), st.sampled_from([PATH, TEXT]))
@settings(max_examples=400, deadline=None)
def test_any_text_is_made_harmless_and_comes_back(text, prefix):
    safe = harmless(text, prefix)
    assert original(safe, prefix) == text
    assert not is_formula(safe)
    if prefix == TEXT:
        assert not any(is_formula(cell) for cell in safe.split(";"))


@given(st.text(max_size=12), st.text(max_size=12))
@settings(max_examples=200, deadline=None)
def test_two_texts_never_become_one(one, other):
    assert (harmless(one, PATH) == harmless(other, PATH)) == (one == other)


@pytest.fixture
def odd_run(tmp_path, fit_result_of_odd_names):
    with new_run(tmp_path / "run", overwrite=False) as run:
        run.write(
            fit_result_of_odd_names, NAMES, None, [Skipped("=x|y.png", "-2 bytes; =1"), Skipped("a.png", "'quoted'")]
        )
    return load_run(tmp_path / "run")


@pytest.fixture
def fit_result_of_odd_names():
    from gatcluster.config import ImageSettings, make_settings
    from gatcluster.learning.fit import FitResult
    from gatcluster.model.network import build_network

    images = ImageSettings(size=(8, 8), channels=1, grey=True, augment="none")
    chosen = make_settings(n_clusters=2, n_images=len(NAMES), images=images, seed=0)
    features = np.random.default_rng(0).dirichlet(np.ones(2), len(NAMES)).astype(np.float32)
    return FitResult(chosen, build_network(chosen), features, [])


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])  # of spreadsheets of other countries
def test_no_cell_of_a_run_s_tables_is_a_formula(odd_run, delimiter):
    write_labels(odd_run.path, NAMES, ["=a", "-1", "x;=b", "'=a", "c;\t @y", "@d"])
    for name in ("clusters.csv", "skipped.csv", "evaluated-labels.csv"):
        found = cells((odd_run.path / name).read_bytes(), delimiter)
        assert len(found) > 2
        assert not [cell for cell in found if is_formula(cell)]


def test_a_run_s_tables_are_read_back_exactly(odd_run):
    labels = ["=a", "x;=b;'-c", None, "'=a", "", "@d"]
    write_labels(odd_run.path, NAMES, labels)
    assert odd_run.clusters()[0] == NAMES
    assert read_labels(odd_run.path, len(NAMES)) == labels
    assert read_skipped(odd_run.path) == [Skipped("=x|y.png", "-2 bytes; =1"), Skipped("a.png", "'quoted'")]


def test_what_predict_writes_is_what_fit_writes(odd_run, fit_result_of_odd_names):
    text = clusters_csv(NAMES, fit_result_of_odd_names.label_features)
    assert text.encode("utf-8", "surrogateescape") == (odd_run.path / "clusters.csv").read_bytes()


def test_labels_are_found_by_the_paths_of_a_clusters_csv_and_by_those_of_the_files(tmp_path):
    written, names = tmp_path / "labels.csv", ["=a.png", "-b.png", "c.png"]
    written.write_text("path,label\n./=a.png,x\n-b.png,y\nc.png,z\n")
    assert labels_from_csv(written, names) == ["x", "y", "z"]


def test_of_two_names_that_differ_by_the_prefix_each_finds_its_own_label(tmp_path):
    written = tmp_path / "labels.csv"
    written.write_text("path,label\n./=a.png,x\n=a.png,y\n")
    assert labels_from_csv(written, ["=a.png", "./=a.png"]) == ["y", "x"]
