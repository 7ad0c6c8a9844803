"""Checkpoints: when they are written, that they are whole, and what happens when they are not."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest

from gatcluster.errors import InputError, Interrupted
from gatcluster.runs import checkpoints
from gatcluster.runs.checkpoints import Checkpoints, has_checkpoint, remove_checkpoints
from gatcluster.runs.interruption import Interruption

IDENTITY = {"settings": {"seed": 0}}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def files(run: Path) -> list[Path]:
    return sorted((run / "checkpoints").iterdir())


def numbers(run: Path) -> list[int]:
    return [int(path.name.split("-")[1]) for path in files(run)]


def kept(run: Path, told: list[str] | None = None, identity=IDENTITY):
    return Checkpoints(run, identity, 2, tell=([] if told is None else told).append).kept()


def state(step: int):
    return lambda: {"step": step, "weights": np.full(1000, step)}


def test_a_checkpoint_is_written_when_the_time_has_come_and_at_the_end_of_a_stage(tmp_path):
    clock = Clock()
    keeper = Checkpoints(tmp_path, IDENTITY, minutes=2, clock=clock)
    assert keeper.kept() is None
    keeper.after_step(lambda: pytest.fail("nobody asked for it"))
    clock.now = 119.0
    keeper.after_step(lambda: pytest.fail("nobody asked for it"))
    assert not has_checkpoint(tmp_path)
    clock.now = 120.0
    keeper.after_step(state(1))
    keeper.after_step(lambda: pytest.fail("nobody asked for it"))
    assert kept(tmp_path)["step"] == 1
    keeper.after_stage(state(2))
    assert kept(tmp_path)["step"] == 2
    clock.now = 239.0
    keeper.after_step(lambda: pytest.fail("nobody asked for it"))


def test_the_two_newest_are_kept_also_after_a_restart(tmp_path):
    for step in range(1, 5):
        Checkpoints(tmp_path, IDENTITY, minutes=0).after_step(state(step))
    assert numbers(tmp_path) == [3, 4]
    assert kept(tmp_path)["step"] == 4
    remove_checkpoints(tmp_path)
    assert not has_checkpoint(tmp_path)
    remove_checkpoints(tmp_path)


def two(run: Path) -> list[Path]:
    keeper = Checkpoints(run, IDENTITY, minutes=0)
    keeper.after_step(state(1))
    keeper.after_step(state(2))
    return files(run)


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "a bit":
        path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    elif how == "cut off":
        path.write_bytes(content[: len(content) // 2])
    else:
        path.write_bytes(b"")


@pytest.mark.parametrize("how", ["a bit", "cut off", "empty"])
def test_of_a_damaged_one_the_user_is_told_and_the_older_one_is_taken(tmp_path, how):
    _, newest = two(tmp_path)
    damage(newest, how)
    told: list[str] = []
    assert kept(tmp_path, told)["step"] == 1
    assert len(told) == 1
    assert "checkpoint-000002" in told[0]
    assert "its checksum is wrong" in told[0]
    assert "an older one is taken" in told[0]


def test_a_damaged_one_is_removed_once_an_older_one_is_taken_which_then_is_one_of_the_two_kept(tmp_path):
    good, newest = two(tmp_path)
    damage(newest, "a bit")
    keeper = Checkpoints(tmp_path, IDENTITY, minutes=0, tell=lambda told: None)
    assert keeper.kept()["step"] == 1
    assert files(tmp_path) == [good]
    keeper.after_step(state(3))
    assert numbers(tmp_path) == [1, 3]
    damage(files(tmp_path)[-1], "cut off")  # the older one is still there to go on from
    assert kept(tmp_path)["step"] == 1


def test_a_damaged_one_stays_where_no_older_one_is_taken(tmp_path):
    paths = two(tmp_path)
    damage(paths[1], "empty")
    with pytest.raises(InputError, match="other settings"):
        kept(tmp_path, identity={"settings": {"seed": 1}})
    damage(paths[0], "empty")
    assert kept(tmp_path) is None
    assert files(tmp_path) == paths


def test_when_all_are_damaged_the_training_begins_again_and_the_user_is_told(tmp_path):
    for path in two(tmp_path):
        damage(path, "a bit")
    told: list[str] = []
    assert kept(tmp_path, told) is None
    assert "the training begins again" in told[-1]


def test_what_a_killed_process_left_half_written_is_never_read_and_is_removed(tmp_path):
    two(tmp_path)
    newest = files(tmp_path)[-1]
    half = newest.with_name(f".{newest.name.replace('000002', '000003')}.4711.tmp")
    half.write_bytes(newest.read_bytes()[:100])
    assert kept(tmp_path)["step"] == 2
    assert not half.exists()


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    two(tmp_path)
    with pytest.raises(InputError, match="other settings"):
        kept(tmp_path, identity={"settings": {"seed": 1}})


def test_a_full_disk_is_a_clear_error_and_the_last_good_one_stays(tmp_path, monkeypatch):
    two(tmp_path)
    before = {path: path.read_bytes() for path in files(tmp_path)}

    def full(path: Path, content: bytes) -> None:
        path.with_name(".half.tmp").write_bytes(content[:10])
        path.with_name(".half.tmp").unlink()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "write_bytes", full)
    keeper = Checkpoints(tmp_path, IDENTITY, minutes=0)
    with pytest.raises(InputError, match=r"cannot write a checkpoint .*No space left on device; earlier ones are kept"):
        keeper.after_step(state(3))
    assert {path: path.read_bytes() for path in files(tmp_path)} == before
    assert kept(tmp_path)["step"] == 2


def test_a_signal_while_there_is_work_waits_for_a_checkpoint(tmp_path):
    with Interruption() as interruption:
        keeper = Checkpoints(tmp_path, IDENTITY, 2, interruption)
        keeper.after_step(lambda: pytest.fail("nobody asked for it"))
        signal.raise_signal(signal.SIGTERM)  # and the step goes on
        with pytest.raises(Interrupted) as stop:
            keeper.after_step(state(2))
    assert stop.value.exit_code == 143
    assert kept(tmp_path)["step"] == 2


def test_a_signal_right_after_a_checkpoint_need_not_wait(tmp_path):
    with Interruption() as interruption:
        keeper = Checkpoints(tmp_path, IDENTITY, 2, interruption)
        keeper.after_step(state(1))
        keeper.after_stage(state(2))
        with pytest.raises(Interrupted) as stop:
            signal.raise_signal(signal.SIGINT)
    assert stop.value.exit_code == 130


def test_a_second_signal_does_not_wait(tmp_path):
    with Interruption() as interruption:
        Checkpoints(tmp_path, IDENTITY, 2, interruption).after_step(state(1))
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGINT)
    assert not has_checkpoint(tmp_path)


def test_a_signal_while_a_checkpoint_is_written_waits_for_it(tmp_path, monkeypatch):
    write_bytes = checkpoints.write_bytes

    def write_with_a_signal(path: Path, content: bytes) -> None:
        signal.raise_signal(signal.SIGINT)
        write_bytes(path, content)

    monkeypatch.setattr(checkpoints, "write_bytes", write_with_a_signal)
    with Interruption() as interruption:
        keeper = Checkpoints(tmp_path, IDENTITY, 0, interruption)
        with pytest.raises(Interrupted):
            keeper.after_step(state(7))
    assert kept(tmp_path)["step"] == 7


def test_the_users_signal_handlers_come_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with Interruption():
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
