"""The images of a run, found again."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from PIL import Image

from gatcluster.errors import InputError
from gatcluster.prepare import read_like
from gatcluster.runs.folder import load_run
from gatcluster.runs.layout import DEMO_IMAGES
from gatcluster.runs.source import run_images


def write_photos(folder, count=6, size=(30, 20)):
    folder.mkdir()
    random = np.random.default_rng(0)
    for number in range(count):
        pixels = random.integers(0, 256, (*size, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((size[1] * 4, size[0] * 4)).save(folder / f"{number}.png")
    return folder


def test_some_images_are_what_the_network_was_trained_on(tmp_path, untrained_run):
    photos = write_photos(tmp_path / "photos")
    run = load_run(untrained_run(tmp_path / "run", photos, 2, size=(16, 16)))
    everything = read_like(photos, run.settings().images)
    some = run_images(run).for_network([4, 1])
    np.testing.assert_array_equal(some.pixels, everything.pixels[[4, 1]])


def test_pictures_have_the_detail_of_the_source_and_show_what_the_network_saw(tmp_path, untrained_run):
    photos = write_photos(tmp_path / "photos")  # 120 high, 80 wide
    run = load_run(untrained_run(tmp_path / "run", photos, 2, size=(16, 16)))
    picture = run_images(run).picture(2, longest=240)
    assert picture.size == (80, 80)  # the square that was cut, no larger than it is in the file
    assert run_images(run).picture(2, longest=40).size == (40, 40)
    assert run_images(run).picture(2, longest=4).size == (16, 16)


def test_images_that_came_or_went_do_not_shift_the_others(tmp_path, untrained_run):
    photos = write_photos(tmp_path / "photos")
    run = load_run(untrained_run(tmp_path / "run", photos, 2, size=(16, 16)))
    before = run_images(run).for_network([5])
    (photos / "2.png").unlink()
    shutil.copy(photos / "0.png", photos / "00.png")
    after = run_images(run)
    assert [after.is_there(index) for index in range(6)] == [True, True, False, True, True, True]
    np.testing.assert_array_equal(after.for_network([5]).pixels, before.pixels)


def test_a_path_that_a_list_names_twice_is_two_images(tmp_path, untrained_run):
    write_photos(tmp_path / "photos", 2)
    (tmp_path / "photos" / "list.txt").write_text("1.png\n0.png\n1.png\n")
    run = load_run(untrained_run(tmp_path / "run", tmp_path / "photos" / "list.txt", 2))
    assert run_images(run).positions.tolist() == [0, 1, 2]


def test_plain_pixels(tmp_path, untrained_run):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 12, 10), dtype=np.uint8)
    np.save(tmp_path / "x.npy", pixels)
    run = load_run(untrained_run(tmp_path / "run", tmp_path / "x.npy", 2, size=(16, 16)))
    images = run_images(run)
    np.testing.assert_array_equal(np.asarray(images.picture(3, 100).convert("L")), pixels[3])
    everything = read_like(tmp_path / "x.npy", run.settings().images)
    np.testing.assert_array_equal(images.for_network([3, 0]).pixels, everything.pixels[[3, 0]])


def test_the_demos_images_are_found_after_its_run_was_moved(tmp_path, untrained_run):
    write_photos(tmp_path / DEMO_IMAGES)
    run = untrained_run(tmp_path / "run", tmp_path / DEMO_IMAGES, 2)
    shutil.move(tmp_path / DEMO_IMAGES, run / DEMO_IMAGES)
    assert run_images(load_run(run)).is_there(5)


def test_a_source_that_is_gone_is_named(tmp_path, untrained_run):
    photos = write_photos(tmp_path / "photos")
    run = load_run(untrained_run(tmp_path / "run", photos, 2))
    shutil.rmtree(photos)
    with pytest.raises(InputError, match=r"no such file or folder: .*photos"):
        run_images(run)


def test_a_file_that_was_damaged_since_is_named(tmp_path, untrained_run):
    photos = write_photos(tmp_path / "photos")
    run = load_run(untrained_run(tmp_path / "run", photos, 2))
    (photos / "3.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"cannot read image 3\.png again"):
        run_images(run).picture(3, 50)
