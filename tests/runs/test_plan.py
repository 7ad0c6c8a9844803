"""``resume.json``: what it takes to go on, and when that is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from gatcluster.config import ImageSettings, make_settings
from gatcluster.data.images import ImageSet
from gatcluster.data.joined import JoinedPixels
from gatcluster.errors import InputError
from gatcluster.runs import plan as plans
from gatcluster.runs.plan import Plan, check_same_images, fingerprint, read_plan

N = 20


def images(seed: int = 0, n: int = N, prefix: str = "") -> ImageSet:
    pixels = np.random.default_rng(seed).integers(0, 256, (n, 8, 8, 1)).astype(np.uint8)
    return ImageSet(pixels, [f"{prefix}{i}.png" for i in range(n)])


def plan() -> Plan:
    form = ImageSettings(size=(8, 8), channels=1, grey=True, augment="glyph")
    settings = make_settings(n_clusters=3, n_images=N, images=form, seed=7, epochs=2)
    return Plan("/photos", "folder", given="photos", choices={"n_clusters": 3, "image_size": None}).begun(
        settings, images()
    )


def test_a_plan_comes_back_as_it_was(tmp_path):
    begun = plan()
    told: list[str] = []
    for written in (begun, replace(begun, settings=None, fingerprint=None)):
        written.write(tmp_path)
        assert read_plan(tmp_path, told.append) == written
    assert told == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"threads": 0}, "damaged"),
        ({"settings": {"n_clusters": 3}}, "cannot resume"),
        ({"settings": "all of them"}, "no proper 'settings'"),
        ({"fingerprint": None}, "damaged"),
        ({"choices": None}, "no proper 'choices'"),
        ({"source_format": "floppy"}, "unknown format"),
        ({"format": 99}, "begun by gatcluster"),
        ({"versions": {"gatcluster": "0.0.1"}}, r"begun by gatcluster 0\.0\.1, and this is"),
        ({"versions": []}, "damaged"),
    ],
)
def test_a_plan_that_cannot_be_gone_on_with_is_an_error_that_says_why(tmp_path, change, message):
    plan().write(tmp_path)
    path = tmp_path / "resume.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=message):
        read_plan(tmp_path, lambda _: None)


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_a_file_that_is_no_plan_is_an_error(tmp_path, text):
    (tmp_path / "resume.json").write_text(text)
    with pytest.raises(InputError, match=r"resume\.json is damaged"):
        read_plan(tmp_path, lambda _: None)


def test_other_libraries_are_told_and_not_refused(tmp_path):
    begun = plan()
    replace(begun, versions={**begun.versions, "torch": "1.0"}).write(tmp_path)
    told: list[str] = []
    read_plan(tmp_path, told.append)
    assert "begun with torch 1.0 (now " in told[0]
    assert "may differ in the last digits" in told[0]


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (images(n=19), "19 images, but the run was begun with 20"),
        (images(prefix="new-"), "images of other names"),
        (images(seed=1), "images with other pixels"),
    ],
)
def test_other_images_are_refused(others, message):
    check_same_images(plan(), images())
    with pytest.raises(InputError, match=f"/photos has {message}"):
        check_same_images(plan(), others)


def test_a_fingerprint_does_not_depend_on_how_pixels_are_held(monkeypatch):
    one = images()
    joined = replace(one, pixels=JoinedPixels([one.pixels[:7], one.pixels[7:]]))
    turned = replace(one, pixels=np.asfortranarray(one.pixels))
    whole = fingerprint(one)
    monkeypatch.setattr(plans, "_HASHED_AT_ONCE", 3 * 64)
    assert fingerprint(one) == fingerprint(joined) == fingerprint(turned) == whole


def test_of_a_large_set_images_at_even_distances_are_looked_at(monkeypatch):
    monkeypatch.setattr(plans, "_HASHED_BYTES", 5 * 64)
    changed = images()
    changed.pixels[0] ^= 1
    assert fingerprint(changed) != fingerprint(images())
    changed = images()
    changed.pixels[-1] ^= 1
    assert fingerprint(changed) != fingerprint(images())


def test_odd_names_have_fingerprints():
    odd = ImageSet(np.zeros((1, 8, 8, 1), np.uint8), [b"caf\xe9.png".decode("utf-8", "surrogateescape")])
    assert fingerprint(odd) == fingerprint(odd)


def test_the_number_of_threads_is_that_of_the_run_for_a_while():
    before = torch.get_num_threads()
    with replace(plan(), threads=before + 1).same_threads():
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_a_relative_source_is_looked_for_where_it_was_named(tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    named = replace(plan(), given="photos", folder=str(tmp_path / "there"))
    with named.same_folder() as source:
        assert source.absolute() == tmp_path / "there" / "photos"
    assert source.absolute() == tmp_path / "here" / "photos"
    with (
        pytest.raises(InputError, match="cannot look for photos in"),
        replace(named, folder=str(tmp_path / "gone")).same_folder(),
    ):
        pytest.fail("must not begin")
    with pytest.raises(InputError, match=r"GATCluster\.resume"), replace(named, given=None).same_folder():
        pytest.fail("must not begin")
