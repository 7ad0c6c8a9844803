"""A memory budget is kept, or refused with what would do; without one, nothing changes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types

import numpy as np
import pytest
import torch

from gatcluster import resume
from gatcluster.data import workers as workers_module
from gatcluster.data.workers import Workers, workers_within
from gatcluster.errors import InputError
from gatcluster.estimator import GATCluster
from gatcluster.learning import memory as memory_module
from gatcluster.learning.callbacks import Callback
from gatcluster.learning.memory import Cost, parsed_memory
from gatcluster.prepare import prepare

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read as on Linux")


def photos(n: int = 64, side: int = 32) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, side, side, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    "text", ["", "2", "GB", "-2GB", "two GB", "2 GB extra", "nan", "1e400GB", "9" * 400, "2PB", "0GB"]
)
def test_what_is_no_amount_of_memory_is_refused(text):
    if text == "2":
        assert parsed_memory(text) == 2  # bytes: too little for anything, and refused as such
    else:
        with pytest.raises(InputError, match="cannot use memory"):
            parsed_memory(text)


def test_a_cost_is_a_line_through_two_peaks():
    cost = Cost(fixed=100.0, per_image=10.0)
    assert cost.of(4) == pytest.approx(1.2 * 140)
    assert cost.most_images(cost.of(7) + 1) == 7
    assert cost.most_images(10.0) < 0


class StraightProbe(memory_module._Probe):
    """400 bytes are taken; a step of n images takes 10 n more at its peak."""

    def __init__(self):
        self._device = torch.device("cpu")
        self._images = types.SimpleNamespace(pixels=np.empty((1, 1)))
        self.sizes: list[int] = []

    def in_use(self) -> int:
        return 400

    def _peak(self, run) -> int:
        run()
        return 10 * self.sizes[-1]


@pytest.mark.parametrize(("memory", "largest"), [(1000, 12), (500, 6), (399, 12)])
def test_measuring_takes_no_more_than_there_is_unless_all_is_taken_already(memory, largest):
    probe = StraightProbe()
    cost = probe._cost(probe.sizes.append, memory)
    assert max(probe.sizes) == largest
    assert probe.sizes.index(largest) < len(probe.sizes) - 2  # once before what counts: the first of a size is no guide
    assert cost == Cost(fixed=0.0, per_image=10.0)


@pytest.mark.parametrize("recipe", ["paper", "fast"])
def test_too_little_is_refused_with_the_least_that_will_do_and_that_will_do(recipe):
    told: list[str] = []

    def prepared(memory: str):
        return prepare(photos(), n_clusters=3, seed=0, recipe=recipe, epochs=1, memory=memory, tell=told.append)[1]

    with pytest.raises(InputError, match=r"too little for images of 32x32: at least [\d.]+GB is needed") as caught:
        prepared("50MB")
    least = re.search(r"at least ([\d.]+)GB", str(caught.value))
    assert least is not None
    settings = prepared(f"{float(least[1]) + 0.1:.1f}GB")  # memory in use differs a little from call to call
    assert settings.memory == pytest.approx((float(least[1]) + 0.1) * 1e9, rel=1e-6)
    assert settings.training.sub_batch >= 2
    assert len(told) <= 1


def test_a_sub_batch_that_the_user_chose_is_refused_if_it_does_not_fit_and_shrinks_otherwise():
    images, told = photos(512, 64), []
    arguments = {"n_clusters": 3, "seed": 0, "recipe": "paper", "epochs": 1, "batch_size": 512, "tell": told.append}
    with pytest.raises(InputError) as caught:
        prepare(images, memory="50MB", **arguments)
    least = re.search(r"at least ([\d.]+)GB", str(caught.value))
    assert least is not None
    memory = f"{float(least[1]) + 0.2:.1f}GB"
    with pytest.raises(InputError, match=r"a sub-batch of 512 images takes [\d.]+GB, more than the memory .* at most"):
        prepare(images, memory=memory, sub_batch=512, **arguments)
    assert not told


WITHIN = """
import re, sys
import numpy as np, torch
from gatcluster import GATCluster
from gatcluster.learning import memory
torch.set_num_threads(1)
memory._rounded_up = lambda n_bytes: f"{n_bytes / 1e9:.3f}GB"  # not to 0.1 GB, in which many images have room
recipe, n = sys.argv[1], int(sys.argv[2])
images = np.random.default_rng(0).integers(0, 256, (n, 96, 96, 3), dtype=np.uint8)
try:
    GATCluster(3, recipe=recipe, epochs=1, random_state=0, memory=10**9 // 20).fit(images)
except ValueError as error:  # memory in use differs from call to call, by some 20 MB
    budget = int((float(re.search(r"at least ([\\d.]+)GB", str(error))[1]) + 0.06) * 1e9)
fitted = GATCluster(3, recipe=recipe, epochs=1, random_state=0, memory=budget).fit(images)
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
print(budget, peak, fitted.settings_.training.sub_batch)
"""


@pytest.mark.parametrize(("recipe", "n", "least", "usual"), [("paper", 40, 2, 32), ("fast", 112, 16, 28)])
def test_a_run_stays_within_its_budget_with_smaller_steps_than_usual(recipe, n, least, usual):
    command = [sys.executable, "-W", "ignore", "-c", WITHIN, recipe, str(n)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    memory, peak, sub_batch = map(int, done.stdout.split())
    assert least <= sub_batch < usual
    assert peak < memory


FLAT = """
import sys
import numpy as np, torch
from gatcluster import GATCluster
from gatcluster.learning.memory import _forget_peak, _give_back, _status
torch.set_num_threads(1)
images = np.random.default_rng(0).integers(0, 256, (600, 32, 32, 3), dtype=np.uint8)
def growth(images, batch_size):
    _give_back()
    _forget_peak()
    before = _status("VmRSS")
    arguments = {"recipe": "paper", "epochs": 1, "passes": 1, "random_state": 0}
    GATCluster(3, batch_size=batch_size, sub_batch=16, **arguments).fit(images)
    return _status("VmHWM") - before
growth(images[:40], 40)  # what is made once
print(growth(images, 100), growth(images, 600))
"""


def test_the_peak_of_paper_does_not_depend_on_the_size_of_a_batch():
    # Large blocks straight from the system, and back to it: else the peak is also one of how they came to lie.
    allocator = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    command = [sys.executable, "-W", "ignore", "-c", FLAT]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | allocator)
    small, large = map(int, done.stdout.split())
    pixels_of_the_difference = 500 * 32 * 32 * 3 * 4  # 6 MB as floats; their features would be several times that
    assert large - small < 0.8 * pixels_of_the_difference  # by chance it is up to 2 MB
    assert small > 10 << 20  # something was measured


def test_a_model_within_a_budget_is_saved_and_loaded_with_it(tmp_path):
    model = GATCluster(2, epochs=1, random_state=0, memory="50GB").fit(photos(20, 8))
    model.save(tmp_path / "run")
    assert GATCluster.load(tmp_path / "run").memory == 50 * 10**9
    plain = GATCluster(2, epochs=1, random_state=0).fit(photos(20, 8))
    np.testing.assert_array_equal(model.label_features_, plain.label_features_)
    assert model.settings_ == plain.settings_.model_copy(update={"memory": 50 * 10**9})


def test_only_as_many_workers_start_as_fit():
    for memory, count in ((1, 1), (10**14, 2)):
        with workers_within(memory), Workers(3, count=2) as workers:
            assert workers._idle.qsize() == count
            assert sorted(result for _, result in workers.run(max, [1, 5, 9])) == [3, 5, 9]
    with Workers(3, count=2) as workers:
        assert workers._idle.qsize() == 2


def test_where_peaks_cannot_be_measured_a_budget_is_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_module, "_CLEAR_REFS", tmp_path / "missing" / "clear_refs")
    with pytest.raises(InputError, match=r"cannot be written \(No such file or directory\): leave out") as caught:
        prepare(photos(), n_clusters=3, seed=0, epochs=1, memory="50GB")
    assert "\n" not in str(caught.value)
    prepare(photos(), n_clusters=3, seed=0, epochs=1)  # without a budget, nothing is measured


class StopAtOnce(Callback):
    def on_progress(self, progress):
        raise KeyboardInterrupt


@pytest.mark.parametrize("memory", [None, 50 * 10**9])
def test_a_resumed_run_reads_its_images_within_its_budget(tmp_path, monkeypatch, memory):
    model = GATCluster(2, epochs=1, random_state=0, memory=memory, run=tmp_path / "run", callbacks=[StopAtOnce()])
    with pytest.raises(KeyboardInterrupt):
        model.fit(photos(20, 8))
    read_like, seen = resume.read_like, []

    def noted(*arguments):
        seen.append(workers_module._memory.get())
        return read_like(*arguments)

    monkeypatch.setattr(resume, "read_like", noted)
    GATCluster.resume(tmp_path / "run", photos(20, 8))
    assert seen == [memory]
