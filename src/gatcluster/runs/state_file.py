"""A state as bytes, and back: arrays and tensors in the safetensors format, all else as JSON beside them. No pickle."""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
import safetensors.numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from gatcluster.learning.state import State

_JSON: Final = "json"  # the entry that holds it, as UTF-8
_KIND: Final = "$"  # the key by which a placeholder in the JSON is told from a dict


def to_bytes(state: State) -> bytes:
    """A state of nested dicts and lists of numbers, strings, arrays and tensors, as the bytes of one file.

    >>> from_bytes(to_bytes({"steps": 3, "order": np.array([2, 0, 1]), "rates": [0.1, None]}))
    {'steps': 3, 'order': array([2, 0, 1]), 'rates': [0.1, None]}
    """
    arrays: dict[str, NDArray[Any]] = {}
    text = json.dumps(_packed(state, arrays))
    arrays[_JSON] = np.frombuffer(text.encode(), np.uint8)
    return safetensors.numpy.save(arrays)


def from_bytes(content: bytes) -> State:
    """The state that was made bytes.

    Raises:
        ValueError: these are not the bytes of a state.
    """
    try:
        arrays = safetensors.numpy.load(content)
        state = _unpacked(json.loads(arrays.pop(_JSON).tobytes()), arrays)
    except Exception as error:  # hostile bytes may provoke anything
        raise ValueError(f"not a state: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(state, dict):
        raise ValueError("not a state: it holds no parts")
    return state


def _packed(tree: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """Plain data with placeholders, the arrays that they stand for put aside."""
    if isinstance(tree, dict):
        assert _KIND not in tree
        return {str(key): _packed(value, arrays) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [_packed(value, arrays) for value in tree]
    if isinstance(tree, np.generic):
        return tree.item()
    if not isinstance(tree, (Tensor, np.ndarray)):
        return tree
    name = str(len(arrays))
    placeholder: dict[str, Any] = {_KIND: "array", "at": name}
    if isinstance(tree, Tensor):
        # The layout in memory is kept: another one may pick other kernels, and change the last bits.
        placeholder = {_KIND: "tensor", "at": name, "stride": list(tree.stride())}
        tree = tree.detach().cpu().numpy()
    arrays[name] = np.asarray(tree, order="C")
    return placeholder


def _unpacked(tree: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    if isinstance(tree, list):
        return [_unpacked(value, arrays) for value in tree]
    if not isinstance(tree, dict):
        return tree
    if _KIND not in tree:
        return {key: _unpacked(value, arrays) for key, value in tree.items()}
    array = arrays[tree["at"]].copy()
    return array if tree[_KIND] == "array" else _laid_out(torch.from_numpy(array), tuple(tree["stride"]))


def _laid_out(tensor: Tensor, stride: tuple[int, ...]) -> Tensor:
    """The tensor with this layout in memory."""
    reach = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, stride, strict=True))
    if tensor.numel() and (reach > tensor.numel() or min(stride, default=0) < 0):
        raise ValueError(f"strides {stride} do not fit a tensor of shape {tuple(tensor.shape)}")
    return torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype).copy_(tensor)
