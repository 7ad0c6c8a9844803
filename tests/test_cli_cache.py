"""The options and commands of the command line that concern the cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from gatcluster.cli import app
from gatcluster.data.sources import read_images
from gatcluster.errors import InputError


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def photos(tmp_path) -> Path:
    for i in range(8):
        (tmp_path / "photos").mkdir(exist_ok=True)
        Image.new("RGB", (12, 12), (i * 30, 0, 0)).save(tmp_path / "photos" / f"{i}.png")
    return tmp_path / "photos"


def test_entries_are_listed_with_size_and_source_and_cleared(photos, cache_folder):
    assert run("data", "cache") == f"nothing in {cache_folder}\n"
    read_images(photos)
    listed = run("data", "cache")
    assert "8 images, 12x12, colour, crop" in listed
    assert f"  {photos}\n" in listed
    facts = json.loads(run("data", "cache", "--json"))
    assert facts["folder"] == str(cache_folder)
    assert facts["bytes"] == facts["entries"][0]["bytes"] > 8 * 12 * 12 * 3
    assert (facts["entries"][0]["n_images"], facts["entries"][0]["source"]) == (8, str(photos))
    assert "freed" in run("data", "cache", "clear")
    assert run("data", "cache") == f"nothing in {cache_folder}\n"
    assert list(cache_folder.iterdir()) == []


def test_another_folder_can_be_named(tmp_path, photos, cache_folder, monkeypatch):
    read_images(photos)
    assert run("data", "cache", "--cache", tmp_path / "other") == f"nothing in {tmp_path / 'other'}\n"
    assert "nothing to remove" in run("data", "cache", "clear", "--cache", tmp_path / "other")
    assert "nothing to remove" in run("data", "cache", "--cache", tmp_path / "other", "clear")
    assert "8 images" in run("data", "cache")
    monkeypatch.setenv("GATCLUSTER_CACHE", "off")
    with pytest.raises(InputError, match="GATCLUSTER_CACHE is off"):
        run("data", "cache")


def test_fit_and_predict_keep_decoded_images_where_they_are_told(tmp_path, photos, cache_folder, monkeypatch):
    monkeypatch.chdir(tmp_path)
    summary = json.loads(run("fit", photos, "-k", 2, "-o", "run", "--epochs", 1, "--cache", "kept", "--json"))
    assert (summary["cache"], summary["cache_bytes"]) == (str(tmp_path / "kept"), 8 * 12 * 12 * 3)
    assert [path.name[:7] for path in Path("kept").glob("images-*")] == ["images-"]
    run("predict", "run", photos, "-o", "labels.csv", "--no-cache")
    assert not cache_folder.exists()
    run("predict", "run", photos, "-o", "labels.csv", "--overwrite")
    assert cache_folder.exists()
    with pytest.raises(InputError, match="exclude each other"):
        run("predict", "run", photos, "-o", "more.csv", "--cache", "kept", "--no-cache")


def test_fewer_readable_images_than_clusters_are_an_error(photos):
    for i in range(6):
        (photos / f"{i}.png").write_text("no image")
    with pytest.raises(InputError, match="k is 3, but there are only 2 images"):
        run("fit", photos, "-k", 3, "-o", photos.parent / "run")
    assert not (photos.parent / "run").exists()
