r"""Tables that a spreadsheet may open: no text in them is taken for a formula, and each can be read back exactly.

A cell that begins with ``=`` and the like is a formula to a spreadsheet, also one that sends data away. Text that
begins so gets a prefix: ``./`` if it is a path, which is the same file, and an apostrophe otherwise. Text that begins
with prefixes and then so gets one more, so that taking one away always gives back what was there.

Where ``;`` or a tab separates cells, what follows one is the beginning of a cell, too. The first cell of a line is safe
from that if it is quoted, and paths stand first; in all other text, an apostrophe comes after the separator.
"""

from __future__ import annotations

import re
from typing import Final

PATH: Final = "./"  # the prefix of paths
TEXT: Final = "'"  # and of all else

# What a spreadsheet takes for the beginning of a formula; the last four are the wide forms of the first.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")

_STARTS: Final = r"\s*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
_AFTER_SEPARATOR: Final = re.compile(rf"(?<=[;\t])(?='*{_STARTS})")
_MARKED: Final = re.compile(rf"(?<=[;\t])'(?='*{_STARTS})")


def harmless(text: str, prefix: str) -> str:
    """Text that no spreadsheet takes for a formula.

    >>> harmless("=1+1.png", PATH), harmless(" @x", TEXT), harmless("a=1.png", PATH), harmless("./-x", PATH)
    ('./=1+1.png', "' @x", 'a=1.png', '././-x')
    >>> harmless("a;=1+1", TEXT)
    "a;'=1+1"
    """
    if prefix == TEXT:
        text = _AFTER_SEPARATOR.sub("'", text)
    return prefix + text if _begins_like_formula(text, prefix) else text


def original(text: str, prefix: str) -> str:
    """What :func:`harmless` was given.

    >>> original("./=1+1.png", PATH), original("./a.png", PATH), original("././-x", PATH)
    ('=1+1.png', './a.png', './-x')
    """
    rest = text.removeprefix(prefix)
    text = rest if rest != text and _begins_like_formula(rest, prefix) else text
    return _MARKED.sub("", text) if prefix == TEXT else text


def _begins_like_formula(text: str, prefix: str) -> bool:
    while text.startswith(prefix):
        text = text[len(prefix) :]
    return text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA)
