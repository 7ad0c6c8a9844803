"""Blocks of docs/results.md that are written by a program, between comments that mark them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from comparison.results import Line
from gatcluster.errors import InputError

RESULTS_PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "results.md"


def write_block(page: Path, name: str, text: str) -> None:
    """Replace what stands between the marks of a block; all around it stays. A page without the marks gets them."""
    begin, end = f"<!-- {name}: begin (written by a program, do not edit) -->", f"<!-- {name}: end -->"
    block = f"{begin}\n\n{text.strip()}\n\n{end}"
    before = page.read_text() if page.exists() else ""
    if begin not in before and end not in before:
        page.write_text(f"{before.rstrip()}\n\n{block}\n".lstrip())
        return
    if before.count(begin) != 1 or before.count(end) != 1 or before.index(begin) > before.index(end):
        raise InputError(f"{page} must hold '{begin}' and '{end}' once each, in this order: mend it by hand")
    head, rest = before.split(begin)
    page.write_text(head + block + rest.split(end)[1])


def table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A Markdown table; all columns but the first ``left`` are right-aligned."""
    marks = ["---" if column < left else "---:" for column in range(len(header))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, marks, *rows))


def circumstances(lines: Sequence[Line]) -> str:
    """Command, seeds, machine, versions, commits and dates of results, from the lines themselves."""

    def different(values: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(values))

    dates = sorted(line["date"][:10] for line in lines)
    machines = different(_described(line["hardware"]) for line in lines)
    named = ("python", "torch", "scikit-learn", "umap-learn")
    versions = different(", ".join(f"{name} {line['versions'].get(name, '?')}" for name in named) for line in lines)
    seeds = sorted({line["seed"] for line in lines})
    loads = [line["load"] for line in lines if line.get("load") is not None]
    facts = {
        "Commands": "; ".join(f"`{command}`" for command in different(line["command"] for line in lines)),
        "Seeds": ", ".join(map(str, seeds)),
        "Machine": "; ".join(machines),
        "Load when a measurement began": f"at most {max(loads, default=0):.1f}",
        "Versions": "; ".join(versions),
        "Commits": ", ".join(f"`{commit}`" for commit in different(line["commit"] for line in lines)),
        "Dates": dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}",
    }
    return "\n".join(f"- {name}: {text}" for name, text in facts.items())


def _described(hardware: dict[str, Any]) -> str:
    """A machine, in a few words; whether it computes in 16 bits was not noted at first."""
    floats = {True: ", with 16-bit floats", False: ", without 16-bit floats", None: ""}
    return (
        f"{hardware['cpu']}, {hardware['cores']} cores, {hardware['memory_bytes'] / 2**30:.0f} GB of memory"
        f"{floats[hardware.get('computes_in_16_bits')]}"
    )
