"""A state as bytes: everything comes back as it was, layout included, and nothing else is taken for a state."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import safetensors.numpy
import torch

from gatcluster.runs.state_file import from_bytes, to_bytes


def test_all_that_a_state_is_made_of_comes_back():
    state = {
        "numbers": [1, -2.5, 0.1, True, None, "text", 2**127 + 1, math.inf],
        "nested": {"empty": {}, "list": [], "tuple": (1, 2)},
        "arrays": [np.arange(6, dtype=np.int32).reshape(2, 3), np.float32([0.1]), np.zeros((0, 3), np.int64)],
        "half": np.float16([0.5, 1 / 3]),
        "scalar": torch.tensor(7.0),
        "counter": torch.tensor(3, dtype=torch.int64),
        "bytes": torch.arange(5, dtype=torch.uint8),
        "numpy number": np.float32(0.1),
    }
    back = from_bytes(to_bytes(state))
    assert back["numbers"] == state["numbers"]
    assert back["nested"] == {"empty": {}, "list": [], "tuple": [1, 2]}
    for one, other in zip(back["arrays"], state["arrays"], strict=True):
        np.testing.assert_array_equal(one, other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
    assert back["half"].tobytes() == state["half"].tobytes()
    for name in ("scalar", "counter", "bytes"):
        assert torch.equal(back[name], state[name])
        assert back[name].dtype == state[name].dtype
        assert back[name].shape == state[name].shape
    assert back["numpy number"] == float(np.float32(0.1))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.rand(4, 3, 5, 5).to(memory_format=torch.channels_last),
        torch.rand(4, 1, 3, 3).to(memory_format=torch.channels_last),
        torch.rand(4, 3, 1, 1).to(memory_format=torch.channels_last),
        torch.rand(3, 5).T,
        torch.rand(4)[::2],
    ],
)
def test_the_layout_of_a_tensor_in_memory_is_kept(tensor):
    if tensor.stride() == (2,):  # a view with gaps: its values come back, gaps need not
        tensor = tensor.contiguous()
    back = from_bytes(to_bytes({"x": tensor}))["x"]
    assert back.stride() == tensor.stride()
    assert torch.equal(back, tensor)


def test_what_comes_back_can_be_written_to():
    back = from_bytes(to_bytes({"array": np.zeros(3), "tensor": torch.zeros(3)}))
    back["array"] += 1
    back["tensor"] += 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no state",
        pickle.dumps({"state": 1}),
        safetensors.numpy.save({"x": np.zeros(3)}),
        safetensors.numpy.save({"json": np.frombuffer(b"[1]", np.uint8)}),
        safetensors.numpy.save({"json": np.frombuffer(b"{", np.uint8)}),
        safetensors.numpy.save({"json": np.frombuffer(b'{"x": {"$": "array", "at": "7"}}', np.uint8)}),
        safetensors.numpy.save(
            {
                "json": np.frombuffer(b'{"x": {"$": "tensor", "at": "0", "stride": [99999999999]}}', np.uint8),
                "0": np.zeros(3, np.float32),
            }
        ),
    ],
)
def test_other_bytes_are_a_value_error(content):
    with pytest.raises(ValueError, match=r"."):
        from_bytes(content)


def test_bytes_that_are_cut_off_are_a_value_error():
    whole = to_bytes({"x": np.arange(100), "y": torch.rand(3, 3)})
    for length in range(0, len(whole), 37):
        with pytest.raises(ValueError, match=r"."):
            from_bytes(whole[:length])
