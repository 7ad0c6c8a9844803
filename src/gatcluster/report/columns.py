"""Columns of numbers and texts for the report's page, as small scripts.

A page that was opened from disk may not read files, but it may load scripts. A column is therefore the base64 of its
bytes in a call; base64 has no quote, no ``<`` and no line end, so nothing in a name can leave the string it stands in.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# numpy's names of number formats, and JavaScript's.
_KINDS: Final = {
    "uint8": "Uint8Array",
    "uint16": "Uint16Array",
    "int16": "Int16Array",
    "uint32": "Uint32Array",
    "float32": "Float32Array",
}


def numbers_script(name: str, numbers: NDArray[Any]) -> bytes:
    r"""A script that gives the page a typed array, flattened row by row.

    >>> numbers_script("clusters", np.array([1, 2], dtype=np.uint16))
    b'gatcluster.column("clusters", "Uint16Array", "AQACAA==");\n'
    """
    little = numbers if sys.byteorder == "little" else numbers.byteswap()
    return _script(name, _KINDS[numbers.dtype.name], np.ascontiguousarray(little).tobytes())


def texts_script(name: str, texts: Sequence[str]) -> bytes:
    """A script that gives the page texts: where each ends, in bytes, and then all of them in UTF-8.

    Bytes of a file's name that are no UTF-8 stay what they are.
    """
    encoded = [text.encode("utf-8", "surrogateescape") for text in texts]
    ends = np.cumsum([len(part) for part in encoded], dtype=np.uint32)
    count = np.array([len(encoded)], dtype=np.uint32)
    return _script(name, "texts", count.astype("<u4").tobytes() + ends.astype("<u4").tobytes() + b"".join(encoded))


def values_script(name: str, tree: Any) -> bytes:
    """A script that gives the page plain data; all of it is ASCII, and nothing in it looks like markup."""
    text = json.dumps(tree, ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
    return f"gatcluster.values({json.dumps(name)}, {text});\n".encode("ascii")


def in_16_bits(shares: NDArray[Any]) -> NDArray[np.uint16]:
    """Numbers of [0, 1] as whole numbers of [0, 65535].

    >>> in_16_bits(np.array([0.0, 0.5, 1.0])).tolist()
    [0, 32768, 65535]
    """
    whole: NDArray[np.uint16] = np.round(np.clip(shares, 0, 1) * 65535).astype(np.uint16)
    return whole


def _script(name: str, kind: str, content: bytes) -> bytes:
    text = base64.b64encode(content)
    return b'gatcluster.column("%s", "%s", "%s");\n' % (name.encode("ascii"), kind.encode("ascii"), text)
