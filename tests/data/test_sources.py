from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gatcluster.data.sources import names_files, read_images
from gatcluster.errors import InputError


def grey(path: Path, value: int, size: tuple[int, int] = (10, 10)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", size, value).save(path)
    return path


def array_of(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(0, 256, (n, 8, 8), dtype=np.uint8)


class Surprise:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_paths_are_told_from_arrays():
    assert names_files("photos")
    assert names_files(Path("photos"))
    assert names_files(["a.jpg", Path("b.jpg")])
    assert names_files((Path("b.jpg"),))
    assert not names_files(np.zeros((2, 8, 8)))
    assert not names_files([[0.0, 1.0]])
    assert not names_files([])


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path):
    for name, value in [("c.png", 3), ("a/z.png", 1), ("b.png", 2)]:
        grey(tmp_path / name, value)
    images = read_images(tmp_path)
    assert images.names == ["a/z.png", "b.png", "c.png"]
    assert images.pixels[:, 0, 0, 0].tolist() == [1, 2, 3]


def test_a_folder_may_be_given_as_text(tmp_path):
    grey(tmp_path / "a.png", 7)
    assert read_images(str(tmp_path)).names == ["a.png"]


def test_a_list_of_files_keeps_its_order_and_its_names_even_twice_the_same(tmp_path):
    second, first = grey(tmp_path / "a.png", 1), grey(tmp_path / "b.png", 2)
    images = read_images([first, str(second), first])
    assert images.names == [str(first), str(second), str(first)]
    assert images.pixels[:, 0, 0, 0].tolist() == [2, 1, 2]


def test_listed_files_need_no_image_suffix(tmp_path):
    file = grey(tmp_path / "a.png", 9).rename(tmp_path / "download")
    assert read_images([file]).pixels[0, 0, 0, 0] == 9


def test_a_missing_file_of_a_list_is_named(tmp_path):
    good = grey(tmp_path / "a.png", 1)
    with pytest.raises(InputError, match=r"no such file: .*gone\.png"):
        read_images([good, tmp_path / "gone.png"])


def test_a_missing_path_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no such file or folder: .*gone"):
        read_images(tmp_path / "gone")


def test_a_folder_without_images_is_an_error_that_says_what_was_looked_for(tmp_path):
    (tmp_path / "notes.txt").write_text("no image")
    with pytest.raises(InputError, match=r"no images in .*\.jpg"):
        read_images(tmp_path)


def test_one_image_file_is_a_set_of_one(tmp_path):
    images = read_images(grey(tmp_path / "a.png", 1))
    assert images.names == ["a.png"]
    assert images.pixels[0, 0, 0, 0] == 1


def test_a_file_of_no_known_kind_is_refused(tmp_path):
    (tmp_path / "notes.doc").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"cannot read .*notes\.doc: give a folder"):
        read_images(tmp_path / "notes.doc")


def test_npy_files_are_read(tmp_path):
    np.save(tmp_path / "x.npy", array_of(5))
    assert np.array_equal(read_images(tmp_path / "x.npy").pixels[..., 0], array_of(5))


def test_bytes_of_an_npy_file_stay_on_disk(tmp_path):
    np.save(tmp_path / "x.npy", array_of(5))
    pixels = read_images(tmp_path / "x.npy").pixels
    while pixels.base is not None and not isinstance(pixels, np.memmap):
        pixels = pixels.base
    assert isinstance(pixels, np.memmap)


@pytest.mark.parametrize("name", ["images", "x", "X", "whatever"])
def test_the_only_array_of_an_npz_file_is_read_whatever_its_name(tmp_path, name):
    np.savez(tmp_path / "x.npz", **{name: array_of(5)})
    assert np.array_equal(read_images(tmp_path / "x.npz").pixels[..., 0], array_of(5))


def test_of_several_arrays_in_an_npz_file_the_one_named_images_is_read(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", labels=np.arange(5), images=array_of(5))
    assert np.array_equal(read_images(tmp_path / "x.npz").pixels[..., 0], array_of(5))


def test_an_npz_file_with_several_arrays_and_no_obvious_one_lists_them(tmp_path):
    np.savez(tmp_path / "x.npz", first=array_of(5), second=array_of(4))
    with pytest.raises(InputError, match=r"2 arrays \(first, second\).*'images'"):
        read_images(tmp_path / "x.npz")


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
@pytest.mark.parametrize("keep", [0, 5, 60, -20])
def test_a_cut_off_array_file_is_an_error_that_names_it(tmp_path, suffix, keep):
    path = tmp_path / f"cut{suffix}"
    np.save(path, array_of(5)) if suffix == ".npy" else np.savez_compressed(path, images=array_of(5))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"cut\.np"):
        read_images(path)


def test_flipped_bytes_in_a_compressed_array_are_an_error_that_names_the_file(tmp_path):
    path = tmp_path / "flipped.npz"
    np.savez_compressed(path, images=array_of(50))
    content = bytearray(path.read_bytes())
    for position in range(len(content) // 2, len(content) // 2 + 20):
        content[position] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"flipped\.npz"):
        read_images(path)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_a_pickle_inside_an_array_file_is_refused_and_not_run(tmp_path, suffix):
    touched = tmp_path / "touched"
    evil = np.array([Surprise(touched)], dtype=object)
    path = tmp_path / f"evil{suffix}"
    np.save(path, evil, allow_pickle=True) if suffix == ".npy" else np.savez(path, images=evil)
    with pytest.raises(InputError, match=r"evil\.np"):
        read_images(path)
    assert not touched.exists()


def test_array_files_are_resized_like_arrays(tmp_path):
    np.save(tmp_path / "x.npy", array_of(5))
    from_file = read_images(tmp_path / "x.npy", size=(6, 12))
    assert from_file.size == (6, 12)
    assert np.array_equal(from_file.pixels, read_images(array_of(5), size=(6, 12)).pixels)


def test_the_wishes_for_files_reach_the_decoder(tmp_path):
    Image.new("RGB", (20, 10), (255, 0, 0)).save(tmp_path / "a.png")
    seen: list[tuple[int, int]] = []
    images = read_images(tmp_path, (6, 4), 1, "squash", on_progress=lambda done, total: seen.append((done, total)))
    assert images.pixels.shape == (1, 6, 4, 1)
    assert seen == [(1, 1)]
