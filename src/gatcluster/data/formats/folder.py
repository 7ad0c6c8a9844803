"""A folder of image files, at any depth; or one image file."""

from __future__ import annotations

import os
from pathlib import Path

from gatcluster.data.files import ImageFiles, find_image_files
from gatcluster.errors import InputError


def folder_images(path: Path) -> ImageFiles:
    """All image files below a folder, named by their path relative to it, in the order of these names."""
    if path.is_file():
        return ImageFiles([path], [path.name])
    names = find_image_files(path)
    if not names:
        raise InputError(f"no images in {path}: it holds no file that ends in .jpg, .png, .webp, .tif, .bmp or .gif")
    return ImageFiles([f"{path}{os.sep}{name}" for name in names], names)
