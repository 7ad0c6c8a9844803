from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps, PngImagePlugin

from gatcluster.data import decode as decoding
from gatcluster.data.cache import decoded_images
from gatcluster.data.decode import DEFAULT_SIDE, decode
from gatcluster.data.files import ImageFiles, find_image_files
from gatcluster.data.images import ImageSet
from gatcluster.errors import InputError

FORMATS = {
    ".jpg": {"quality": 100, "subsampling": 0},
    ".jpeg": {"quality": 100, "subsampling": 0},
    ".png": {},
    ".webp": {"lossless": True},
    ".bmp": {},
    ".tif": {},
    ".tiff": {"compression": "tiff_lzw"},
    ".gif": {},
}
ORIENTATION = 0x0112  # of EXIF


def smooth_picture(height: int = 24, width: int = 32) -> Image.Image:
    """Four flat quarters: red, green, blue, white."""
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    top, left = slice(0, height // 2), slice(0, width // 2)
    bottom, right = slice(height // 2, None), slice(width // 2, None)
    pixels[top, left], pixels[top, right] = (255, 0, 0), (0, 255, 0)
    pixels[bottom, left], pixels[bottom, right] = (0, 0, 255), (255, 255, 255)
    return Image.fromarray(pixels)


def flat(path: Path, value: int = 100, size: tuple[int, int] = (10, 10), mode: str = "L") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode == "L" else (value, 0, 0)).save(path)
    return path


def read(folder: Path, size: tuple[int, int] | None = (10, 10), channels: int | None = 1) -> ImageSet:
    names = find_image_files(folder)
    return decoded_images(ImageFiles([folder / name for name in names], names), size, channels, "crop")


# Formats and colours.


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_is_decoded(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    smooth_picture().save(path, **FORMATS[suffix])
    pixels = decode(path, (24, 32), 3, "crop")
    assert pixels.dtype == np.uint8
    assert np.abs(pixels.astype(int) - np.asarray(smooth_picture())).max() <= 2


def test_of_an_animation_the_first_frame_counts(tmp_path):
    frames = [Image.new("L", (10, 10), value) for value in (50, 200)]
    frames[0].save(tmp_path / "x.gif", save_all=True, append_images=frames[1:])
    frames[0].save(tmp_path / "x.tif", save_all=True, append_images=frames[1:])
    assert np.unique(decode(tmp_path / "x.gif", (10, 10), 1, "crop")).tolist() == [50]
    assert np.unique(decode(tmp_path / "x.tif", (10, 10), 1, "crop")).tolist() == [50]


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp"])
def test_photos_are_turned_upright_by_their_exif_orientation(tmp_path, orientation, suffix):
    upright = smooth_picture(24, 32)
    undo = {  # what the camera stored, for each orientation
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    stored = upright.transpose(undo[orientation]) if orientation in undo else upright
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    path = tmp_path / f"x{suffix}"
    stored.save(path, exif=exif, **FORMATS[suffix])
    pixels = decode(path, (24, 32), 3, "crop").astype(int)
    corners = [pixels[2, 2], pixels[2, -3], pixels[-3, 2], pixels[-3, -3]]
    expected = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)]
    assert np.abs(np.array(corners) - expected).max() <= 4


def test_grey_files_become_colour_when_asked(tmp_path):
    path = flat(tmp_path / "x.png", value=90)
    assert np.unique(decode(path, (10, 10), 3, "crop")).tolist() == [90]


def test_colour_files_become_grey_by_lightness_when_asked(tmp_path):
    smooth_picture().save(tmp_path / "x.png")
    pixels = decode(tmp_path / "x.png", (24, 32), 1, "crop")[..., 0]
    assert [pixels[0, 0], pixels[0, -1], pixels[-1, 0], pixels[-1, -1]] == [76, 150, 29, 255]  # BT.601


def test_palette_images_show_their_colours_and_not_their_indices(tmp_path):
    smooth_picture().quantize(4).save(tmp_path / "x.png")
    assert Image.open(tmp_path / "x.png").mode == "P"
    assert np.array_equal(decode(tmp_path / "x.png", (24, 32), 3, "crop"), np.asarray(smooth_picture()))


@pytest.mark.parametrize("suffix", [".png", ".webp", ".tif"])
def test_transparency_is_laid_over_white(tmp_path, suffix):
    pixels = np.zeros((10, 10, 4), dtype=np.uint8)
    pixels[..., 0] = 200
    pixels[:, 3:6, 3], pixels[:, 6:, 3] = 128, 255
    Image.fromarray(pixels).save(tmp_path / f"x{suffix}", **({"lossless": True} if suffix == ".webp" else {}))
    decoded = decode(tmp_path / f"x{suffix}", (10, 10), 3, "squash")[0]
    assert decoded[0].tolist() == [255, 255, 255]
    half = [255 * (1 - 128 / 255) + value * 128 / 255 for value in (200, 0, 0)]
    assert np.abs(decoded[4] - np.array(half)).max() <= 1
    assert decoded[9].tolist() == [200, 0, 0]


def test_grey_with_alpha_is_laid_over_white(tmp_path):
    pixels = np.zeros((10, 10, 2), dtype=np.uint8)
    pixels[:, 5:, 1] = 255
    Image.fromarray(pixels, "LA").save(tmp_path / "x.png")
    decoded = decode(tmp_path / "x.png", (10, 10), 1, "squash")[0, :, 0]
    assert (decoded[0], decoded[-1]) == (255, 0)


@pytest.mark.parametrize("suffix", [".png", ".gif"])
def test_a_transparent_palette_entry_is_laid_over_white(tmp_path, suffix):
    image = Image.new("P", (10, 10), 1)
    image.putpalette([0, 0, 0, 10, 20, 30])
    image.paste(0, (0, 0, 5, 10))
    image.save(tmp_path / f"x{suffix}", transparency=0)
    decoded = decode(tmp_path / f"x{suffix}", (10, 10), 3, "squash")[0]
    assert decoded[0].tolist() == [255, 255, 255]
    assert decoded[9].tolist() == [10, 20, 30]


def test_a_transparent_colour_is_laid_over_white(tmp_path):
    image = Image.new("RGB", (10, 10), (1, 2, 3))
    image.paste((9, 9, 9), (5, 0, 10, 10))
    image.save(tmp_path / "x.png", transparency=(1, 2, 3))
    decoded = decode(tmp_path / "x.png", (10, 10), 3, "squash")[0]
    assert decoded[0].tolist() == [255, 255, 255]
    assert decoded[9].tolist() == [9, 9, 9]


@pytest.mark.parametrize("suffix", [".jpg", ".tif"])
def test_cmyk_becomes_rgb(tmp_path, suffix):
    Image.new("CMYK", (10, 10), (0, 255, 255, 0)).save(tmp_path / f"x{suffix}")
    pixel = decode(tmp_path / f"x{suffix}", (10, 10), 3, "crop")[5, 5].astype(int)
    assert np.abs(pixel - [255, 0, 0]).max() <= 4


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_16_bit_greys_are_scaled_to_8_bits(tmp_path, suffix):
    values = np.linspace(0, 65535, 100).astype(np.uint16).reshape(10, 10)
    Image.fromarray(values).save(tmp_path / f"x{suffix}")
    decoded = decode(tmp_path / f"x{suffix}", (10, 10), 1, "crop")[..., 0]
    assert np.abs(decoded - values / 257).max() <= 1


def test_a_dark_16_bit_image_stays_dark(tmp_path):
    Image.fromarray(np.full((10, 10), 250, dtype=np.uint16)).save(tmp_path / "x.png")
    assert decode(tmp_path / "x.png", (10, 10), 1, "crop").max() <= 1


def test_1_bit_images_are_black_and_white(tmp_path):
    image = Image.new("1", (10, 10), 0)
    image.paste(1, (5, 0, 10, 10))
    for suffix in (".png", ".bmp", ".tif", ".gif"):
        image.save(tmp_path / f"x{suffix}")
        decoded = decode(tmp_path / f"x{suffix}", (10, 10), 1, "squash")[0, :, 0]
        assert decoded.tolist() == [0] * 5 + [255] * 5


# Size.


def test_crop_keeps_the_middle_and_its_shape(tmp_path):
    image = Image.new("RGB", (30, 10), (255, 0, 0))
    image.paste((0, 0, 255), (10, 0, 20, 10))
    image.save(tmp_path / "wide.png")
    image.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "tall.png")
    for name in ("wide.png", "tall.png"):
        assert np.unique(decode(tmp_path / name, (10, 10), 3, "crop").reshape(-1, 3), axis=0).tolist() == [[0, 0, 255]]


def test_squash_keeps_all_of_the_image(tmp_path):
    image = Image.new("L", (30, 10), 0)
    image.paste(255, (15, 0, 30, 10))
    image.save(tmp_path / "x.png")
    row = decode(tmp_path / "x.png", (10, 10), 1, "squash")[5, :, 0]
    assert row[:4].tolist() == [0] * 4
    assert row[-4:].tolist() == [255] * 4
    assert np.all(np.diff(row.astype(int)) >= 0)


@pytest.mark.parametrize("resize", ["crop", "squash"])
def test_size_is_height_then_width(tmp_path, resize):
    smooth_picture(24, 32).save(tmp_path / "x.png")
    assert decode(tmp_path / "x.png", (7, 20), 3, resize).shape == (7, 20, 3)


def test_a_large_jpeg_read_at_reduced_scale_looks_like_the_whole_one(tmp_path):
    large = smooth_picture(600, 800)
    large.save(tmp_path / "x.jpg", **FORMATS[".jpg"])
    decoded = decode(tmp_path / "x.jpg", (24, 32), 3, "squash").astype(int)
    expected = np.asarray(large.resize((32, 24), Image.Resampling.BILINEAR), dtype=int)
    assert np.abs(decoded - expected).mean() < 3


def test_small_images_of_one_size_keep_it(tmp_path):
    for i in range(3):
        flat(tmp_path / f"{i}.png", size=(28, 20))
    assert read(tmp_path, None, None).size == (20, 28)


def test_large_or_mixed_images_are_brought_to_one_square_size(tmp_path):
    for i, size in enumerate([(500, 300), (300, 400), (200, 200)]):
        flat(tmp_path / "large" / f"{i}.png", size=size)
        flat(tmp_path / "alike" / f"{i}.png", size=(300, 200))
    assert read(tmp_path / "large", None, None).size == (DEFAULT_SIDE, DEFAULT_SIDE)
    assert read(tmp_path / "alike", None, None).size == (DEFAULT_SIDE, DEFAULT_SIDE)


def test_small_mixed_images_are_not_blown_up(tmp_path):
    for i, size in enumerate([(20, 30), (40, 22), (24, 24)]):
        flat(tmp_path / f"{i}.png", size=size)
    assert read(tmp_path, None, None).size == (22, 22)


def test_a_damaged_file_does_not_decide_the_size_or_the_colour(tmp_path):
    flat(tmp_path / "a.png", size=(12, 12))
    (tmp_path / "b.jpg").write_text("not an image")
    images = read(tmp_path, None, None)
    assert (images.size, images.channels) == ((12, 12), 1)


def test_grey_files_have_one_channel_and_one_coloured_file_makes_it_three(tmp_path):
    flat(tmp_path / "a.png")
    Image.new("1", (10, 10)).save(tmp_path / "b.png")
    Image.new("LA", (10, 10)).save(tmp_path / "c.png")
    Image.fromarray(np.zeros((10, 10), dtype=np.uint16)).save(tmp_path / "d.png")
    assert read(tmp_path, None, None).channels == 1
    flat(tmp_path / "e.png", mode="RGB")
    assert read(tmp_path, None, None).channels == 3


def test_one_wish_leaves_the_other_to_the_files(tmp_path):
    flat(tmp_path / "a.png", size=(12, 12))
    assert read(tmp_path, (8, 9), None).pixels.shape == (1, 8, 9, 1)
    assert read(tmp_path, None, 3).pixels.shape == (1, 12, 12, 3)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tif"])
def test_the_natural_size_of_a_turned_image_is_its_size_when_upright(tmp_path, orientation, suffix):
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    smooth_picture(24, 32).save(tmp_path / f"x{suffix}", exif=exif, **FORMATS[suffix])
    upright = ImageOps.exif_transpose(Image.open(tmp_path / f"x{suffix}"))
    assert upright.height == (24 if orientation < 5 else 32)
    assert read(tmp_path, None, None).size == (upright.height, upright.width)


# Deep greys.


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 0.5, 1.0], [0, 128, 255]),
        ([0.0, 127.5, 255.0], [0, 128, 255]),
        ([0.0, 32767.5, 65535.0], [0, 128, 255]),
        ([-1.0, 5e5, 1e6], [0, 128, 255]),
        ([float("nan"), 0.5, 1.0], [0, 128, 255]),
        ([0.0, 0.0, 0.0], [0, 0, 0]),
    ],
)
def test_float_images_are_scaled_from_the_range_they_use(tmp_path, values, expected):
    pixels = np.repeat(np.array(values, dtype=np.float32), 10)[None].repeat(10, axis=0)
    Image.fromarray(pixels).save(tmp_path / "x.tif")
    assert Image.open(tmp_path / "x.tif").mode == "F"
    assert decode(tmp_path / "x.tif", (10, 30), 1, "crop")[5, [5, 15, 25], 0].tolist() == expected


# Reduced scale.


@pytest.mark.parametrize("resize", ["crop", "squash"])
@pytest.mark.parametrize("orientation", [1, 6])
@pytest.mark.parametrize("shape", [(400, 1600), (1600, 400), (130, 131)])
@pytest.mark.parametrize("size", [(32, 64), (64, 32), (48, 48), (65, 64)])
def test_a_reduced_jpeg_is_never_smaller_than_what_is_wanted(tmp_path, monkeypatch, resize, orientation, shape, size):
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    Image.new("RGB", shape).save(tmp_path / "x.jpg", exif=exif)
    seen: list[tuple[int, int]] = []
    original = decoding._flattened

    def watched(upright, mode):
        seen.append((upright.height, upright.width))
        return original(upright, mode)

    monkeypatch.setattr(decoding, "_flattened", watched)
    decode(tmp_path / "x.jpg", size, 3, resize)
    height, width = shape if orientation == 6 else shape[::-1]  # a Pillow size is width, then height
    scale = max(scale for scale in (1, 2, 4, 8) if height // size[0] >= scale and width // size[1] >= scale)
    assert seen == [(-(-height // scale), -(-width // scale))]
    assert seen[0] >= size
    assert seen[0][1] >= size[1]


def test_a_photo_read_at_reduced_scale_is_as_good_as_one_that_was_reduced_afterwards(tmp_path):
    random = np.random.default_rng(0)
    rough = Image.fromarray(random.integers(0, 256, (40, 40, 3), dtype=np.uint8))
    photo = rough.resize((512, 512), Image.Resampling.BICUBIC)
    photo.save(tmp_path / "x.jpg", quality=95)
    with Image.open(tmp_path / "x.jpg") as whole:
        expected = np.asarray(whole.resize((64, 64), Image.Resampling.LANCZOS)).astype(float)
    error = decode(tmp_path / "x.jpg", (64, 64), 3, "crop") - expected
    noise_ratio = 10 * np.log10(255**2 / (error**2).mean())
    assert noise_ratio > 30


# Broken input.


def broken_files(folder: Path) -> dict[str, str]:
    """Broken files among good ones, with what the reason must say."""
    content = io.BytesIO()
    smooth_picture(200, 200).save(content, "JPEG")
    (folder / "b-truncated.jpg").write_bytes(content.getvalue()[: len(content.getvalue()) // 2])
    (folder / "d-empty.png").touch()
    (folder / "f-text.jpg").write_text("I am a text file.\n" * 100)
    (folder / "h-gone.png").symlink_to(folder / "nowhere")
    return {
        "b-truncated.jpg": "truncated",
        "d-empty.png": "not an image",
        "f-text.jpg": "not an image",
        "h-gone.png": "No such file",
    }


def test_broken_files_are_skipped_with_a_reason_and_all_good_ones_are_read_under_their_names(tmp_path):
    good = {"a.png": 10, "c.png": 20, "e.png": 30, "g.png": 40, "z.png": 50}
    for name, value in good.items():
        flat(tmp_path / name, value)
    reasons = broken_files(tmp_path)
    images = read(tmp_path)
    assert images.names == list(good)
    assert images.pixels[:, 5, 5, 0].tolist() == list(good.values())
    assert [file.name for file in images.skipped] == list(reasons)
    for file in images.skipped:
        assert reasons[file.name] in file.reason
        assert "\n" not in file.reason


def test_when_no_file_can_be_read_the_error_names_the_first_and_its_reason(tmp_path):
    broken_files(tmp_path)
    with pytest.raises(InputError, match=r"none of the 4 images.*b-truncated\.jpg.*truncated"):
        read(tmp_path)


def test_a_wrong_suffix_does_not_matter(tmp_path):
    flat(tmp_path / "x.png", 60).rename(tmp_path / "x.jpg")
    assert read(tmp_path).pixels[0, 0, 0, 0] == 60


@pytest.mark.parametrize("times_the_limit", [1.5, 3])
def test_a_decompression_bomb_is_skipped_and_no_warning_is_shown(tmp_path, monkeypatch, times_the_limit):
    flat(tmp_path / "a.png", 10)
    flat(tmp_path / "bomb.png", 20, size=(100, 100))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", int(100 * 100 / times_the_limit))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        images = read(tmp_path, None, None)
    assert images.names == ["a.png"]
    assert [file.name for file in images.skipped] == ["bomb.png"]
    assert "bomb" in images.skipped[0].reason


def test_a_decoder_that_raises_something_odd_costs_one_file_only(tmp_path, monkeypatch):
    for name in ("a.png", "b.png", "c.png"):
        flat(tmp_path / name)
    original = PngImagePlugin.PngImageFile.load

    def load(self, *args):
        if getattr(self.fp, "name", "").endswith("b.png"):
            raise IndexError("deep inside a decoder")
        return original(self, *args)

    monkeypatch.setattr(PngImagePlugin.PngImageFile, "load", load)
    images = read(tmp_path)
    assert images.names == ["a.png", "c.png"]
    assert images.skipped[0].reason == "deep inside a decoder"


def test_an_error_without_words_still_gives_a_reason(tmp_path, monkeypatch):
    flat(tmp_path / "a.png")
    flat(tmp_path / "b.png")
    original = Image.open

    def fail(file, *args, **kwargs):
        if Path(file.name).name == "b.png":
            raise PermissionError
        return original(file, *args, **kwargs)

    monkeypatch.setattr(Image, "open", fail)
    assert [file.reason for file in read(tmp_path).skipped] == ["PermissionError"]


def encoded(suffix: str) -> bytes:
    content = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (16, 20, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    options = {"exif": exif} if suffix in ("jpeg", "png", "webp") else {}
    Image.fromarray(noise).save(content, suffix, **options)
    return content.getvalue()


ENCODED = {suffix: encoded(suffix) for suffix in ("jpeg", "png", "webp", "bmp", "tiff", "gif")}


@given(
    suffix=st.sampled_from(sorted(ENCODED)),
    cut=st.floats(0, 1),
    flips=st.lists(st.tuples(st.floats(0, 0.999), st.integers(1, 255)), max_size=4),
)
@settings(max_examples=150, deadline=None)
def test_files_cut_or_damaged_anywhere_never_stop_the_others(tmp_path_factory, suffix, cut, flips):
    content = bytearray(ENCODED[suffix])
    for position, change in flips:
        content[int(position * len(content))] ^= change
    content = content[: int(cut * len(content))]
    folder = tmp_path_factory.mktemp("damaged")
    flat(folder / "a.png", 10)
    (folder / f"b.{suffix}").write_bytes(content)
    flat(folder / "c.png", 30)
    images = read(folder)
    good = dict(zip(images.names, images.pixels[:, 5, 5, 0], strict=True))
    assert (good["a.png"], good["c.png"]) == (10, 30)
    assert len(images.names) + len(images.skipped) == 3


def test_progress_counts_every_file_also_the_broken_ones(tmp_path):
    flat(tmp_path / "a.png")
    broken_files(tmp_path)
    names = find_image_files(tmp_path)
    seen: list[tuple[int, int]] = []
    files = ImageFiles([tmp_path / name for name in names], names)
    decoded_images(files, None, None, "crop", lambda *counts: seen.append(counts))
    assert seen[-1] == (5, 5)
