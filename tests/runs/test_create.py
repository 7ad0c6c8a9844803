from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gatcluster.errors import InputError, Interrupted
from gatcluster.evaluation.metrics import evaluate_clusters
from gatcluster.runs.checkpoints import Checkpoints
from gatcluster.runs.create import new_run, reopened_run
from gatcluster.runs.folder import RunFolder, load_run


def entries(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_new_run_makes_its_folder_and_those_above_it(tmp_path):
    with new_run(tmp_path / "deep" / "run", overwrite=False) as run:
        assert run.path.is_dir()
    assert (tmp_path / "deep" / "run").is_dir()


@pytest.mark.parametrize("name", ["config.json", "notes.txt"])
def test_a_folder_that_is_not_empty_is_refused_and_left_alone(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match="not empty"), new_run(tmp_path, overwrite=False):
        pytest.fail("must not begin")
    assert (tmp_path / name).read_text() == "mine"


def test_overwrite_refuses_a_folder_with_files_of_others_and_leaves_all_of_it(run_path):
    (run_path / "notes.txt").write_text("mine")
    before = {path: path.read_bytes() for path in run_path.iterdir()}
    with pytest.raises(InputError, match=r"notes\.txt"), new_run(run_path, overwrite=True):
        pytest.fail("must not begin")
    assert {path: path.read_bytes() for path in run_path.iterdir()} == before


def test_overwrite_replaces_all_of_an_earlier_run(run_path, fit_result, names):
    run = load_run(run_path)
    run.write_metrics(evaluate_clusters(list("aaabbb"), [0, 0, 0, 1, 1, 1]))
    (run_path / "demo-images").mkdir()
    (run_path / "demo-images" / "0.png").touch()
    (run_path / ".config.json.4711.tmp").touch()
    with new_run(run_path, overwrite=True) as run:
        run.write(fit_result(seed=1), names, None)
    assert entries(run_path) == [
        "clusters.csv",
        "config.json",
        "history.jsonl",
        "label_features.npy",
        "model.safetensors",
    ]
    assert load_run(run_path).settings().seed == 1


@pytest.mark.parametrize("error", [RuntimeError("training failed"), KeyboardInterrupt()])
def test_a_new_run_that_fails_gives_the_earlier_run_back(run_path, error, fit_result, names):
    def fail(run: RunFolder) -> None:
        run.write(fit_result(seed=1), names, None)
        raise error

    before = {path: path.read_bytes() for path in run_path.iterdir()}
    with pytest.raises(type(error)), new_run(run_path, overwrite=True) as run:
        fail(run)
    assert {path: path.read_bytes() for path in run_path.iterdir()} == before


def test_a_run_whose_replacement_was_killed_comes_back_before_the_next_attempt(run_path):
    before = {path.name: path.read_bytes() for path in run_path.iterdir()}
    (run_path / ".previous-run").mkdir()
    for name in before:
        (run_path / name).replace(run_path / ".previous-run" / name)
    (run_path / "history.jsonl").write_text("half a line")

    def fail() -> None:
        raise RuntimeError("training failed")

    with pytest.raises(RuntimeError), new_run(run_path, overwrite=True):
        fail()
    assert {path.name: path.read_bytes() for path in run_path.iterdir()} == before


def test_overwrite_makes_a_run_where_there_was_none(tmp_path, fit_result, names):
    with new_run(tmp_path / "run", overwrite=True) as run:
        run.write(fit_result(), names, None)
    assert load_run(tmp_path / "run").settings().n_clusters == 3


def break_off(path: Path, error: BaseException, fit_result, names) -> None:
    """A run that fails when much of it is written."""
    with new_run(path, overwrite=False) as run:
        run.write(fit_result(), names, None)
        (run.path / "demo-images").mkdir()
        (run.path / "demo-images" / "0.png").touch()
        raise error


@pytest.mark.parametrize("error", [RuntimeError("training failed"), KeyboardInterrupt()])
def test_a_run_that_fails_leaves_no_folder(tmp_path, error, fit_result, names):
    with pytest.raises(type(error)):
        break_off(tmp_path / "run", error, fit_result, names)
    assert entries(tmp_path) == []


@pytest.mark.parametrize("error", [RuntimeError("training failed"), KeyboardInterrupt()])
def test_a_run_that_fails_keeps_a_folder_that_was_there_and_leaves_it_empty(tmp_path, error, fit_result, names):
    with pytest.raises(type(error)):
        break_off(tmp_path, error, fit_result, names)
    assert tmp_path.is_dir()
    assert entries(tmp_path) == []


def test_what_others_put_into_the_folder_survives_a_failure_and_does_not_hide_it(tmp_path):
    def fail(run: RunFolder) -> None:
        (run.path / "notes.txt").write_text("mine")
        raise RuntimeError("training failed")

    with pytest.raises(RuntimeError, match="training failed"), new_run(tmp_path / "run", overwrite=False) as run:
        fail(run)
    assert entries(tmp_path / "run") == ["notes.txt"]


def test_a_link_in_an_earlier_run_is_removed_and_what_it_points_to_is_not(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").touch()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "demo-images").symlink_to(tmp_path / "photos")
    with new_run(tmp_path / "run", overwrite=True):
        pass
    assert not (tmp_path / "run" / "demo-images").exists()
    assert (tmp_path / "photos" / "a.png").exists()


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", fail)
    with (
        pytest.raises(InputError, match=r"cannot write to .*run: Read-only file system"),
        new_run(tmp_path / "run", overwrite=False),
    ):
        pytest.fail("must not begin")


# Runs that can be gone on with.


def plan_of(run: RunFolder, begun: bool = True) -> None:
    (run.path / "resume.json").write_text('{"settings": {}}' if begun else '{"settings": null}')


def checkpoint_of(run: RunFolder) -> None:
    Checkpoints(run.path, {}, minutes=0).after_stage(lambda: {"step": 1})


def interrupt(path: Path, error: BaseException, overwrite: bool, prepare: Callable[[RunFolder], None]) -> None:
    with new_run(path, overwrite) as run:
        prepare(run)
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Interrupted(15)])
def test_a_run_that_is_interrupted_in_its_training_stays(tmp_path, error):
    with pytest.raises(type(error)):
        interrupt(tmp_path / "run", error, False, plan_of)
    assert entries(tmp_path / "run") == ["history.jsonl", "resume.json"]


def test_a_run_that_is_interrupted_before_its_training_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        interrupt(tmp_path / "run", KeyboardInterrupt(), False, lambda run: plan_of(run, begun=False))
    assert entries(tmp_path) == []


def test_a_run_that_fails_stays_if_it_has_a_checkpoint_and_the_error_says_how_to_go_on(tmp_path):
    def prepare(run: RunFolder) -> None:
        plan_of(run)
        checkpoint_of(run)

    with pytest.raises(InputError, match=r"disk full; `gatcluster fit --resume .*run` goes on with the run"):
        interrupt(tmp_path / "run", InputError("disk full"), False, prepare)
    assert entries(tmp_path / "run") == ["checkpoints", "history.jsonl", "resume.json"]
    with pytest.raises(InputError, match=r"disk full$"):
        interrupt(tmp_path / "other", InputError("disk full"), False, plan_of)
    assert not (tmp_path / "other").exists()


def test_an_unfinished_run_is_named_and_gone_on_with_or_replaced(tmp_path, fit_result, names):
    with pytest.raises(KeyboardInterrupt):
        interrupt(tmp_path, KeyboardInterrupt(), False, plan_of)
    with pytest.raises(InputError, match=r"not finished: `gatcluster fit --resume .*--overwrite starts again"):
        interrupt(tmp_path, KeyboardInterrupt(), False, plan_of)
    with pytest.raises(InputError, match="not finished"):
        load_run(tmp_path)
    with reopened_run(tmp_path) as run:
        checkpoint_of(run)
        (tmp_path / ".report.4711.tmp").mkdir()
        run.write(fit_result(), names, None)
    assert entries(tmp_path) == [
        "clusters.csv",
        "config.json",
        "history.jsonl",
        "label_features.npy",
        "model.safetensors",
    ]
    with pytest.raises(InputError, match="finished run: there is nothing to resume"), reopened_run(tmp_path):
        pytest.fail("must not begin")


@pytest.mark.parametrize("error", [InputError("disk full"), KeyboardInterrupt()])
def test_a_reopened_run_stays_whatever_happens(tmp_path, error):
    with pytest.raises(KeyboardInterrupt):
        interrupt(tmp_path, KeyboardInterrupt(), False, plan_of)
    with pytest.raises(type(error)), reopened_run(tmp_path):
        raise error
    assert entries(tmp_path) == ["history.jsonl", "resume.json"]


def test_only_what_was_begun_can_be_resumed(tmp_path):
    for path in (tmp_path, tmp_path / "not there"):
        with (
            pytest.raises(InputError, match=r"not a run that can be resumed: it has no resume\.json"),
            reopened_run(path),
        ):
            pytest.fail("must not begin")
    assert entries(tmp_path) == []


def test_an_interrupted_replacement_keeps_the_earlier_run_until_it_is_whole(run_path, fit_result, names):
    before = {path.name: path.read_bytes() for path in run_path.iterdir()}
    with pytest.raises(KeyboardInterrupt):
        interrupt(run_path, KeyboardInterrupt(), True, plan_of)
    aside = {path.name: path.read_bytes() for path in (run_path / ".previous-run").iterdir()}
    assert aside == before
    # A second attempt to replace it that fails gives the whole run back, not the one that was given up.
    with pytest.raises(RuntimeError):
        interrupt(run_path, RuntimeError("training failed"), True, lambda run: None)
    assert {path.name: path.read_bytes() for path in run_path.iterdir()} == before


def test_an_unfinished_run_comes_back_if_what_should_replace_it_fails(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        interrupt(tmp_path, KeyboardInterrupt(), False, plan_of)
    with pytest.raises(RuntimeError):
        interrupt(tmp_path, RuntimeError("no images"), True, lambda run: None)
    assert entries(tmp_path) == ["history.jsonl", "resume.json"]


@pytest.mark.parametrize("moved", range(1, 7))
def test_a_kill_while_a_run_is_set_aside_loses_nothing(run_path, monkeypatch, moved):
    before = {path.name: path.read_bytes() for path in run_path.iterdir()}
    replace, calls = Path.replace, 0

    def killed(self: Path, target: Path) -> Path:
        nonlocal calls
        calls += 1
        if calls > moved:
            raise SystemExit  # nothing after it runs that a kill would not let run, but for the lock
        return replace(self, target)

    with monkeypatch.context() as kill:
        kill.setattr(Path, "replace", killed)
        with pytest.raises(SystemExit), new_run(run_path, overwrite=True):
            pytest.fail("must not begin")
    with pytest.raises(RuntimeError):
        interrupt(run_path, RuntimeError("training failed"), True, lambda run: None)
    assert {path.name: path.read_bytes() for path in run_path.iterdir()} == before
