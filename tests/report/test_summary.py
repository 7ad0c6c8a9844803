"""What the page says in words."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from gatcluster.config import ImageSettings
from gatcluster.learning.history import Record
from gatcluster.learning.watch import CONDITIONS
from gatcluster.report.summary import findings_of, scores, seen_in, training, warnings_of


def features(clusters: list[int], k: int, sure: float = 0.9) -> np.ndarray:
    rows = np.full((len(clusters), k), (1 - sure) / (k - 1), dtype=np.float32)
    rows[np.arange(len(clusters)), clusters] = sure
    return rows


def record(iteration: int = 1, losses: dict[str, float] | None = None, relation_fallbacks: int = 0) -> Record:
    return Record("clustering", 1, iteration, losses or {}, 0.1, 1.0, 1.0, relation_fallbacks=relation_fallbacks)


@pytest.mark.parametrize(
    ("form", "word"),
    [
        ({"channels": 3, "grey": False}, "colour"),
        ({"channels": 3, "grey": True}, "grey"),
        ({"channels": 1, "grey": True}, "grey"),
        ({"channels": 3, "grey": False, "ink": True}, "ink"),
        ({"channels": 5, "grey": False}, "5 channels"),
    ],
)
def test_what_is_seen_of_colours_is_told_in_a_word(form, word):
    assert seen_in(ImageSettings(size=(8, 8), augment="none", **form)) == word


def test_nothing_to_warn_of():
    assert warnings_of(features([0, 1, 2, 0, 1, 2], 3), [record()], 0) == []


@pytest.mark.parametrize(
    ("clusters", "k", "sure", "history", "skipped", "words"),
    [
        ([0, 1, 0, 1], 3, 0.9, [], 0, "Only 2 of the 3 clusters hold any image"),
        ([0, 0, 0, 1, 2], 3, 0.9, [], 0, "Cluster 0 holds 60% of all images"),
        ([0, 1, 2], 3, 0.4, [], 0, "the mean confidence is 0.40"),
        ([0, 1, 2], 3, 0.9, [record(relation_fallbacks=2)], 0, "In 2 of 1 batches k-means could not tell"),
        ([0, 1, 2], 3, 0.9, [], 1, "1 file could not be read and was left out"),
        ([0, 1, 2], 3, 0.9, [], 1200, "1,200 files could not be read and were left out"),
    ],
)
def test_each_trouble_is_told_in_plain_words(clusters, k, sure, history, skipped, words):
    (found,) = warnings_of(features(clusters, k, sure), history, skipped)
    assert words in found


def test_of_what_the_watch_found_that_is_a_warning_which_still_holds_and_what_was_done_is_told_once():
    early = replace(record(), findings=["not-finite"], actions=["cluster 2 was empty and was revived"])
    late = replace(early, findings=["exploding-gradient", "standstill"])
    found = warnings_of(features([0, 1, 2], 3), [early, late], 0)
    assert found == [
        "A gradient was a hundred times as large as usual. "
        "If the losses do not come down again, lower the learning rate.",
        "While training: cluster 2 was empty and was revived.",
    ]


def test_all_findings_are_listed_once_with_count_meaning_and_advice_also_those_that_passed():
    history = [
        replace(record(), findings=list(CONDITIONS)),
        replace(record(), findings=["not-finite", "standstill"]),
        replace(record(), findings=["standstill", "of a later version"]),
        replace(record(), findings=["standstill"]),
    ]
    found = {finding["name"]: finding for finding in findings_of(history)}
    assert list(found) == list(CONDITIONS)
    for name, condition in CONDITIONS.items():
        assert (found[name]["meaning"], found[name]["advice"]) == (condition.meaning, condition.advice)
    assert found["giant-cluster"]["count"] == "in 1 of 4 iterations"
    assert found["not-finite"]["count"] == "in 2 of 4 iterations"
    assert found["standstill"]["count"] == "in 4 of 4 iterations, also in the last"
    assert findings_of([]) == findings_of([record()]) == []


def test_the_history_is_thinned_out_but_keeps_its_ends_and_has_no_infinity():
    history = [record(iteration=i + 1, losses={"total": float("inf") if i == 0 else 0.5}) for i in range(5000)]
    columns = training(history)
    assert (columns["iteration"][0], columns["iteration"][-1]) == (1, 5000)
    assert len(columns["iteration"]) == len(columns["losses"]["total"]) == 600
    assert columns["losses"]["total"][0] is None
    json.dumps(columns, allow_nan=False)
    assert training([])["iteration"] == []


def test_clusters_are_matched_to_labels_by_hand():
    labels = ["a", "a", "a", "b", "b", None]
    tree = scores({"accuracy": 0.8}, labels, [2, 2, 0, 0, 0, 1], 3)
    assert tree["labels"] == ["a", "b"]
    assert tree["match"] == [1, None, 0]
    assert scores(None, None, [0], 3) is None
    assert scores({"accuracy": 1.0}, None, [0], 3)["labels"] == []  # evaluated by an earlier version
