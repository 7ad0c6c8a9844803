import json
import sys

import pytest

from comparison import child, jobs
from comparison.job import Job
from comparison.jobs import expected_seconds, run_jobs
from comparison.quality_table import quality_text
from comparison.results import read

MINUTES = 0.03


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Two peers and `fast` on the digits, and their results."""
    planned = [
        Job("quality", "digits", "kmeans", 0, MINUTES * 10),
        Job("quality", "digits", "ward", 0, MINUTES * 10),
        Job("quality", "digits", "fast", 0, MINUTES, keeps_to_time=True),
    ]
    results = tmp_path_factory.mktemp("bench") / "results.jsonl"
    run_jobs(planned, results, again=False, command="a command")
    return planned, results


def test_every_measurement_leaves_a_line_that_says_all(measured):
    _, results = measured
    lines = read(results)
    assert [line["method"] for line in lines] == ["kmeans", "ward", "fast"]
    for line in lines:
        assert line["status"] == "done", line
        assert sum(line["cluster_sizes"]) == line["images"] == 1797
        assert len(line["cluster_sizes"]) == 10
        assert line["empty_clusters"] == line["cluster_sizes"].count(0)
        assert 0 < line["seconds"] < line["seconds_of_process"]
        assert line["peak_bytes"] > 100e6  # torch alone takes that
        assert {"cpu", "cores", "memory_bytes", "computes_in_16_bits"} == set(line["hardware"])
        assert line["versions"]["torch"]
        assert (line["command"], line["seed"]) == ("a command", 0)
    assert 0.75 < lines[0]["accuracy"] < 0.85  # what everybody gets
    assert 0.75 < lines[1]["accuracy"] < 0.9
    fast = lines[2]
    assert 0 < fast["label_free"]["information"] < 1
    assert 0.1 < fast["label_free"]["confidence"] <= 1
    assert 0 < fast["label_free"]["invariance"] < fast["label_free"]["confidence"]
    assert fast["details"]["augment"] == "glyph"


def test_what_exceeds_its_limit_is_stopped_and_reported(tmp_path, monkeypatch):
    (tmp_path / "comparison").mkdir()
    slow = "import pathlib, sys, time; pathlib.Path(sys.argv[2]).write_text('begun\\n'); time.sleep(60)"
    (tmp_path / "comparison" / "child.py").write_text(slow)
    monkeypatch.setattr(jobs, "_PACKAGE_PARENT", tmp_path)
    stopped = jobs.run(Job("quality", "digits", "kmeans", 0, minutes=0.005))
    assert stopped["status"] == "over the time"
    assert stopped["seconds"] >= 0.3
    assert stopped["peak_bytes"] > 0


def test_a_process_that_dies_is_reported_with_its_last_words(tmp_path, monkeypatch):
    (tmp_path / "comparison").mkdir()
    (tmp_path / "comparison" / "child.py").write_text("raise MemoryError('no room')")
    monkeypatch.setattr(jobs, "_PACKAGE_PARENT", tmp_path)
    died = jobs.run(Job("quality", "digits", "kmeans", 0, minutes=1.0))
    assert died == {"status": "failed", "error": "ended with code 1: MemoryError: no room"}


def test_a_second_run_measures_nothing_again(measured, capsys):
    planned, results = measured
    before = results.read_bytes()
    run_jobs(planned, results, again=False, command="another command")
    assert results.read_bytes() == before
    assert "3 measurements, 3 of them already in" in capsys.readouterr().out


def test_real_results_make_a_table(measured, tmp_path):
    _, results = measured
    text = quality_text(read(results), tmp_path / "images" / "quality.svg", tmp_path / "results.md")
    assert "| Ward on pixels | 0.3 | 1 | " in text


def test_a_failure_is_a_line_too(tmp_path, monkeypatch):
    job = {"benchmark": "quality", "set": "usps", "method": "kmeans", "seed": 0, "minutes": 1.0, "data": str(tmp_path)}
    output = tmp_path / "output"
    monkeypatch.setattr(sys, "argv", ["child", json.dumps(job), str(output)])
    child.main()
    result = json.loads(output.read_text())
    assert result["status"] == "failed"
    assert result["error"].startswith("InputError: there is no USPS at")


def test_labels_stay_with_their_images_in_a_subset():
    said = []
    result = child.measure(Job("ablation", "digits", "kmeans", seed=3, minutes=1.0, n_images=600), said.append)
    assert said == ["begun", "stopped"]
    assert result["images"] == 600
    assert result["accuracy"] > 0.6  # shuffled labels give 0.15


def test_the_time_left_is_guessed_from_other_seeds():
    job = Job("quality", "digits", "kmeans", 1, 2.0)
    assert expected_seconds(job, []) == pytest.approx(48)
    done = {**Job("quality", "digits", "kmeans", 0, 2.0).line(), "seconds_of_process": 7.0}
    other = {**Job("quality", "digits", "ward", 0, 2.0).line(), "seconds_of_process": 70.0}
    assert expected_seconds(job, [done, other]) == 7.0
