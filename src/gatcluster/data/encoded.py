"""Images that still have to be decoded: files, or members of an archive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Protocol


class EncodedImages(Protocol):
    """N encoded images. Must survive pickling: worker processes decode them."""

    @property
    def names(self) -> Sequence[str]:
        """What to call each image, in a stable order."""

    def open(self, index: int) -> IO[bytes]:
        """The encoded bytes of one image, as a binary stream that can seek."""

    def fingerprint(self) -> str:
        """Changes whenever the images may have changed; quick, so from names, sizes and times, not from content."""
