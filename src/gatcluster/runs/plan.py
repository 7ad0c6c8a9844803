"""``resume.json``: everything that is needed to go on with a run that is not finished.

It is there from before the first image is read until the run is whole. Settings and the fingerprint of the data come
into it when training begins.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from gatcluster.choices import Format
from gatcluster.config import Settings, checked_settings
from gatcluster.data.detect import check_format
from gatcluster.data.images import ImageSet
from gatcluster.errors import InputError
from gatcluster.runs.files import named_write_errors, write_json
from gatcluster.runs.folder import library_versions
from gatcluster.runs.layout import RESUME
from gatcluster.runs.untrusted import check_path, one_line, read_json

FORMAT: Final = 1  # of this file and of the checkpoints; grows when older ones could no longer be gone on from
DEFAULT_CHECKPOINT_MINUTES: Final = 2.0

_HASHED_BYTES: Final = 1 << 27  # of a larger set, images at even distances are looked at
_HASHED_AT_ONCE: Final = 1 << 24


@dataclass(frozen=True)
class Plan:
    """What a run was begun with.

    ``choices`` are arguments of :func:`~gatcluster.prepare.prepare`, for a run that was interrupted before its images
    were read. ``source`` is None for images that were no files.
    """

    source: str | None  # resolved
    source_format: Format | None
    given: str | None = None  # the source as the user named it, which may show in the names of images
    folder: str = field(default_factory=lambda: str(Path.cwd()))  # and where
    choices: dict[str, Any] = field(default_factory=dict)
    with_report: bool = True
    cache: str | None = None  # a folder, "off", or None for the default
    checkpoint_minutes: float = DEFAULT_CHECKPOINT_MINUTES
    versions: dict[str, str] = field(default_factory=library_versions)
    threads: int = field(default_factory=torch.get_num_threads)
    settings: Settings | None = None  # None until training begins
    fingerprint: dict[str, Any] | None = None

    def begun(self, settings: Settings, images: ImageSet) -> Plan:
        """The plan of a run whose training begins."""
        return replace(self, settings=settings, fingerprint=fingerprint(images))

    def write(self, run: Path) -> None:
        """Write it to a run folder."""
        settings = None if self.settings is None else self.settings.model_dump(mode="json")
        with named_write_errors(run):
            write_json(run / RESUME, {"format": FORMAT, **asdict(replace(self, settings=None)), "settings": settings})

    def identity(self) -> dict[str, Any]:
        """What a checkpoint must have been made with."""
        assert self.settings is not None
        identity = {
            "format": FORMAT,
            "gatcluster": self.versions["gatcluster"],
            "settings": self.settings.model_dump(mode="json"),
            "fingerprint": self.fingerprint,
        }
        return dict(json.loads(json.dumps(identity)))

    @contextmanager
    def same_folder(self) -> Iterator[Path]:
        """The source as it was named, in the folder in which it was named so."""
        if self.given is None:
            raise InputError("its images came from memory: GATCluster.resume(run, X) goes on with it")
        if Path(self.given).is_absolute() or str(Path.cwd()) == self.folder:
            yield Path(self.given)
            return
        before = Path.cwd()
        try:
            os.chdir(self.folder)
        except OSError as error:
            raise InputError(f"cannot look for {self.given} in {self.folder}: {error.strerror or error}") from None
        try:
            yield Path(self.given)
        finally:
            os.chdir(before)

    @contextmanager
    def same_threads(self) -> Iterator[None]:
        """As many threads as the run was begun with: another number would add in another order."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def fingerprint(images: ImageSet) -> dict[str, Any]:
    """By which it is told whether images are the same: their number, shape, names, and a hash of their pixels."""
    n_images = len(images)
    image_bytes = max(1, int(np.prod(images.pixels.shape[1:])) * images.pixels.dtype.itemsize)
    chosen = np.unique(np.linspace(0, n_images - 1, max(1, min(n_images, _HASHED_BYTES // image_bytes))).astype(int))
    content = hashlib.sha256()
    step = max(1, _HASHED_AT_ONCE // image_bytes)
    for start in range(0, len(chosen), step):
        content.update(np.asarray(images.pixels[chosen[start : start + step]], order="C").tobytes())
    return {
        "images": n_images,
        "shape": list(images.pixels.shape[1:]),
        "kind": str(images.pixels.dtype),
        "names": hashlib.sha256("\0".join(images.names).encode("utf-8", "surrogateescape")).hexdigest(),
        "content": content.hexdigest(),
    }


def check_same_images(plan: Plan, images: ImageSet) -> None:
    """Refuse to go on with other images than the run was begun with."""
    if plan.fingerprint is None:
        return
    now, then = fingerprint(images), plan.fingerprint
    if now == then:
        return
    if now["images"] != then.get("images"):
        what = f"{now['images']} images, but the run was begun with {then.get('images')}"
    elif now["names"] != then.get("names"):
        what = "images of other names than the run was begun with"
    else:
        what = "images with other pixels than the run was begun with"
    raise InputError(f"{plan.source or 'X'} has {what}: give back what was there, or fit again with --overwrite")


def read_plan(run: Path, tell: Callable[[str], None]) -> Plan:
    """The plan of a run that is not finished.

    Args:
        run: its folder.
        tell: called with what the user should know, such as libraries of other versions.

    Raises:
        InputError: there is none, or it cannot be gone on with.
    """
    path = run / RESUME
    try:
        tree = read_json(path)
        if not isinstance(tree, dict):
            raise ValueError("it holds no plan")
        _check_versions(run, tree, tell)
        return _plan(tree)
    except InputError as error:
        raise InputError(f"cannot resume {run}: {one_line(error)}") from None
    except Exception as error:  # hostile plans may provoke anything
        raise InputError(f"{path} is damaged: {one_line(error)}; fit again with --overwrite") from None


def _plan(tree: dict[str, Any]) -> Plan:
    kinds: dict[str, tuple[type, ...]] = {
        "source": (str, type(None)),
        "source_format": (str, type(None)),
        "given": (str, type(None)),
        "folder": (str,),
        "choices": (dict,),
        "with_report": (bool,),
        "cache": (str, type(None)),
        "checkpoint_minutes": (int, float),
        "versions": (dict,),
        "threads": (int,),
        "settings": (dict, type(None)),
        "fingerprint": (dict, type(None)),
    }
    for name, kind in kinds.items():
        if name not in tree or not isinstance(tree[name], kind):
            raise ValueError(f"no proper '{name}' in it")
    if isinstance(tree["threads"], bool) or not 1 <= tree["threads"] <= 4096:
        raise ValueError(f"{one_line(tree['threads'])} threads")
    if isinstance(tree["checkpoint_minutes"], bool) or not 0 <= tree["checkpoint_minutes"] <= 1e6:
        raise ValueError("no proper 'checkpoint_minutes' in it")
    if not all(isinstance(number, str) for number in tree["versions"].values()):
        raise ValueError("no proper 'versions' in it")
    for name in ("source", "given", "folder", "cache"):
        check_path(tree[name] or "")
    _check_choices(tree["choices"])
    if (tree["settings"] is None) != (tree["fingerprint"] is None):
        raise ValueError("settings or fingerprint are missing")
    known = {name: tree[name] for name in kinds}
    known["settings"] = None if tree["settings"] is None else checked_settings(tree["settings"])
    if known["settings"] is not None and not known["settings"].n_clusters <= tree["fingerprint"]["images"]:
        raise ValueError("it has more clusters than images")
    known["source_format"] = None if tree["source_format"] is None else check_format(tree["source_format"])
    return Plan(**known)


def _check_choices(choices: dict[str, Any]) -> None:
    """Refuse what :func:`~gatcluster.prepare.prepare` has no argument for, or of which it could make no sense."""
    for name, value in choices.items():
        check = _CHOICES.get(name)
        if check is None or not (value is None or check(value)):
            raise ValueError(f"no proper choice of '{one_line(name)}' in it")
    if any(choices.get(name, 0) is None for name in ("n_clusters", "seed", "watch")):
        raise ValueError("choices are missing")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**32


def _is_number(value: Any) -> bool:
    return _is_whole(value) or isinstance(value, float)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_size(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, list) and len(value) == 2 and all(map(_is_whole, value)))


_CHOICES: Final[dict[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("n_clusters", "seed", "epochs", "batch_size", "sub_batch", "patience", "passes"), _is_whole),
    **dict.fromkeys(("minutes", "learning_rate"), _is_number),
    **dict.fromkeys(("recipe", "preset", "resize", "augment", "colour", "device", "precision", "memory"), _is_text),
    "image_size": _is_size,
    "watch": lambda value: isinstance(value, bool),
}


def _check_versions(run: Path, tree: dict[str, Any], tell: Callable[[str], None]) -> None:
    """Refuse what another program began; tell of other libraries."""
    now, then = library_versions(), tree["versions"]
    if tree.get("format") != FORMAT or then.get("gatcluster") != now["gatcluster"]:
        raise InputError(
            f"it was begun by gatcluster {then.get('gatcluster')}, and this is {now['gatcluster']}: "
            "finish it with that version, or fit again with --overwrite"
        )
    others = [f"{name} {then[name]} (now {now[name]})" for name in now if name in then and then[name] != now[name]]
    if others:
        tell(f"{run} was begun with {', '.join(others)}: its result may differ in the last digits from an unbroken run")
