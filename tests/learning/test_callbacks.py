"""Stop conditions worked by hand, and records as plain data."""

import json

import pytest

from gatcluster.learning.callbacks import Callback, Progress, StopWhenSettled
from gatcluster.learning.history import Record


def record(epoch: int, changed: float | None, iteration: int = 1) -> Record:
    return Record(
        stage="clustering",
        epoch=epoch,
        iteration=iteration,
        losses={"total": -1.0},
        learning_rate=1e-3,
        seconds=1.0,
        images_per_second=100.0,
        changed=changed,
    )


def stops_after(callback: StopWhenSettled, records: list[Record]) -> int | None:
    """How many records it takes until the callback wants to stop."""
    for count, one in enumerate(records, start=1):
        callback.on_record(one)
        if callback.wants_stop():
            return count
    return None


def test_a_callback_that_overrides_nothing_changes_nothing():
    callback = Callback()
    callback.on_progress(Progress("clustering", done=0.5, seconds=1.0, seconds_left=1.0))
    callback.on_record(record(1, None))
    assert callback.wants_stop() is False


def test_stops_once_as_many_epochs_as_asked_for_stood_still():
    # One batch an epoch. Epoch 1 has nothing to compare with; 2 and 3 stand still; 4 shows that 3 is over.
    changes = [None, 0.0, 0.0, 0.0, 0.0]
    assert stops_after(StopWhenSettled(patience=2), [record(e, c) for e, c in enumerate(changes, start=1)]) == 4
    assert stops_after(StopWhenSettled(patience=1), [record(e, c) for e, c in enumerate(changes, start=1)]) == 3


def test_a_lively_epoch_starts_the_count_again():
    changes = [None, 0.0, 0.5, 0.0, 0.0, 0.0]
    assert stops_after(StopWhenSettled(patience=2), [record(e, c) for e, c in enumerate(changes, start=1)]) == 6


def test_never_stops_while_assignments_move():
    assert stops_after(StopWhenSettled(patience=1), [record(e, 0.01) for e in range(1, 100)]) is None


def test_an_epoch_is_judged_by_the_mean_of_its_batches():
    # The mean of 0 and 0.004 is 0.002: fewer than a tolerance of 0.003, but not fewer than one of 0.002.
    batches = [record(1, None), record(1, None), record(2, 0.0), record(2, 0.004), record(3, 0.5)]
    assert stops_after(StopWhenSettled(patience=1, tolerance=0.003), batches) == 5
    assert stops_after(StopWhenSettled(patience=1, tolerance=0.002), batches) is None


def test_does_not_stop_in_the_middle_of_an_epoch():
    batches = [record(1, None), *[record(2, 0.0)] * 50]
    assert stops_after(StopWhenSettled(patience=1), batches) is None


def test_epochs_without_assignments_do_not_count():
    # A warm-up has no clusters, so nothing can have settled.
    assert stops_after(StopWhenSettled(patience=1), [record(e, None) for e in range(1, 20)]) is None


@pytest.mark.parametrize("changed", [None, 0.25])
def test_record_is_plain_data_that_json_keeps(changed):
    one = record(3, changed)
    assert json.loads(json.dumps(one.as_json())) == one.as_json()
    assert Record(**json.loads(json.dumps(one.as_json()))) == one
