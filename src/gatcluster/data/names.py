"""Names for images that have none of their own."""

from __future__ import annotations


def numbered_names(prefix: str, count: int) -> list[str]:
    """The place of each image in a file.

    >>> numbered_names("test_batch", 2)
    ['test_batch:0', 'test_batch:1']
    """
    return [f"{prefix}:{number}" for number in range(count)]
