"""``history.jsonl``: one line of JSON for each outer iteration."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Final

from gatcluster.learning.history import Record
from gatcluster.runs.untrusted import lines_of, one_line, parsed_json

_LARGEST: Final = 2**53  # of whole numbers: that of JavaScript, which the report is written in


def history_lines(history: Sequence[Record]) -> bytes:
    """Records as the bytes of the file."""
    return "".join(json.dumps(record.as_json()) + "\n" for record in history).encode()


def read_history(path: Path, n_clusters: int | None) -> list[Record]:
    """The records of a run with k clusters, if that is known.

    Raises:
        ValueError: a line is no record, or one of its values is not of its kind.
    """
    return [_record(line, number, n_clusters) for number, line in enumerate(lines_of(path), start=1)]


def _record(line: str, number: int, n_clusters: int | None) -> Record:
    tree = parsed_json(line.encode("utf-8", "surrogateescape"))
    if not isinstance(tree, dict):
        raise ValueError(f"line {number} is no record")
    for field in fields(Record):
        if field.name not in tree:
            if field.default is MISSING and field.default_factory is MISSING:
                raise ValueError(f"line {number} has no '{field.name}'")
        elif not _CHECKS[str(field.type)](tree[field.name]):
            raise ValueError(f"line {number}: no proper '{field.name}' in it")
    unknown = sorted(set(tree) - {field.name for field in fields(Record)})
    if unknown:
        raise ValueError(f"line {number} has an unknown '{one_line(unknown[0])}'")
    record = Record(**tree)
    if n_clusters is not None and len(record.cluster_sizes) not in (0, n_clusters):
        raise ValueError(f"line {number} has sizes of {len(record.cluster_sizes)} clusters, not of {n_clusters}")
    return record


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (
        isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(check(part) for part in value)


_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {
    "str": _is_text,
    "int": _is_whole,
    "float": lambda value: _is_number(value) and math.isfinite(value),
    "float | None": lambda value: value is None or _is_number(value),
    "dict[str, float]": lambda value: isinstance(value, dict) and all(_is_number(part) for part in value.values()),
    "list[int]": _is_list_of(_is_whole),
    "list[str]": _is_list_of(_is_text),
}
