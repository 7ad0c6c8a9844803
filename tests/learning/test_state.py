"""A training that is broken off after any step and goes on from its state ends as if it had never been broken off."""

from __future__ import annotations

import contextlib
import copy
import math
import random

import numpy as np
import pytest
import torch

from gatcluster.config import ImageSettings, Settings, make_settings
from gatcluster.data.images import ImageSet
from gatcluster.errors import InputError
from gatcluster.learning import fast, training
from gatcluster.learning.batches import RandomBatches
from gatcluster.learning.budget import EpochBudget, StageBudget
from gatcluster.learning.fast_course import FastCourse, FastStage
from gatcluster.learning.fit import FitResult, fit
from gatcluster.learning.outer_iteration import Course
from gatcluster.learning.state import OptimizerState, Parts, RandomState
from gatcluster.runs.state_file import from_bytes, to_bytes

pytestmark = [
    pytest.mark.usefixtures("_little_priming"),
    pytest.mark.filterwarnings("ignore::gatcluster.errors.ConvergenceWarning"),
]


class _BrokenOff(BaseException):
    """As if the plug was pulled."""


class Keeper:
    """Keeps states in memory: of all steps and stages, or of the step after which it breaks off."""

    def __init__(self, kept=None, break_off_after: int | None = None) -> None:
        self._kept, self._last = kept, break_off_after
        self.states = []  # of steps
        self.stages = []

    def kept(self):
        return self._kept

    def after_step(self, state):
        self.states.append(copy.deepcopy(state()))
        if len(self.states) == self._last:
            raise _BrokenOff

    def after_stage(self, state):
        self.stages.append(copy.deepcopy(state()))


@pytest.fixture
def _little_priming(monkeypatch):
    monkeypatch.setattr(fast, "_PRIMING_STEPS", 3)


def images() -> ImageSet:
    pixels = np.random.default_rng(0).integers(0, 60, (44, 8, 8, 1), dtype=np.uint8)
    for i in range(len(pixels)):
        pixels[i, :, 3 * (i % 3) : 3 * (i % 3) + 2] += 190
    return ImageSet(pixels, names=[f"{i}.png" for i in range(len(pixels))])


def settings(recipe: str, **choices: object) -> Settings:
    form = ImageSettings(size=(8, 8), channels=1, grey=False, augment="glyph")
    made = make_settings(
        n_clusters=3,
        n_images=44,
        images=form,
        seed=0,
        recipe=recipe,
        device="cpu",
        batch_size=16 if recipe == "paper" else 32,
        sub_batch=5 if recipe == "paper" else 16,
        **{"epochs": 3, **choices},
    )
    passes = made.training.model_copy(update={"passes": 2 if recipe == "paper" else 1})
    return made.model_copy(update={"network": made.network.model_copy(update={"width": 4}), "training": passes})


def through_a_file(state):
    """As a process finds it that goes on from a checkpoint."""
    return from_bytes(to_bytes(state))


def weights(result: FitResult) -> bytes:
    return b"".join(tensor.contiguous().numpy().tobytes() for tensor in result.network.state_dict().values())


def plain(result: FitResult) -> list[dict[str, object]]:
    """The history but for its clocks."""
    clocks = ("seconds", "images_per_second")
    return [{k: v for k, v in record.as_json().items() if k not in clocks} for record in result.history]


def assert_same(resumed: FitResult, unbroken: FitResult) -> None:
    assert weights(resumed) == weights(unbroken)
    assert resumed.label_features.tobytes() == unbroken.label_features.tobytes()
    assert plain(resumed) == plain(unbroken)
    for one, other in zip(resumed.snapshots, unbroken.snapshots, strict=True):
        np.testing.assert_array_equal(one, other)
    seconds = [record.seconds for record in resumed.history]
    assert seconds == sorted(seconds)


CASES = {
    "paper": settings("paper"),
    "paper with patience": settings("paper", patience=1, epochs=4),
    "fast": settings("fast", epochs=7),
    "fast in 16 bits": settings("fast", epochs=7, precision="bf16-mixed"),
    "fast with patience": settings("fast", epochs=7, patience=1, learning_rate=1e-9),
}


@pytest.mark.parametrize("name", CASES)
def test_gone_on_from_any_step_and_stage_it_is_the_same_run(name):
    keeper = Keeper()
    unbroken = fit(images(), CASES[name], keeper=keeper)
    assert_same(fit(images(), CASES[name]), unbroken)  # to take states changes nothing
    n = len(keeper.states)
    assert n > 10
    # In the first and in the last iteration, in its middle, before and after its end; and after every stage.
    chosen = [0, n // 3, n // 2, n // 2 + 1, n - 2, n - 1] if "patience" not in name else [n // 2, n - 1]
    for state in [*(keeper.states[step] for step in chosen), *keeper.stages]:
        assert_same(fit(images(), CASES[name], keeper=Keeper(kept=through_a_file(state))), unbroken)


def poisoned(monkeypatch, steps: range):
    """A fit in which a gradient is not a number at these steps, counted from the beginning of the unbroken run."""
    build_network = training.build_network

    def fit_after(done: int, chosen: Settings, keeper: Keeper) -> FitResult:
        step = done

        def hook(gradient):
            nonlocal step
            step += 1
            return gradient * (math.nan if step in steps else 1.0)

        def build(settings):
            network = build_network(settings)
            next(network.parameters()).register_hook(hook)
            return network

        monkeypatch.setattr(training, "build_network", build)
        return fit(images(), chosen, keeper=keeper)

    return fit_after


# In `paper` an iteration has six steps, in `fast` two: a sound step lies between the good state and the first poison.
@pytest.mark.parametrize(("name", "first"), [("paper", 9), ("fast", 6)])
def test_gone_on_around_steps_that_are_not_finite_it_goes_back_to_the_same_good_state(monkeypatch, name, first):
    fit_after, keeper = poisoned(monkeypatch, range(first, first + 3)), Keeper()
    unbroken = fit_after(0, CASES[name], keeper)
    assert sum(record.skipped_steps for record in unbroken.history) == 3
    assert [action for record in unbroken.history for action in record.actions] == [
        "went back to the last good state 1 times"
    ]
    for done in range(first - 3, first + 5):
        state = through_a_file(keeper.states[done - 1])
        assert_same(fit_after(done, CASES[name], Keeper(kept=state)), unbroken)


def test_a_run_may_be_broken_off_again_and_again():
    unbroken = fit(images(), CASES["fast"])
    kept = None
    while True:
        keeper = Keeper(kept, break_off_after=3)
        try:
            result = fit(images(), CASES["fast"], keeper=keeper)
            break
        except _BrokenOff:
            kept = keeper.states[-1]
    assert_same(result, unbroken)


@pytest.mark.parametrize("recipe", ["paper", "fast"])
def test_of_a_time_budget_only_the_rest_is_left_to_a_resumed_run(recipe):
    broken = Keeper(break_off_after=3)
    long = settings(recipe, epochs=None, minutes=60)
    with pytest.raises(_BrokenOff):
        fit(images(), long, keeper=broken)
    state = broken.states[-1]
    assert 0 < state["budget"]["seconds"] < 60
    state["budget"]["seconds"] = 3600.0 - 1e-3
    resumed = Keeper(kept=state)
    fit(images(), long, keeper=resumed)
    # The steps that each stage makes at least, and no more.
    assert len(resumed.states) <= 6


def test_no_state_is_asked_for_unless_the_keeper_wants_it():
    class Asks(Keeper):
        def after_step(self, state):
            assert callable(state)

    fit(images(), settings("paper", epochs=1), keeper=Asks())


def test_a_state_that_does_not_fit_is_an_error_that_names_the_part():
    broken = Keeper(break_off_after=1)
    with pytest.raises(_BrokenOff):
        fit(images(), CASES["paper"], keeper=broken)
    (state,) = broken.states
    name, tensor = next(iter(state["network"].items()))
    state["network"][name] = torch.zeros(1, *tensor.shape)
    with pytest.raises(InputError, match="the state of 'network' in the checkpoint does not fit this run"):
        fit(images(), CASES["paper"], keeper=Keeper(kept=state))


# Indices and counts of a state that may be a stranger's.


def places(tree):
    """Where a tree holds anything but text and fractions: the holder, and the key in it."""
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
        if not isinstance(tree[key], (str, float)):
            yield tree, key
        if isinstance(tree[key], (dict, list)):
            yield from places(tree[key])


def damaged_array(array: np.ndarray, draw: random.Random) -> np.ndarray:
    kind = draw.randrange(6)
    if kind < 3 and array.size:
        changed = array.copy()
        extremes = [-1, -45, 3, 44, 2**31 - 1] if array.dtype.kind == "i" else [math.nan, math.inf, -1.0]
        changed.flat[draw.randrange(array.size)] = draw.choice(extremes)
        return changed
    if kind == 3:
        return array[: len(array) // 2]
    if kind == 4:
        return np.concatenate([array, array])
    return array[..., None] if draw.random() < 0.5 else array.astype(np.float64 if array.dtype.kind == "i" else int)


def damaged_value(value: object, draw: random.Random) -> object:
    if isinstance(value, np.ndarray):
        return damaged_array(value, draw)
    if isinstance(value, torch.Tensor):
        return torch.from_numpy(damaged_array(value.numpy(), draw))
    if isinstance(value, list):
        return draw.choice([[], value[:-1], value * 2])
    if isinstance(value, dict):
        return draw.choice([{}, None, []])
    return draw.choice([-1, 1, 44, 10**6, 2**63, 10**400, None, math.inf, "x"])


def refused_or_whole(chosen: Settings, state) -> bool:
    """Whether a state was refused; if not, the training must come to its end."""
    try:
        fit(images(), chosen, keeper=Keeper(kept=state))
    except InputError:
        return True
    return False


@pytest.mark.parametrize("name", ["paper", "fast"])
def test_a_state_with_indices_out_of_range_is_refused_or_the_training_ends_well(name):
    keeper = Keeper()
    fit(images(), CASES[name], keeper=keeper)
    whole = next(state for state in reversed(keeper.states[:-1]) if state.get("stage", {"steps": 1})["steps"] == 1)
    refused = 0
    for number in range(60):
        draw, state = random.Random(f"{name}-{number}"), copy.deepcopy(whole)
        parts = [part for part in ("batches", "course", "stage") if part in state]
        holder, key = draw.choice([place for part in parts for place in places(state[part])])
        holder[key] = damaged_value(holder[key], draw)
        refused += refused_or_whole(CASES[name], state)
    assert 20 < refused < 60


def test_every_index_of_a_state_is_looked_at():
    keepers = {name: Keeper() for name in ("paper", "fast")}
    for name, keeper in keepers.items():
        fit(images(), CASES[name], keeper=keeper)
    paper, quick = (copy.deepcopy(keepers[name].states[-2]) for name in ("paper", "fast"))
    fresh = np.random.default_rng(0)
    course = Course(44, 3, 16, 5, fresh, torch.device("cpu"))
    fast_course = FastCourse(44, 3, CASES["fast"].fast.rounds, warm_up_share=0.5)
    stage = FastStage(StageBudget(EpochBudget(1), 1.0), 44, 3, patience=None)
    for part, state, array in (
        (RandomBatches(44, 16, fresh), paper["batches"], paper["batches"]["order"]),
        (course, paper["course"], paper["course"]["current"]["batch"]),
        (course, paper["course"], paper["course"]["current"]["sub_batches"]["order"]),
        (fast_course, quick["course"], quick["course"]["parts_before"]),
        (fast_course, quick["course"], quick["course"]["cut"]["close"]),
        (stage, quick["stage"], quick["stage"]["batches"][0]),
    ):
        part.restore(state)
        for wrong in (-1, 44, 2**31 - 1):
            right, array.flat[-1] = array.flat[-1], wrong
            with pytest.raises(ValueError, match="an index is out of range"):
                part.restore(state)
            array.flat[-1] = right


def test_a_round_beyond_the_last_is_refused_as_it_would_never_end():
    course = FastCourse(44, 3, rounds=2, warm_up_share=0.5)
    state = course.state()
    for round_, over, fits in (
        (0, False, True),
        (1, False, True),
        (2, True, True),
        (2, False, False),
        (3, True, False),
    ):
        state |= {"round": round_, "over": over}
        with contextlib.nullcontext() if fits else pytest.raises(ValueError, match="a count is out of range"):
            course.restore(state)


@pytest.mark.parametrize("share", [-0.1, 1.1, math.inf, math.nan])
def test_a_share_that_is_none_is_refused_as_the_round_would_never_end(share):
    course = FastCourse(44, 3, rounds=2, warm_up_share=0.5)
    for name in ("end_of_warm_up", "end_of_round"):
        with pytest.raises(ValueError, match="a share is out of range"):
            course.restore(course.state() | {name: share})
    with pytest.raises(ValueError, match="a share is out of range"):
        StageBudget(EpochBudget(1), 1.0).restore({"begin": share})


def test_random_numbers_go_on():
    def generators():
        return np.random.default_rng(3), torch.Generator().manual_seed(3)

    numpy_random, torch_random = generators()
    numpy_random.random(5), torch.rand(5, generator=torch_random)
    state = copy.deepcopy(RandomState(numpy_random, torch_random).state())
    numbers = numpy_random.random(5), torch.rand(5, generator=torch_random)
    fresh = generators()
    RandomState(*fresh).restore(state)
    np.testing.assert_array_equal(fresh[0].random(5), numbers[0])
    assert torch.equal(torch.rand(5, generator=fresh[1]), numbers[1])


def test_an_optimizer_goes_on_with_its_momenta():
    def stepped(n, kept=None):
        weight = torch.nn.Parameter(torch.ones(3))
        optimizer = torch.optim.Adam([weight], lr=0.1)
        if kept is not None:
            weight.data.copy_(kept[0])
            OptimizerState(optimizer).restore(kept[1])
        for _ in range(n):
            optimizer.zero_grad()
            weight.pow(3).sum().backward()
            optimizer.step()
        return weight.detach().clone(), copy.deepcopy(OptimizerState(optimizer).state())

    assert torch.equal(stepped(2, stepped(3))[0], stepped(5)[0])
    kept = stepped(1)
    kept[1]["optimizers"][0]["memories"][0]["exp_avg"] = torch.ones(4)
    with pytest.raises(ValueError, match="momentum of shape"):
        stepped(1, kept)


def test_a_part_takes_its_state_once():
    class Counter:
        count = 0

        def state(self):
            return {"count": self.count}

        def restore(self, state):
            self.count = state["count"]

    parts = Parts({"counter": {"count": 3}, "gone": {}})
    assert parts.add("counter", Counter()).count == 3
    assert parts.add("counter", Counter()).count == 0
    parts.add("other", Counter())
    parts.drop("other")
    assert parts.state() == {"counter": {"count": 0}}
