"""The state of a training as data: enough to go on from there exactly as if nothing had happened in between.

Whatever changes while a network learns is a part with a name, and says by ``state`` what there is to keep of it, and
takes it back by ``restore``. States are nested dicts and lists of numbers, strings, arrays and tensors; where they are
written to is no business of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from gatcluster.errors import InputError

State = dict[str, Any]


class Stateful(Protocol):
    """Something that changes while a network learns."""

    def state(self) -> State:
        """All that is needed to go on from here. Not a copy: use it before anything changes."""

    def restore(self, state: State) -> None:
        """Go on from where ``state`` was taken."""


Part = TypeVar("Part", bound=Stateful)


class StateKeeper(Protocol):
    """Keeps the state of a training somewhere safe, as often as it likes."""

    def kept(self) -> State | None:
        """The state to go on from; None to begin."""

    def after_step(self, state: Callable[[], State]) -> None:
        """Called after every step of the optimisers."""

    def after_stage(self, state: Callable[[], State]) -> None:
        """Called at the end of every stage: what comes next may take long, and has no steps to wait for."""


class Parts:
    """The parts of a training by name; their states together are the training's.

    Args:
        kept: the state of an earlier training that is to go on: each part takes its own when it is added.
    """

    def __init__(self, kept: State | None = None) -> None:
        self._kept = dict(kept or {})
        self._parts: dict[str, Stateful] = {}

    def add(self, name: str, part: Part) -> Part:
        """Take in a part, and let it go on from where it was."""
        self._parts[name] = part
        if name in self._kept:
            try:
                part.restore(self._kept.pop(name))
            except Exception as error:  # the checkpoint may be a stranger's
                reason = " ".join(str(error).split())[:200]
                raise InputError(f"the state of '{name}' in the checkpoint does not fit this run: {reason}") from None
        return part

    def drop(self, name: str) -> None:
        """Leave out a part that is over."""
        del self._parts[name]

    def state(self) -> State:
        """The states of all parts."""
        return {name: part.state() for name, part in self._parts.items()}


class ModuleState:
    """The weights of a module, and the running statistics of its normalisations."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def state(self) -> State:
        """Tensors by name."""
        return dict(self._module.state_dict())

    def restore(self, state: State) -> None:
        """Copy them into the module, whose memory layout stays."""
        self._module.load_state_dict(state)


class OptimizerState:
    """The momenta of optimisers, and the learning rates in force."""

    def __init__(self, *optimizers: torch.optim.Optimizer) -> None:
        self._optimizers = optimizers

    def state(self) -> State:
        """For each optimiser its rates, and what it remembers of each weight."""
        return {
            "optimizers": [
                {
                    "rates": [group["lr"] for group in optimizer.param_groups],
                    "memories": [dict(optimizer.state.get(weight, {})) for weight in _weights(optimizer)],
                }
                for optimizer in self._optimizers
            ]
        }

    def restore(self, state: State) -> None:
        """Take back all of it."""
        for optimizer, kept in zip(self._optimizers, state["optimizers"], strict=True):
            for group, rate in zip(optimizer.param_groups, kept["rates"], strict=True):
                group["lr"] = rate
            for weight, memory in zip(_weights(optimizer), kept["memories"], strict=True):
                optimizer.state[weight] = {name: _beside(weight, value) for name, value in memory.items()}


def _weights(optimizer: torch.optim.Optimizer) -> Sequence[Tensor]:
    return [weight for group in optimizer.param_groups for weight in group["params"]]


def _beside(weight: Tensor, value: Any) -> Any:
    """A momentum belongs on the device of its weight; counters stay on the CPU."""
    if isinstance(value, Tensor) and value.ndim:
        if value.shape != weight.shape:
            raise ValueError(f"a momentum of shape {tuple(value.shape)} for a weight of shape {tuple(weight.shape)}")
        return value.to(weight.device)
    return value


class RandomState:
    """Where the two streams of random numbers are."""

    def __init__(self, random: np.random.Generator, torch_random: torch.Generator) -> None:
        self._random = random
        self._torch_random = torch_random

    def state(self) -> State:
        """The states of both generators."""
        return {"numpy": self._random.bit_generator.state, "torch": self._torch_random.get_state()}

    def restore(self, state: State) -> None:
        """Draw the same numbers again from here on."""
        self._random.bit_generator.state = state["numpy"]
        self._torch_random.set_state(state["torch"])
