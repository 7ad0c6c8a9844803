"""The folder of the report: whole or not at all, written by fit, renewed by evaluate, found out of a run again."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gatcluster import GATCluster, cli
from gatcluster.errors import InputError
from gatcluster.learning.watch import CONDITIONS
from gatcluster.model.inference import attention_maps
from gatcluster.prepare import read_like
from gatcluster.report.pictures import pictures_of
from gatcluster.report.progress import PlainProgress
from gatcluster.runs.folder import load_run
from gatcluster.runs.layout import is_run_entry
from gatcluster.workflow import evaluate_run, fit_to_run, report_run

PAGE = Path(__file__).parents[2] / "src" / "gatcluster" / "report" / "page"


def column(run: Path, name: str) -> np.ndarray:
    kind, text = (run / "report" / "data" / f"{name}.js").read_text().split('"')[3:6:2]
    return np.frombuffer(base64.b64decode(text), dtype=kind.removesuffix("Array").lower())


def values(run: Path, name: str) -> dict:
    text = (run / "report" / "data" / f"{name}.js").read_text()
    return json.loads(text.removeprefix(f'gatcluster.values("{name}", ').removesuffix(");\n"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_fit_leaves_a_report_whose_columns_are_those_of_the_run(fitted):
    run = load_run(fitted.run)
    features = run.label_features()
    n, k = features.shape
    assert column(fitted.run, "clusters").tolist() == run.clusters()[1]
    assert (column(fitted.run, "confidence") == features.max(axis=1)).all()
    assert np.abs(column(fitted.run, "features").reshape(n, k) / 65535 - features).max() < 1e-5
    order = column(fitted.run, "order")
    assert sorted(order.tolist()) == list(range(n))
    placed = features[order]
    steps = np.diff(placed.argmax(axis=1) * 10 - placed.max(axis=1))
    assert (steps >= 0).all()  # by cluster, the surest first
    summary = values(fitted.run, "summary")
    assert (summary["n_images"], summary["n_clusters"], summary["seed"], summary["note"]) == (n, k, 0, "")


def test_the_page_is_real_files_and_all_that_it_names_is_there(fitted):
    report = fitted.run / "report"
    html = (report / "index.html").read_text()
    named = [part.split('"')[0] for part in html.split('src="')[1:]] + ["style.css"]
    assert len(named) > 8
    for name in named:
        assert (report / name).read_bytes() == (PAGE / name).read_bytes()
    assert "http://" not in html
    assert "https://" not in html
    assert {path.name for path in PAGE.iterdir()} == {*named, "index.html"}


def test_attention_numbers_are_those_of_the_network(fitted):
    run = load_run(fitted.run)
    settings, network = run.settings(), run.network()
    images = read_like(fitted.photos, settings.images)
    mu_x, mu_y, delta = (column(fitted.run, "attention").reshape(-1, 3) / 65535).T
    height, width = network.attention_head.map_size
    rows = np.linspace(0, 1, height)[None, :, None] if height > 1 else np.full((1, 1, 1), 0.5)
    columns = np.linspace(0, 1, width)[None, None, :] if width > 1 else np.full((1, 1, 1), 0.5)
    distance = (rows - mu_x[:, None, None]) ** 2 + (columns - mu_y[:, None, None]) ** 2
    found = np.exp(-distance / (settings.network.alpha * delta[:, None, None]))
    assert np.abs(found - attention_maps(network, images, settings)).max() < 0.01


def found_in(run: Path, *findings: list[str]) -> int:
    """Let the first records of a run have these findings, and the others none; gives the number of all."""
    path = run / "history.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for number, record in enumerate(records):
        record["findings"] = findings[number] if number < len(findings) else []
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return len(records)


def test_what_the_watch_found_is_listed_by_name_also_if_it_has_passed(own_run, browser):
    n = found_in(own_run, ["unsure", "not-finite"], ["unsure"])
    report_run(own_run, PlainProgress())
    assert [finding["name"] for finding in values(own_run, "summary")["findings"]] == ["unsure", "not-finite"]
    page = browser.new_page()
    page.goto(f"{(own_run / 'report' / 'index.html').as_uri()}#training")
    page.wait_for_selector("#findings li")
    unsure, not_finite = page.locator("#findings li").all_inner_texts()
    page.close()
    assert unsure.startswith(f"unsure (in 2 of {n} iterations): {CONDITIONS['unsure'].meaning}. To try: ")
    condition = CONDITIONS["not-finite"]
    assert not_finite == f"not-finite (in 1 of {n} iterations): {condition.meaning}. To try: {condition.advice}."


def test_where_nothing_was_found_the_page_has_no_such_list(own_run, browser):
    found_in(own_run)
    report_run(own_run, PlainProgress())
    page = browser.new_page()
    page.goto(f"{(own_run / 'report' / 'index.html').as_uri()}#training")
    page.wait_for_selector("#charts svg path")
    assert page.locator("#findings-part").is_hidden()
    page.close()


def test_a_report_that_cannot_be_finished_leaves_the_earlier_one_and_no_rest(own_run, monkeypatch):
    before, entries = contents(own_run), sorted(path.name for path in own_run.iterdir())

    def disk_full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gatcluster.report.site.write_sheets", disk_full)
    with pytest.raises(InputError, match="No space left on device"):
        report_run(own_run, PlainProgress())
    assert contents(own_run) == before
    assert sorted(path.name for path in own_run.iterdir()) == entries


def test_a_report_written_again_is_the_same(own_run, fitted):
    (own_run / "report" / "stale.txt").touch()
    page, note = report_run(own_run, PlainProgress())
    assert (page, note) == (own_run / "report" / "index.html", "")
    again = contents(own_run / "report")
    earlier = contents(fitted.run / "report")
    assert "stale.txt" not in again
    assert {name for name in again if again[name] != earlier[name]} <= {"data/summary.js"}  # the way to the photos
    assert set(again) == set(earlier)


def test_the_report_and_what_a_killed_writer_left_are_entries_of_a_run():
    assert is_run_entry("report")
    assert is_run_entry(".report.4711.tmp")
    assert is_run_entry("evaluated-labels.csv")


def test_evaluate_renews_the_scores_of_the_report_and_touches_no_thumbnail(own_run, fitted, tmp_path):
    names, clusters = load_run(own_run).clusters()
    lines = [f'"{name}",kind {number % 2}' for number, name in enumerate(name.replace('"', '""') for name in names)]
    (tmp_path / "labels.csv").write_bytes("\n".join(["path,label", *lines]).encode("utf-8", "surrogateescape"))
    sheets = {path.name: path.stat().st_mtime_ns for path in (own_run / "report" / "thumbnails").iterdir()}
    metrics = evaluate_run(own_run, str(tmp_path / "labels.csv"))
    tree = values(own_run, "scores")
    assert tree["labels"] == ["kind 0", "kind 1"]
    assert tree["metrics"] == metrics.as_json()
    assert column(own_run, "labels").tolist() == [number % 2 for number in range(len(names))]
    matched = sum(
        tree["match"][cluster] == number % 2 for number, cluster in enumerate(clusters)
    )  # the matching is that of ACC
    assert matched / len(names) == pytest.approx(metrics.accuracy)
    assert {path.name: path.stat().st_mtime_ns for path in (own_run / "report" / "thumbnails").iterdir()} == sheets


def test_scores_are_not_there_before_evaluate(own_run):
    for name in ("metrics.json", "evaluated-labels.csv"):
        (own_run / name).unlink()
    report_run(own_run, PlainProgress())
    assert values(own_run, "scores") is None
    assert not (own_run / "report" / "data" / "labels.js").exists()


def test_a_source_that_is_gone_gives_a_report_without_pictures_that_says_so(own_run):
    config = json.loads((own_run / "config.json").read_text())
    config["source"] = str(own_run / "moved away")
    (own_run / "config.json").write_text(json.dumps(config))
    page, note = report_run(own_run, PlainProgress())
    assert page.is_file()
    assert "could not be read again" in note
    assert values(own_run, "summary")["note"] == note
    assert values(own_run, "summary")["sheets"] is None
    assert list((own_run / "report" / "thumbnails").iterdir()) == []


def test_images_that_are_gone_are_blank_and_the_others_keep_their_thumbnails(own_run, fitted, tmp_path):
    photos = Path(shutil.copytree(fitted.photos, tmp_path / "photos"))
    config = json.loads((own_run / "config.json").read_text())
    config["source"] = str(photos)
    (own_run / "config.json").write_text(json.dumps(config))
    names, _ = load_run(own_run).clusters()
    (photos / names[30]).unlink()
    Image.new("RGB", (20, 24)).save(photos / "a new one.png")
    pictures, note = pictures_of(load_run(own_run))
    assert note.startswith("1 of the 90 images are no longer in")
    assert pictures.places[30] == -1
    assert [pictures.images.names[place] for place in np.delete(pictures.places, 30)] == np.delete(names, 30).tolist()
    report_run(own_run, PlainProgress())
    assert column(own_run, "attention").reshape(-1, 3)[30].tolist() == [0, 0, 0]
    assert (column(own_run, "attention").reshape(-1, 3)[31] > 0).any()


def test_a_model_saved_from_python_has_a_report_without_pictures(tmp_path):
    images = np.random.default_rng(0).random((20, 8, 8))
    GATCluster(2, epochs=1, random_state=0).fit(images).save(tmp_path / "run")
    _, note = report_run(tmp_path / "run", PlainProgress())
    assert "came from Python" in note
    assert values(tmp_path / "run", "summary")["title"] == "Images from Python"


@pytest.fixture
def command(monkeypatch, capsys, tmp_path) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line in this process; gives exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["gatcluster", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return int(stop.value.code or 0), *capsys.readouterr()

    return call


def test_the_command_line_writes_a_report_unless_told_not_to(command, tmp_path):
    np.save(tmp_path / "images.npy", np.random.default_rng(0).integers(0, 255, (20, 8, 8)).astype(np.uint8))
    fit = ["fit", "images.npy", "-k", "2", "--epochs", "1", "-o", "run"]
    page = tmp_path / "run" / "report" / "index.html"
    code, out, _ = command(*fit, "--no-report")
    assert code == 0
    assert not page.exists()
    assert "run/clusters.png" in out
    code, out, _ = command("report", "run", "--json")
    assert (code, json.loads(out)) == (0, {"report": "run/report/index.html", "note": ""})
    assert page.is_file()
    code, out, _ = command(*fit, "--overwrite")
    assert code == 0
    assert "Look at      run/report/index.html" in out
    assert page.is_file()
    assert not (tmp_path / "run" / ".previous-run").exists()


def test_report_of_what_is_no_run_is_one_line_and_exit_code_2(command, tmp_path):
    code, out, err = command("report", str(tmp_path))
    assert (code, out) == (2, "")
    assert err == f"error: {tmp_path} is not a run folder: it has no config.json\n"


def test_a_fit_survives_a_report_that_cannot_be_written(tmp_path, monkeypatch):
    def disk_full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    np.save(tmp_path / "images.npy", np.random.default_rng(0).integers(0, 255, (20, 8, 8)).astype(np.uint8))
    monkeypatch.setattr("gatcluster.report.site.write_sheets", disk_full)
    summary = fit_to_run(
        tmp_path / "images.npy", tmp_path / "run", False, PlainProgress(), n_clusters=2, seed=0, epochs=1
    )
    assert summary.report is None
    assert "no report was written: No space left on device" in summary.warnings[-1]
    assert load_run(tmp_path / "run").clusters()
    assert not (tmp_path / "run" / "report").exists()


def test_the_wheel_carries_the_page(tmp_path):
    pytest.importorskip("hatchling")
    root = PAGE.parents[3]
    code = (
        "import sys; from hatchling.builders.wheel import WheelBuilder; "
        "list(WheelBuilder(sys.argv[1]).build(directory=sys.argv[2], versions=['standard']))"
    )
    subprocess.run([sys.executable, "-c", code, str(root), str(tmp_path)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        carried = {name for name in archive.namelist() if name.startswith("gatcluster/report/page/")}
    assert carried == {f"gatcluster/report/page/{path.name}" for path in PAGE.iterdir()}
