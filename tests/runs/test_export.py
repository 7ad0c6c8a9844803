"""Exports: every image once, in its place, nothing overwritten, nothing outside, nothing half-written."""

from __future__ import annotations

import csv
import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gatcluster.errors import InputError
from gatcluster.runs import export
from gatcluster.runs.curation import no_curation, read_curation
from gatcluster.runs.export import Exported, export_run
from gatcluster.runs.folder import load_run

# Image i is in cluster FEATURES[i]'s largest; several have the same base name, some names are odd.
NAMES = ["a/1.png", "b/1.png", "B/1.PNG", "c/=cmd.png", "line\nbreak.png", "d/" + "long" * 50 + ".png", "x y.png"]
CLUSTERS = [0, 0, 0, 1, 1, 2, 2]
SURE = [0.9, 0.8, 0.7, 0.9, 0.5, 0.6, 0.95]
K = 3


def label_features(clusters=CLUSTERS, sure=SURE, k=K):
    features = np.zeros((len(clusters), k), np.float32)
    for row, (cluster, confidence) in enumerate(zip(clusters, sure, strict=True)):
        features[row] = (1 - confidence) / (k - 1)
        features[row, cluster] = confidence
    return features


def png(number: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.full((8, 8), number * 20, np.uint8)).save(buffer, format="PNG")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("photos") / "photos"
    for number, name in enumerate(NAMES):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(png(number))
    return folder


@pytest.fixture(scope="module")
def run(photos, untrained_run, tmp_path_factory):
    order = {name: number for number, name in enumerate(NAMES)}
    by_name = sorted(NAMES)  # as a folder is read
    rows = [order[name] for name in by_name]
    features = label_features([CLUSTERS[row] for row in rows], [SURE[row] for row in rows])
    return load_run(untrained_run(tmp_path_factory.mktemp("runs") / "run", photos, K, features=features))


@pytest.fixture
def exported(run, tmp_path) -> Callable[..., tuple[Path, Exported]]:
    def make(kind, name="out", min_confidence=0.0, **entries):
        curation = no_curation(K)
        if entries:
            path = tmp_path / "curation.json"
            path.write_text(json.dumps({"format": "gatcluster-curation", "version": 1, **entries}))
            curation = read_curation(path, K, run.clusters()[0])
        return tmp_path / name, export_run(run, kind, tmp_path / name, curation, min_confidence)

    return make


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def index_of(content: bytes) -> dict[str, str]:
    rows = csv.DictReader(io.StringIO(content.decode("utf-8", "surrogateescape"), newline=""))
    return {row["file"]: row["path"] for row in rows}


@pytest.mark.parametrize("kind", ["folders", "links", "zip"])
def test_every_image_is_in_the_folder_of_its_cluster_and_the_index_says_which_it_is(kind, exported):
    target, result = exported(kind)
    if kind == "zip":
        with zipfile.ZipFile(target) as archive:
            assert all(name.startswith("out/") for name in archive.namelist())
            files = {name.removeprefix("out/"): archive.read(name) for name in archive.namelist()}
    else:
        files = tree(target)
        assert all(path.is_symlink() == (kind == "links") for path in target.glob("cluster-*/*"))
    index = index_of(files.pop("images.csv"))
    assert set(index) == set(files)
    assert len(files) == len(NAMES) == result.n_images
    for file, path in index.items():
        number = NAMES.index(path.removeprefix("./"))
        assert files[file] == png(number)
        assert file.startswith(f"cluster-{CLUSTERS[number]}/")
    ones = sorted(file for file in files if file.startswith("cluster-0/"))
    assert len({file.lower() for file in ones}) == 3  # a system on which case does not count keeps all three
    assert result.written_as == {"folders": "copies", "links": "links", "zip": "copies"}[kind]
    assert [group.n_images for group in result.groups] == [3, 2, 2]


def test_the_same_export_is_the_same_archive(exported, tmp_path):
    first, _ = exported("zip", "a.zip")
    content = first.read_bytes()
    first.unlink()
    assert exported("zip", "a.zip")[0].read_bytes() == content


def test_a_confidence_to_reach_and_wrong_images_leave_images_out(exported):
    target, result = exported("csv", "t.csv", min_confidence=0.65, wrong=["a/1.png"])
    rows = list(csv.DictReader(io.StringIO(target.read_text(), newline="")))
    assert {row["path"] for row in rows} == {"b/1.png", "B/1.PNG", "c/=cmd.png", "x y.png"}
    assert (result.left_out_unsure, result.left_out_wrong, result.n_images) == (2, 1, 4)
    assert [group.n_images for group in result.groups] == [2, 1, 1]


def test_names_and_merges_make_the_folders(exported):
    target, result = exported("folders", names={"0": "cats", "1": "CATS", "2": "cats"})
    assert sorted(path.name for path in target.iterdir()) == ["CATS-2", "cats", "images.csv"]
    assert len(list((target / "cats").iterdir())) == 5  # clusters 0 and 2 have one name, and so are one
    assert [(group.clusters, group.name) for group in result.groups] == [([0, 2], "cats"), ([1], "CATS")]


@pytest.mark.parametrize(
    "name", ["../../evil", "/abs/evil", "..", ".", "a/b", "nul", "images.csv", "x\0y", "-rf", "~", "n" * 5000, "=1+1"]
)
def test_no_name_of_a_cluster_leads_out_of_the_target(name, exported, tmp_path):
    before = set(tmp_path.iterdir())
    target, _ = exported("folders", names={"1": name})
    assert set(tmp_path.iterdir()) - before == {target, tmp_path / "curation.json"}
    assert len([path for path in target.iterdir() if path.is_dir()]) == 3
    assert len(tree(target)) == len(NAMES) + 1
    archive, _ = exported("zip", "out.zip", names={"1": name})
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.namelist():
            assert entry.startswith("out/")
            assert ".." not in Path(entry).parts
            assert len(Path(entry).parts) <= 3


def test_paths_of_images_lead_nowhere_either(tmp_path, untrained_run):
    """A list may name files anywhere."""
    (tmp_path / "in").mkdir()
    names = ["../up.png", str(tmp_path / "abs.png"), "here.png"]
    for number, name in enumerate(names):
        (tmp_path / "in" / name).write_bytes(png(number))
    (tmp_path / "in" / "list.txt").write_text("\n".join(names))
    run = load_run(untrained_run(tmp_path / "run", tmp_path / "in" / "list.txt", 2))
    before = set(tmp_path.iterdir())
    export_run(run, "folders", tmp_path / "out", no_curation(2))
    assert set(tmp_path.iterdir()) - before == {tmp_path / "out"}
    files = tree(tmp_path / "out")
    assert sorted(Path(name).name for name in files) == ["abs.png", "here.png", "images.csv", "up.png"]


@pytest.mark.parametrize("kind", ["csv", "parquet", "folders", "links", "zip"])
def test_nothing_that_exists_is_touched(kind, exported, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("file", "folder", "dangling"):
        with pytest.raises(InputError, match="exists, and an export overwrites nothing"):
            exported(kind, name)
    assert (tmp_path / "file").read_text() == "mine"
    assert not list((tmp_path / "folder").iterdir())
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("kind", ["csv", "zip", "folders"])
def test_a_destination_that_comes_to_exist_meanwhile_is_not_replaced(kind, run, tmp_path):
    target = tmp_path / "out"

    def meddle(done, total):
        if not target.exists():
            target.write_text("mine")

    if kind == "csv":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(export, "csv_table", lambda rows: meddle(0, 0) or b"x")
            with pytest.raises(InputError, match="has come to exist meanwhile"):
                export_run(run, kind, target, no_curation(K))
    else:
        with pytest.raises(InputError, match="has come to exist meanwhile"):
            export_run(run, kind, target, no_curation(K), on_progress=meddle)
    assert target.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("kind", ["folders", "links", "zip"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_export_leaves_nothing(kind, error, run, tmp_path):
    def interrupt(done, total):
        if done == 3:
            raise error

    with pytest.raises((error, InputError)):
        export_run(run, kind, tmp_path / "out", no_curation(K), on_progress=interrupt)
    assert not list(tmp_path.iterdir())


def test_what_is_being_written_does_not_have_its_name_yet(run, tmp_path):
    seen: list[bool] = []
    export_run(
        run,
        "folders",
        tmp_path / "out",
        no_curation(K),
        on_progress=lambda d, t: seen.append((tmp_path / "out").exists()),
    )
    assert seen == [False] * len(NAMES)


def test_csv_files_hold_nothing_that_a_spreadsheet_runs(tmp_path, untrained_run):
    (tmp_path / "photos").mkdir()
    names = [
        "=1+1.png",
        "+a.png",
        "-b.png",
        "@c.png",
        "\td.png",
        "\re.png",
        " =f.png",
        "g;=h.png",
        "\uff1di.png",
        "j.png",
    ]
    for number, name in enumerate(names):
        (tmp_path / "photos" / name).write_bytes(png(number))
    run = load_run(untrained_run(tmp_path / "run", tmp_path / "photos", 2))
    (tmp_path / "c.json").write_text(
        '{"format": "gatcluster-curation", "version": 1, "names": {"0": "=x()", "1": "@y"}}'
    )
    export_run(run, "csv", tmp_path / "t.csv", read_curation(tmp_path / "c.json", 2, names))
    text = (tmp_path / "t.csv").read_bytes().decode()
    rows = list(csv.reader(io.StringIO(text, newline="")))[1:]
    assert len(rows) == len(names)
    for row in rows:
        for cell in (row[0], row[2]):
            assert not cell.lstrip().startswith(("=", "+", "-", "@", "\uff1d"))
            assert not cell.startswith(("\t", "\r"))
        assert (tmp_path / "photos" / row[0]).is_file()  # what was put before a path leaves it the path of the file
    assert '"g;=h.png"' in text  # where ; separates cells, it is still one
    assert {row[2] for row in rows} <= {"'=x()", "'@y"}


def test_a_folder_whose_name_begins_like_a_formula_is_none_in_the_table_of_files(exported):
    target, _ = exported("folders", "out", names={"0": "=x()", "1": "-y"})
    rows = list(csv.DictReader(io.StringIO((target / "images.csv").read_text(), newline="")))
    assert not any(row["file"].startswith(("=", "-")) for row in rows)
    assert any(row["file"].startswith("./=x()/") for row in rows)
    assert all((target / row["file"]).is_file() for row in rows)


def test_parquet_has_the_same_rows(exported):
    import pyarrow.parquet

    target, result = exported("parquet", "t.parquet", names={"1": "dogs"})
    table = pyarrow.parquet.read_table(target).to_pylist()
    assert {row["path"] for row in table} == set(NAMES)
    assert {(row["cluster"], row["name"]) for row in table} == {(0, "cluster-0"), (1, "dogs"), (2, "cluster-2")}
    assert result.n_images == len(table)


def test_names_that_are_no_unicode_are_exported(tmp_path, untrained_run):
    (tmp_path / "photos").mkdir()
    odd = os.fsdecode(b"caf\xe9.png")
    for number, name in enumerate([odd, "b.png"]):
        (tmp_path / "photos" / name).write_bytes(png(number))
    run = load_run(untrained_run(tmp_path / "run", tmp_path / "photos", 2))
    for kind in ("csv", "parquet", "folders", "links", "zip"):
        export_run(run, kind, tmp_path / kind, no_curation(2))
    assert b"caf\xe9.png" in (tmp_path / "csv").read_bytes()
    assert any(path.name == "caf_.png" for path in (tmp_path / "folders").rglob("*"))


def test_pixels_without_files_are_written_as_png_and_cannot_be_linked_to(tmp_path, untrained_run):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 9, 8), dtype=np.uint8)
    np.save(tmp_path / "x.npy", pixels)
    run = load_run(untrained_run(tmp_path / "run", tmp_path / "x.npy", 2, size=(16, 16)))
    result = export_run(run, "folders", tmp_path / "out", no_curation(2))
    assert result.written_as == "png"
    files = tree(tmp_path / "out")
    for file, path in index_of(files.pop("images.csv")).items():
        number = int(path.rpartition(":")[2])
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(files[file])).convert("L")), pixels[number])
    assert len(files) == 5
    with pytest.raises(InputError, match="there are no files to link to"):
        export_run(run, "links", tmp_path / "links", no_curation(2))


def test_images_inside_archives_keep_their_bytes(tmp_path, untrained_run):
    import tarfile

    import pyarrow
    import pyarrow.parquet

    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for number, name in enumerate(["../a.png", "d/b.png", "d/c.png"]):
            member = tarfile.TarInfo(name)
            member.size = len(png(number))
            tar.addfile(member, io.BytesIO(png(number)))
    pyarrow.parquet.write_table(pyarrow.table({"image": [png(number) for number in range(3)]}), tmp_path / "x.parquet")
    for name in ("x.tar", "x.parquet"):
        run = load_run(untrained_run(tmp_path / f"run-{name}", tmp_path / name, 2))
        result = export_run(run, "folders", tmp_path / f"out-{name}", no_curation(2))
        files = tree(tmp_path / f"out-{name}")
        del files["images.csv"]
        assert result.written_as == "stored"
        assert sorted(files.values()) == sorted(png(number) for number in range(3))
        assert all(file.endswith(".png") for file in files)
        with pytest.raises(InputError, match="there are no files to link to"):
            export_run(run, "links", tmp_path / "links", no_curation(2))


def test_images_that_are_gone_are_left_out_and_named(tmp_path, untrained_run):
    (tmp_path / "photos").mkdir()
    for number in range(4):
        (tmp_path / "photos" / f"{number}.png").write_bytes(png(number))
    run = load_run(untrained_run(tmp_path / "run", tmp_path / "photos", 2))
    (tmp_path / "photos" / "2.png").unlink()
    result = export_run(run, "links", tmp_path / "out", no_curation(2))
    assert (result.missing, result.n_images) == (["2.png"], 3)
    for path in (tmp_path / "photos").iterdir():
        path.rename(path.with_suffix(".jpg"))
    with pytest.raises(InputError, match="changed since the run: none of its 4 images is there"):
        export_run(run, "folders", tmp_path / "out2", no_curation(2))
    assert export_run(run, "csv", tmp_path / "out.csv", no_curation(2)).n_images == 4  # a table needs no images


def test_a_run_of_an_array_has_a_table_but_no_images(tmp_path, untrained_run):
    run = load_run(untrained_run(tmp_path / "run", np.zeros((4, 8, 8), np.uint8), 2))
    assert export_run(run, "csv", tmp_path / "out.csv", no_curation(2)).n_images == 4
    with pytest.raises(InputError, match="does not know where its images came from"):
        export_run(run, "folders", tmp_path / "out", no_curation(2))


def test_what_cannot_be_written_is_said(exported, tmp_path):
    with pytest.raises(InputError, match="there is no folder"):
        exported("csv", "nowhere/t.csv")
    with pytest.raises(InputError, match="nothing is left to export: 7 of 7 images"):
        exported("csv", "t.csv", min_confidence=1.0)
    assert not list(tmp_path.iterdir())
