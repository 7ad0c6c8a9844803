"""Names that every file system takes and that lead nowhere, from any text."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_LONGEST: Final = 180  # bytes; file systems take 255, and a number may follow
_LONGEST_ENDING: Final = 20
_FORBIDDEN: Final = re.compile(r'[/\\:;*?"<>|]')  # a separator somewhere, or taken for a pattern
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})  # may break lines or reverse text
_JOINERS: Final = frozenset("\u200c\u200d")  # belong to some scripts
_RESERVED: Final = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)  # by Windows


def safe_name(text: str) -> str:
    r"""A name for a file or folder: one part of a path, visible, not special to any common system, at most 180 bytes.

    >>> safe_name("../../etc/passwd"), safe_name("cats\nand dogs"), safe_name("nul.png"), safe_name("")
    ('_.._.._etc_passwd', 'cats_and dogs', '_nul.png', '_')
    """
    text = unicodedata.normalize("NFC", text)
    text = "".join("_" if unicodedata.category(c) in _INVISIBLE and c not in _JOINERS else c for c in text)
    text = _FORBIDDEN.sub("_", text).strip().rstrip(". ")
    if text.startswith((".", "-", "~")):  # hidden, taken for an option, or for a home
        text = f"_{text}" if text.startswith((".", "~")) else f"_{text[1:]}"
    if not text or _RESERVED.fullmatch(text):
        text = f"_{text}"
    return _shortened(text)


def _shortened(text: str) -> str:
    """At most so many bytes, with the ending of the name kept."""
    if len(text.encode()) <= _LONGEST:
        return text
    stem, dot, ending = text.rpartition(".")
    if not stem or len(ending.encode()) > _LONGEST_ENDING:
        stem, dot, ending = text, "", ""
    room = _LONGEST - len((dot + ending).encode())
    return stem.encode()[:room].decode(errors="ignore").rstrip(". ") + dot + ending


class FreeNames:
    """Hands out safe names within one folder, each once, also where upper and lower case are the same.

    >>> names = FreeNames()
    >>> names.take("a.png"), names.take("A.png"), names.take("a-2.png")
    ('a.png', 'A-2.png', 'a-2-2.png')
    """

    def __init__(self, *taken: str) -> None:
        self._taken = {_folded(name) for name in taken}
        self._next: dict[str, int] = {}  # so that thousands of equal names do not each count from the start

    def take(self, text: str) -> str:
        """A safe name for ``text`` that was not handed out before."""
        name = safe_name(text)
        if _folded(name) not in self._taken:
            self._taken.add(_folded(name))
            return name
        stem, dot, ending = name.rpartition(".")
        if not stem:
            stem, dot, ending = name, "", ""
        number = self._next.get(_folded(name), 2)
        while _folded(candidate := f"{stem}-{number}{dot}{ending}") in self._taken:
            number += 1
        self._next[_folded(name)] = number + 1
        self._taken.add(_folded(candidate))
        return candidate


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKD", name).casefold())
