"""What a state holds is taken only if it can be what it should be."""

import numpy as np
import pytest
import torch

from gatcluster.learning.restored import checked_count, checked_indices, checked_rows


def test_indices_in_range_come_back_as_whole_numbers_of_64_bits():
    kept = checked_indices(np.array([[0, 2], [1, 1]], np.uint8), (2, None), end=3)
    assert kept.dtype == np.int64
    assert kept.tolist() == [[0, 2], [1, 1]]


def test_without_an_end_any_index_will_do_that_is_not_negative():
    assert checked_indices(np.array([2**40]), (1,)).tolist() == [2**40]


@pytest.mark.parametrize(
    ("kept", "fault"),
    [
        ([0, 1], "no whole numbers"),
        (np.array([0.0, 1.0]), "no whole numbers"),
        (np.array([True, False]), "no whole numbers"),
        (np.array([0, 3]), "out of range"),
        (np.array([-1, 0]), "out of range"),
        (np.array([0, 1, 2]), "shape"),
        (np.array([[0, 1]]), "shape"),
    ],
)
def test_what_are_no_such_indices_is_refused(kept, fault):
    with pytest.raises(ValueError, match=fault):
        checked_indices(kept, (2,), end=3)


def test_rows_of_floats_come_back():
    rows = torch.rand(3, 2)
    assert checked_rows(rows, (None, 2)) is rows


@pytest.mark.parametrize(
    ("kept", "fault"),
    [
        (np.zeros((3, 2)), "no tensor of floats"),
        (torch.zeros(3, 2, dtype=torch.int64), "no tensor of floats"),
        (torch.zeros(3, 3), "shape"),
        (torch.zeros(3), "shape"),
    ],
)
def test_what_are_no_such_rows_is_refused(kept, fault):
    with pytest.raises(ValueError, match=fault):
        checked_rows(kept, (None, 2))


def test_a_count_is_from_zero_to_the_most():
    assert [checked_count(kept, most=2) for kept in (0, 1, 2)] == [0, 1, 2]
    for kept in (-1, 3):
        with pytest.raises(ValueError, match="out of range"):
            checked_count(kept, most=2)
