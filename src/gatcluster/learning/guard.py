"""No step is taken on a loss or a gradient that is not finite; after three such on end the last good state returns.

A single such step would make every weight not a number, for good. A training without one is not changed by a bit.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from gatcluster.learning.state import ModuleState, OptimizerState, State

_MOST_IN_A_ROW: Final = 3


class Guard:
    """Watches over the steps of optimisers.

    Args:
        module: whose weights they change.
        optimizers: the optimisers.
        scaled: whether gradients are scaled (precision 16-mixed): then their scaler looks after them.
    """

    def __init__(self, module: nn.Module, optimizers: Sequence[torch.optim.Optimizer], scaled: bool) -> None:
        self._module = module
        self._weights = [weight for weight in module.parameters() if weight.requires_grad]
        self._scaled = scaled
        self._module_state, self._optimizer_state = ModuleState(module), OptimizerState(*optimizers)
        self._good = self._copies()
        self._in_a_row = 0
        self.begin_iteration()

    def begin_iteration(self) -> None:
        """Count anew."""
        self.skipped = 0
        self.went_back = 0
        self.largest_gradient: float | None = None

    def allows_step(self, loss: Tensor) -> bool:
        """Whether the optimisers may take their step, now that the gradients of ``loss`` are there."""
        is_sound = math.isfinite(float(loss.detach()))
        if not self._scaled:
            norm = float(get_total_norm([weight.grad for weight in self._weights if weight.grad is not None]))
            is_sound = is_sound and math.isfinite(norm)
            if is_sound:
                self.largest_gradient = max(norm, self.largest_gradient or 0.0)
        if is_sound:
            self._in_a_row = 0
            return True
        self.skipped += 1
        self._in_a_row += 1
        if self._in_a_row == _MOST_IN_A_ROW:
            self._go_back()
        else:
            self._repair_statistics()
        return False

    def end_iteration(self) -> None:
        """Remember this state as a good one, if it is."""
        if not self.skipped and _all_finite(self._weights) and _all_finite(self._module.buffers()):
            self._good = self._copies()
        self.begin_iteration()

    def _copies(self) -> tuple[State, State]:
        return copy.deepcopy(self._module_state.state()), copy.deepcopy(self._optimizer_state.state())

    def _go_back(self) -> None:
        self._become(copy.deepcopy(self._good))
        self._in_a_row = 0
        self.went_back += 1

    def _become(self, state: tuple[State, State]) -> None:
        weights, momenta = state
        self._module_state.restore(weights)
        self._optimizer_state.restore(momenta)

    def _repair_statistics(self) -> None:
        """The pass over the images that failed may have spoiled the running statistics of normalisations."""
        if not _all_finite(self._module.buffers()):
            for name, buffer in self._module.named_buffers():
                buffer.copy_(self._good[0][name])

    def state(self) -> State:
        """The counts, and the last good state: what is learned now may have to give way to it."""
        weights, momenta = self._good
        return {
            "in_a_row": self._in_a_row,
            "skipped": self.skipped,
            "went_back": self.went_back,
            "largest_gradient": self.largest_gradient,
            "good": {"weights": weights, "momenta": momenta},
        }

    def restore(self, state: State) -> None:
        """Go on counting, with the same good state to go back to."""
        self._in_a_row, self.skipped = int(state["in_a_row"]), int(state["skipped"])
        self.went_back = int(state["went_back"])
        largest = state["largest_gradient"]
        self.largest_gradient = None if largest is None else float(largest)
        self._good = self._tried_on(state["good"]["weights"], state["good"]["momenta"])

    def _tried_on(self, weights: State, momenta: State) -> tuple[State, State]:
        """A copy of a good state; one that does not fit is an error now, not when the training has to go back to it."""
        now = self._copies()
        self._become((weights, momenta))
        good = self._copies()
        self._become(now)
        return good


def _all_finite(tensors: Iterable[Tensor]) -> bool:
    floats = [tensor.detach() for tensor in tensors if tensor.is_floating_point()]
    return not floats or math.isfinite(float(get_total_norm(floats)))
