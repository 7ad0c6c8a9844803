"""``model.safetensors``: the weights of a run, compared with what its settings say before they are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import safetensors.torch
import torch
from safetensors import safe_open

from gatcluster.config import Settings
from gatcluster.model.network import GATNetwork, build_network, network_shapes
from gatcluster.runs.files import write_bytes
from gatcluster.runs.untrusted import refused, size_of

_MOST_HEADER: Final = 1 << 20  # bytes; that of the largest preset takes some thousand
_KINDS: Final = {torch.float32: "F32", torch.int64: "I64"}


def write_model(path: Path, network: GATNetwork) -> None:
    """Write the weights, whole or not at all."""
    weights = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    write_bytes(path, safetensors.torch.save(weights))


def read_model(path: Path, settings: Settings) -> GATNetwork:
    """The network of a run, ready to be used.

    A network takes as much memory as its settings ask for, and settings cost nothing to write: what they describe is
    first built without memory, and compared with the file, which has to hold all of it.

    Raises:
        InputError: the file is damaged, or is not of this network.
    """
    with refused(f"{path} cannot be read as this run's model"):
        _check_header_length(path)
        expected = network_shapes(settings)
        with safe_open(path, framework="pt") as file:
            names = set(file.keys())
            if names != set(expected):
                raise ValueError(f"it lacks or adds {min(names ^ set(expected))}")
            for name, tensor in expected.items():
                part = file.get_slice(name)
                if part.get_shape() != list(tensor.shape) or part.get_dtype() != _KINDS[tensor.dtype]:
                    raise ValueError(
                        f"{name} is of shape {part.get_shape()} and kind {part.get_dtype()}, "
                        f"not {list(tensor.shape)} and {_KINDS[tensor.dtype]}"
                    )
        network = build_network(settings)
        network.load_state_dict(safetensors.torch.load_file(path))
        return network.eval()


def _check_header_length(path: Path) -> None:
    size = size_of(path)
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(_MOST_HEADER, size - 8):
        raise ValueError(f"its header says that it is of {length:,} bytes")
