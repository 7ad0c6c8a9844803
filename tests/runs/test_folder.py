from __future__ import annotations

import csv
import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from gatcluster.config import ImageSettings, make_settings
from gatcluster.data.images import Skipped
from gatcluster.errors import InputError
from gatcluster.evaluation.metrics import evaluate_clusters
from gatcluster.learning.fit import FitResult
from gatcluster.model.network import build_network
from gatcluster.runs.create import new_run
from gatcluster.runs.folder import RunFolder, cluster_rows, clusters_csv, load_run

K = 3


def entries(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


class Surprise:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


# Writing and reading back.


def test_a_run_folder_holds_what_is_promised_and_nothing_else(written):
    assert entries(written) == [
        "clusters.csv",
        "config.json",
        "history.jsonl",
        "label_features.npy",
        "model.safetensors",
        "skipped.csv",
    ]


def test_a_written_run_loads_back_the_same(written, fit_result, names):
    expected, run = fit_result(), load_run(written)
    assert run.settings() == expected.settings
    assert np.array_equal(run.label_features(), expected.label_features)
    assert run.label_features().dtype == np.float32
    assert run.history() == expected.history
    assert run.clusters() == (names, expected.label_features.argmax(axis=1).tolist())
    assert run.metrics() is None


def test_the_loaded_network_is_the_written_one_to_the_bit(written, fit_result):
    expected, network = fit_result().network, load_run(written).network()
    assert not network.training
    stored = network.state_dict()
    assert stored.keys() == expected.state_dict().keys()
    for name, tensor in expected.state_dict().items():
        assert torch.equal(stored[name], tensor)
    images = torch.rand(4, 1, 8, 8)
    assert torch.equal(network.label_features(images), expected.label_features(images))


def test_weights_in_channels_last_memory_are_written(tmp_path, fit_result, names):
    result = fit_result()
    expected = {name: tensor.clone() for name, tensor in result.network.state_dict().items()}
    result.network.to(memory_format=torch.channels_last)
    with new_run(tmp_path / "run", overwrite=False) as run:
        run.write(result, names, None)
    stored = run.network().state_dict()
    assert all(torch.equal(stored[name], tensor) for name, tensor in expected.items())


def test_config_says_what_a_result_depends_on(written, names):
    config = load_run(written).config()
    assert (config["format"], config["source"], config["n_images"]) == (1, "/photos", len(names))
    assert config["settings"]["seed"] == 0
    assert config["threads"] == torch.get_num_threads()
    assert config["versions"]["torch"] == torch.__version__
    assert {"python", "gatcluster", "numpy"} <= config["versions"].keys()


def test_a_source_folder_whose_name_is_not_valid_unicode_can_be_written_and_read(tmp_path, fit_result, names):
    source = os.fsdecode(b"/photos/caf\xe9")
    with new_run(tmp_path / "run", overwrite=False) as run:
        run.write(fit_result(), names, source)
    assert load_run(tmp_path / "run").config()["source"] == source


def test_skipped_files_are_listed_with_their_reason(written):
    with (written / "skipped.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["path", "reason"], ["bad, one.jpg", "not an image"]]


def test_without_skipped_files_there_is_no_list_of_them(tmp_path, fit_result, names):
    with new_run(tmp_path / "run", overwrite=False) as run:
        run.write(fit_result(), names, None)
    assert not (tmp_path / "run" / "skipped.csv").exists()


def test_the_same_result_is_written_as_the_same_bytes(tmp_path, written, fit_result, names):
    with new_run(tmp_path / "run", overwrite=False) as run:
        run.write(fit_result(), names, "/photos", [Skipped("bad, one.jpg", "not an image")])
    for name in entries(written):
        assert (tmp_path / "run" / name).read_bytes() == (written / name).read_bytes()


def test_cluster_rows_have_path_cluster_and_confidence_in_the_order_of_the_images():
    features = np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]], dtype=np.float32)
    rows = list(cluster_rows(["b", "a", "c"], features))
    assert rows == [("b", 1, "0.750000"), ("a", 0, "1.000000"), ("c", 0, "0.500000")]
    lines = ["path,cluster,confidence", "b,1,0.750000", "a,0,1.000000", "c,0,0.500000", ""]
    assert clusters_csv(["b", "a", "c"], features) == "\n".join(lines)


def test_a_name_too_few_is_an_error_and_not_a_shorter_table():
    with pytest.raises(ValueError, match="zip"):
        list(cluster_rows(["a"], np.eye(2, dtype=np.float32)))


def test_the_history_can_be_followed_while_the_network_learns(tmp_path, fit_result):
    with new_run(tmp_path / "run", overwrite=False) as run:
        writer, records = run.history_writer(), fit_result().history
        for count, record in enumerate(records, start=1):
            writer.on_record(record)
            assert run.history() == records[:count]


def test_metrics_are_kept_and_replaced(run_path):
    run = load_run(run_path)
    for clusters in ([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 0, 1]):
        metrics = evaluate_clusters(list("aaabbb"), clusters)
        run.write_metrics(metrics)
        assert run.metrics() == metrics.as_json()


# What is not a run, or no longer one.


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="gone is not a run folder: there is no such folder"):
        load_run(tmp_path / "gone")


def test_a_file_is_not_a_run_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file is not a run folder"):
        load_run(tmp_path / "file")


def test_a_folder_of_something_else_is_not_a_run_folder(tmp_path):
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(InputError, match=r"is not a run folder: it has no config\.json"):
        load_run(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "1", "null", "{}", '{"format": 1}', "\x00", '{"format": 1, "settings'])
def test_a_damaged_config_is_named(run_path, text):
    (run_path / "config.json").write_text(text)
    with pytest.raises(InputError, match=r"config\.json is damaged"):
        load_run(run_path)


def test_a_config_of_wrong_bytes_is_named(run_path):
    (run_path / "config.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"config\.json is damaged"):
        load_run(run_path)


@pytest.mark.parametrize("version", [0, 2, None, "1"])
def test_a_run_of_another_format_is_refused_with_both_numbers(run_path, version):
    config = json.loads((run_path / "config.json").read_text())
    (run_path / "config.json").write_text(json.dumps({**config, "format": version}))
    with pytest.raises(InputError, match=f"run format {version}, of gatcluster .* reads format 1"):
        load_run(run_path)


def test_a_wrong_setting_is_named_with_its_file(run_path):
    config = json.loads((run_path / "config.json").read_text())
    config["settings"]["images"]["channels"] = "many"
    del config["settings"]["training"]["sub_batch"]
    (run_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"config\.json.*images\.channels.*training\.sub_batch") as caught:
        load_run(run_path).settings()
    assert "\n" not in str(caught.value)


def network_error(run_path: Path) -> str:
    with pytest.raises(InputError, match=r"model\.safetensors") as caught:
        load_run(run_path).network()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_missing_model_is_named(run_path):
    (run_path / "model.safetensors").unlink()
    network_error(run_path)


@pytest.mark.parametrize("keep", [0, 4, 100, 3000, -1])
def test_a_cut_off_model_is_named(run_path, keep):
    path = run_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    network_error(run_path)


def test_the_model_of_another_run_is_refused(run_path, tmp_path):
    images = ImageSettings(size=(8, 8), channels=1, grey=True, augment="none")
    settings = make_settings(n_clusters=K + 1, n_images=9, images=images, seed=0)
    other = FitResult(settings, build_network(settings), np.eye(9, K + 1, dtype=np.float32), [])
    with new_run(tmp_path / "other", overwrite=False) as run:
        run.write(other, [str(i) for i in range(9)], None)
    shutil.copy(tmp_path / "other" / "model.safetensors", run_path)
    assert "this run's model" in network_error(run_path)


@pytest.mark.parametrize("write", [pickle.dump, torch.save])
def test_a_pickle_in_place_of_the_model_is_refused_and_not_run(run_path, tmp_path, write):
    with (run_path / "model.safetensors").open("wb") as file:
        write(Surprise(tmp_path / "touched"), file)
    network_error(run_path)
    assert not (tmp_path / "touched").exists()


def test_a_pickle_in_place_of_the_label_features_is_refused_and_not_run(run_path, tmp_path):
    path, touched = run_path / "label_features.npy", tmp_path / "touched"
    path.write_bytes(pickle.dumps(Surprise(touched)))
    with pytest.raises(InputError, match=r"label_features\.npy"):
        load_run(run_path).label_features()
    np.save(path, np.array([Surprise(touched)], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"label_features\.npy"):
        load_run(run_path).label_features()
    assert not touched.exists()


@pytest.mark.parametrize(
    ("name", "read", "content"),
    [
        ("label_features.npy", RunFolder.label_features, b""),
        ("label_features.npy", RunFolder.label_features, b"\x93NUMPY\x01\x00"),
        ("label_features.npy", RunFolder.label_features, b"PK\x03\x04 an archive"),
        ("label_features.npy", RunFolder.label_features, None),
        ("clusters.csv", RunFolder.clusters, b"name,cluster\na.png,1\n"),
        ("clusters.csv", RunFolder.clusters, b"path,cluster\na.png,first\n"),
        ("clusters.csv", RunFolder.clusters, b"path,cluster\na.png\n"),
        ("clusters.csv", RunFolder.clusters, b'path,cluster\n"' + b"x" * 200_000),
        ("clusters.csv", RunFolder.clusters, None),
        ("history.jsonl", RunFolder.history, b'{"stage": "clus'),
        ("history.jsonl", RunFolder.history, b'{"unknown": 1}\n'),
        ("history.jsonl", RunFolder.history, b"[1]\n"),
        ("history.jsonl", RunFolder.history, None),
        ("metrics.json", RunFolder.metrics, b"{"),
        ("metrics.json", RunFolder.metrics, b"3"),
    ],
)
def test_any_other_damaged_or_missing_file_of_a_run_is_named(run_path, name, read, content):
    (run_path / name).unlink(missing_ok=True)
    if content is not None:
        (run_path / name).write_bytes(content)
    with pytest.raises(InputError, match=f"cannot read .*{name}"):
        read(load_run(run_path))


def test_config_is_written_last_because_it_makes_the_folder_a_run(tmp_path, monkeypatch, fit_result, names):
    written: list[str] = []
    replace = Path.replace

    def note(self, target):
        written.append(Path(target).name)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", note)
    with new_run(tmp_path / "run", overwrite=False) as run:
        run.write(fit_result(), names, None, [Skipped("x.jpg", "why")])
    assert written[-1] == "config.json"
    assert len(written) == 6
