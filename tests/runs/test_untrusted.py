"""Runs from strangers: whatever is in them, reading works or is refused with one line, and costs little."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import resource
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from gatcluster.errors import InputError
from gatcluster.estimator import GATCluster
from gatcluster.evaluation.metrics import evaluate_clusters
from gatcluster.experiments.info import run_facts
from gatcluster.learning.snapshots import Snapshots
from gatcluster.learning.state import Parts, RandomState
from gatcluster.report.site import write_report
from gatcluster.runs.checkpoints import Checkpoints
from gatcluster.runs.folder import RunFolder, load_run
from gatcluster.runs.labels import read_labels, write_labels
from gatcluster.runs.layout import CHECKPOINTS
from gatcluster.runs.plan import Plan, fingerprint, read_plan
from gatcluster.runs.skipped import read_skipped
from gatcluster.runs.snapshots import write_snapshots
from gatcluster.runs.untrusted import read_npz

K = 3
MUTATIONS = int(os.environ.get("GATCLUSTER_MUTATIONS", "2400"))
SEED = int(os.environ.get("GATCLUSTER_SEED", "0"))
_MOST_MEMORY = 600 << 20  # bytes beyond what the process has: what a single load may take at the very most

# Values that are extreme, of another kind, or lead somewhere.
EXTREME: list[Any] = [
    None, True, False, 0, -1, 1, 2, 2**31, 2**63, 2**64, 10**12, 10**30, 10**400, -(10**400), 0.5, -0.0, 1e308, 1e-320,
    float("inf"), float("-inf"), float("nan"), "", "0", "x" * 5000, "../../etc/passwd", "/dev/zero", "C:\\x", "a\0b",
    "\ud800", "\udce9", "\n\x1b[2J", "=1+1", [], {}, [[]], [0] * 1000, [None], {"": {}}, {"path": "x"}, "fast", "paper",
    4096, 1024, 10**9,
]  # fmt: skip


@pytest.fixture(scope="module")
def whole(written, names, tmp_path_factory) -> Path:
    """A run with every file that one may have."""
    path = Path(shutil.copytree(written, tmp_path_factory.mktemp("whole") / "run"))
    run = load_run(path)
    run.write_metrics(evaluate_clusters(list("aaabbb"), run.clusters()[1]))
    write_labels(path, names, ["=a", "b", None, "-b", "'a", "b"])
    features = np.random.default_rng(0).random((4, 5, K)).astype(np.float16)
    write_snapshots(
        path / "snapshots.npz", Snapshots(np.arange(5), ["start", "clustering", "x", "y"], [0, 0.3, 0.5, 1], features)
    )
    return path


READERS: dict[str, Callable[[RunFolder], object]] = {
    "config.json": lambda run: (load_run(run.path), run.settings(), run.source_format(), run.network()),
    "model.safetensors": RunFolder.network,
    "clusters.csv": RunFolder.clusters,
    "label_features.npy": RunFolder.label_features,
    "history.jsonl": RunFolder.history,
    "snapshots.npz": RunFolder.snapshots,
    "metrics.json": RunFolder.metrics,
    "skipped.csv": lambda run: read_skipped(run.path),
    "evaluated-labels.csv": lambda run: read_labels(run.path, 6),
}


# The mutator.


def mutated_bytes(content: bytes, random: random.Random) -> bytes:
    """The content with a few bytes flipped, cut off, put in, left out or doubled; most often near the beginning."""
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        reach = len(changed) if random.random() < 0.4 else min(len(changed), 400)
        at = random.randrange(reach) if reach else 0
        kind = random.randrange(6)
        if kind == 0 and changed:
            changed[at] ^= 1 << random.randrange(8)
        elif kind == 1 and changed:
            changed[at] = random.choice(b'\x00\xff\x80\x7f09-{}[]",\n\r')
        elif kind == 2:
            del changed[at:]
        elif kind == 3:
            changed[at:at] = random.choice(
                (b"\x00" * 9, b"9" * 30, b"[" * 50_000, b'"', b"\xff\xfe", b"\n", b",,,", random.randbytes(20))
            )
        elif kind == 4:
            del changed[at : at + random.choice((1, 8, 64))]
        else:
            changed[at:at] = changed[at : at + 200]
    return bytes(changed)


def mutated_tree(tree: Any, random: random.Random) -> Any:
    """Plain data with a value anywhere in it put in another's place, left out, or given another name."""
    tree = json.loads(json.dumps(tree))
    places = list(_places(tree))
    holder, key = random.choice(places)
    if isinstance(holder, dict) and random.random() < 0.15:
        del holder[key]
    elif isinstance(holder, dict) and random.random() < 0.1:
        holder[random.choice(("", "x", "__class__", "a\nb", "x" * 3000))] = holder.pop(key)
    elif random.random() < 0.1:
        other, other_key = random.choice(places)
        holder[key] = other[other_key]
    else:
        holder[key] = random.choice(EXTREME)
    return tree


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
        yield tree, key
        if isinstance(tree[key], (dict, list)):
            yield from _places(tree[key])


def dumped(tree: Any) -> bytes:
    try:
        return json.dumps(tree).encode()
    except (ValueError, RecursionError):  # a tree that was put into itself
        return b"[" * 100_000


def mutated_json(content: bytes, random: random.Random) -> bytes:
    return dumped(mutated_tree(json.loads(content), random))


def mutated_lines(content: bytes, random: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    at = random.randrange(len(lines))
    lines[at] = mutated_json(lines[at], random) + b"\n"
    return b"".join(lines)


def mutated_header(content: bytes, random: random.Random) -> bytes:
    """A safetensors file whose header says something else; its length is right."""
    length = int.from_bytes(content[:8], "little")
    header = mutated_json(content[8 : 8 + length], random)
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


def mutated_npy(content: bytes, random: random.Random) -> bytes:
    shape = random.choice(
        ("(6,)", "(3, 6)", "(1000000000000, 10)", "(6, 3, 1)", "()", f"({'9' * 60},)", "(-6, 3)", "(6, 3,)", "(0, 0)",
         "(" * 90, "(6.0, 3)", "(9223372036854775807, 9223372036854775807)")
    )  # fmt: skip
    kind = random.choice(("<f4", "<f4", "<f8", "|O", ">f4", "|V8", "<U9999", "<M8[s]", "|i1", "<c16"))
    order = random.choice(("False", "True", "None"))
    header = f"{{'descr': '{kind}', 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content[128:]


def mutated_npz(content: bytes, random: random.Random) -> bytes:
    """An archive, in order, whose members are not."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        names = old.namelist()
        chosen = random.choice(names)
        for name in names:
            member = old.read(name)
            if name == chosen:
                member = random.choice((mutated_bytes, mutated_npy))(member, random)
            if name != chosen or random.random() < 0.9:
                new.writestr(name, member)
    return packed.getvalue()


DEEPER: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "config.json": mutated_json,
    "metrics.json": mutated_json,
    "history.jsonl": mutated_lines,
    "model.safetensors": mutated_header,
    "label_features.npy": mutated_npy,
    "snapshots.npz": mutated_npz,
}


def check_refused_in_one_line(read: Callable[[], object], what: str) -> bool:
    """Whether reading was refused; anything but success or a proper refusal fails."""
    try:
        read()
    except InputError as error:
        message = str(error)
    except BaseException as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    else:
        return False
    assert message.isprintable(), what  # and so of one line
    assert len(message) < 1000, what
    return True


@pytest.fixture
def little_memory() -> Iterator[None]:
    """A load that would take gigabytes fails here, with a MemoryError."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MOST_MEMORY, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


# Mutations. Hypothesis draws every choice of the mutator, and finds the simplest mutation that fails.

DRAWS = st.randoms(use_true_random=False)


def mutations(share: float = 1.0) -> settings:
    """Of a test that mutates: as many examples as are asked for, the same ones every time."""
    return settings(
        max_examples=int(MUTATIONS * share),
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),  # fixtures are shared, and every test puts back what it changed
    )


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as on Linux")
@pytest.mark.usefixtures("little_memory")
def test_a_mutated_run_loads_or_is_refused_and_nothing_else(whole, tmp_path):
    path = Path(shutil.copytree(whole, tmp_path / "run"))
    run = RunFolder(path)
    contents = {name: (whole / name).read_bytes() for name in READERS}
    refusals = []

    @seed(SEED)
    @mutations()
    @given(st.sampled_from(list(READERS)), st.booleans(), DRAWS)
    def check(name: str, is_deeper: bool, draw: random.Random) -> None:
        mutate = DEEPER.get(name, mutated_bytes) if is_deeper else mutated_bytes
        try:
            (path / name).write_bytes(mutate(contents[name], draw))
            refusals.append(check_refused_in_one_line(lambda: READERS[name](run), name))
            if len(refusals) % 20 == 0:
                check_refused_in_one_line(lambda: GATCluster.load(path), f"{name}, load")
                check_refused_in_one_line(lambda: run_facts(path), f"{name}, info")
                check_refused_in_one_line(lambda: write_report(run, None), f"{name}, report")
        finally:
            (path / name).write_bytes(contents[name])

    check()
    # As many as were asked for, and the mutator neither destroys everything nor nothing.
    assert len(refusals) >= MUTATIONS
    assert 0.4 * len(refusals) < sum(refusals) < len(refusals)


def test_a_mutated_plan_is_read_or_refused_and_nothing_else(tmp_path, fit_result):
    from gatcluster.data.images import ImageSet

    images = ImageSet(np.zeros((6, 8, 8, 1), np.uint8), list("abcdef"))
    choices = {"n_clusters": 3, "seed": 0, "image_size": [8, 8], "minutes": None, "recipe": "fast", "watch": True}
    plan = Plan("/photos", "folder", given="photos", choices=choices).begun(fit_result().settings, images)
    assert plan.fingerprint == fingerprint(images)
    plan.write(tmp_path)
    content = (tmp_path / "resume.json").read_bytes()
    refusals = []

    @seed(SEED)
    @mutations(share=1 / 8)
    @given(st.sampled_from((mutated_json, mutated_bytes)), DRAWS)
    def check(mutate: Callable[[bytes, random.Random], bytes], draw: random.Random) -> None:
        (tmp_path / "resume.json").write_bytes(mutate(content, draw))
        refusals.append(check_refused_in_one_line(lambda: read_plan(tmp_path, lambda told: None), "the plan"))

    check()
    assert 0.3 * len(refusals) < sum(refusals) < len(refusals)


def mutated_insides(content: bytes, random: random.Random) -> bytes:
    """A checkpoint, in order, whose JSON inside is not."""
    tensors = safetensors.numpy.load(content)
    tree = mutated_json(tensors["json"].tobytes(), random)
    return safetensors.numpy.save({**tensors, "json": np.frombuffer(tree, np.uint8)})


def test_a_mutated_checkpoint_with_a_right_checksum_is_read_or_refused_and_nothing_else(tmp_path):
    def parts(kept: Any = None) -> Parts:
        all_parts = Parts(kept)
        all_parts.add("random", RandomState(np.random.default_rng(0), torch.Generator().manual_seed(0)))
        return all_parts

    def read(told: list[str]) -> None:
        kept = Checkpoints(tmp_path, {"format": 1}, 2, tell=told.append).kept()
        if kept is not None:
            parts(kept)

    Checkpoints(tmp_path, {"format": 1}, 2).after_stage(parts().state)
    (written,) = (tmp_path / CHECKPOINTS).iterdir()
    content = written.read_bytes()
    written.unlink()
    outcomes = set()

    @seed(SEED)
    @mutations(share=1 / 8)
    @given(st.sampled_from((mutated_bytes, mutated_header, mutated_insides)), DRAWS)
    def check(mutate: Callable[[bytes, random.Random], bytes], draw: random.Random) -> None:
        changed = mutate(content, draw)
        path = tmp_path / CHECKPOINTS / f"checkpoint-000001-{hashlib.sha256(changed).hexdigest()}.safetensors"
        path.write_bytes(changed)
        told: list[str] = []
        try:
            refused = check_refused_in_one_line(lambda: read(told), "the checkpoint")
        finally:
            path.unlink(missing_ok=True)
        outcomes.add((refused, bool(told)))

    check()
    assert outcomes >= {(True, False), (False, True)}  # some do not fit, some are damaged and passed over


# What no mutator finds.


def rewritten(run: Path, **changes: Any) -> None:
    config = json.loads((run / "config.json").read_text())
    for place, value in changes.items():
        *way, last = place.split("__")
        holder = config
        for key in way:
            holder = holder[key]
        holder[last] = value
    (run / "config.json").write_text(json.dumps(config))


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("k", [1000, 10**6, 2**31 - 1, 10**9, 10**12])
@pytest.mark.parametrize("preset", [None, "stl10"])
def test_absurd_settings_are_refused_without_memory_for_them(run_path, k, preset):
    rewritten(
        run_path,
        n_images=10**9,
        settings__n_clusters=k,
        settings__images__size=[4096, 4096],
        settings__network={"preset": preset, "width": 1024, "alpha": 0.05},
    )
    with pytest.raises(InputError, match=r"cannot be read as this run's model|config\.json is damaged"):
        load_run(run_path).network()
    with pytest.raises(InputError, match=r"label_features\.npy|config\.json is damaged"):
        load_run(run_path).label_features()


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("depth", [10**3, 10**5])
def test_json_nested_deep_is_refused(whole, tmp_path, name, depth):
    path = Path(shutil.copytree(whole, tmp_path / "run"))
    (path / name).write_bytes(b'{"a":' * depth + b"1" + b"}" * depth + b"\n")
    assert check_refused_in_one_line(lambda: READERS[name](RunFolder(path)), name)


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_in_place_of_a_file_is_refused_and_nobody_waits(whole, tmp_path, name):
    path = Path(shutil.copytree(whole, tmp_path / "run"))
    (path / name).unlink()
    os.mkfifo(path / name)
    assert check_refused_in_one_line(lambda: READERS[name](RunFolder(path)), name)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.usefixtures("little_memory")
def test_a_file_of_a_terabyte_of_nothing_is_refused(whole, tmp_path, name):
    path = Path(shutil.copytree(whole, tmp_path / "run"))
    with (path / name).open("r+b") as file:
        file.truncate(10**12)  # sparse: it takes no place on the disk
    assert check_refused_in_one_line(lambda: READERS[name](RunFolder(path)), name)


@pytest.mark.usefixtures("little_memory")
def test_a_zip_bomb_is_refused_before_it_is_unpacked(whole, tmp_path):
    path, bomb = Path(shutil.copytree(whole, tmp_path / "run")), io.BytesIO()
    with (
        zipfile.ZipFile(path / "snapshots.npz") as old,
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name) + (bytes(100 << 20) if name == "features.npy" else b""))
    (path / "snapshots.npz").write_bytes(bomb.getvalue())
    assert len(bomb.getvalue()) < 1 << 20
    with pytest.raises(InputError, match="its size is not what its header says"):
        load_run(path).snapshots()
    with pytest.raises(ValueError, match="it would unpack to 104,85"):
        read_npz(path / "snapshots.npz", 99 << 20, images=("<i8", (None,)), features=("<f2", (None, None, K)))


def test_the_weights_of_another_kind_of_number_are_refused(run_path):
    weights = safetensors.torch.load_file(run_path / "model.safetensors")
    halves = {name: tensor.half() for name, tensor in weights.items()}
    (run_path / "model.safetensors").write_bytes(safetensors.torch.save(halves))
    with pytest.raises(InputError, match="F16"):
        load_run(run_path).network()


def test_a_header_length_that_does_not_fit_the_file_is_refused(run_path):
    content = (run_path / "model.safetensors").read_bytes()
    for length in (0, 1, len(content), 2**40, 2**63, 2**64 - 1):
        (run_path / "model.safetensors").write_bytes(length.to_bytes(8, "little") + content[8:])
        with pytest.raises(InputError, match="header"):
            load_run(run_path).network()


@pytest.mark.parametrize("source", ["a\0b", "x" * 300, "x/" * 4000, "\ud800"])
def test_a_source_that_no_path_can_be_is_refused(run_path, source):
    rewritten(run_path, source=source)
    with pytest.raises(InputError, match=r"config\.json is damaged"):
        load_run(run_path)


def test_an_array_that_lies_column_by_column_is_read_as_it_is(run_path, fit_result):
    features = fit_result().label_features
    np.save(run_path / "label_features.npy", np.asfortranarray(features))
    np.testing.assert_array_equal(load_run(run_path).label_features(), features)


# Links that lead out of the run folder.


@pytest.fixture
def elsewhere(tmp_path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "precious.txt").write_text("precious")
    (folder / "index.html").write_text("a page")
    return folder


def untouched(folder: Path) -> bool:
    files = {entry.name: entry.read_text() for entry in folder.iterdir()}
    return files == {"precious.txt": "precious", "index.html": "a page"}


def test_a_lock_that_is_a_link_is_not_written_through(run_path, elsewhere):
    from gatcluster.runs.lock import locked

    (run_path / ".lock").symlink_to(elsewhere / "precious.txt")
    with pytest.raises(InputError, match="cannot lock"), locked(run_path):
        pass
    assert untouched(elsewhere)


def test_checkpoints_that_are_a_link_are_refused(run_path, elsewhere):
    (run_path / CHECKPOINTS).symlink_to(elsewhere, target_is_directory=True)
    with pytest.raises(InputError, match="is a link"):
        Checkpoints(run_path, {}, 2)
    assert untouched(elsewhere)


@pytest.mark.parametrize("name", [".previous-run", ".previous-run.part"])
def test_an_earlier_run_that_is_a_link_is_refused(run_path, elsewhere, name):
    from gatcluster.runs.create import new_run

    (run_path / name).symlink_to(elsewhere, target_is_directory=True)
    with pytest.raises(InputError, match="is a link"), new_run(run_path, overwrite=True):
        pass
    assert untouched(elsewhere)


def test_scores_are_not_written_to_a_report_that_is_a_link(run_path, elsewhere):
    from gatcluster.report.site import has_report

    (run_path / "report").symlink_to(elsewhere, target_is_directory=True)
    assert not has_report(load_run(run_path))


def test_a_link_in_place_of_a_file_is_replaced_and_not_written_through(run_path, elsewhere):
    from gatcluster.runs.files import write_bytes

    for name in ("history.jsonl", f".metrics.json.{os.getpid()}.tmp", "metrics.json"):
        (run_path / name).unlink(missing_ok=True)
        (run_path / name).symlink_to(elsewhere / "precious.txt")
    load_run(run_path).history_writer()
    write_bytes(run_path / "metrics.json", b"{}")
    assert untouched(elsewhere)
    assert not (run_path / "metrics.json").is_symlink()
