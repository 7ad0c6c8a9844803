"""The quality benchmark: `fast`, `paper` and what a user would pick otherwise, under one time budget for each set.

    python benchmarks/quality.py --data DIR [--sets digits usps ...] [--seeds 0 1 2] [--methods fast kmeans ...]
                                 [--minutes M | --share 0.25]
    python benchmarks/quality.py --table        # writes docs/results.md and its plot from what was measured

DIR holds the data sets as their publishers give them: cifar-10-batches-bin/, mnist/ and fashion-mnist/ (idx files),
usps/ and imagenette128/ (a folder for each class). All images of a set are clustered, training and test; labels are
read when clusters are known, for the scores.

Each measurement has a process of its own and adds one line to the results. What is there already is not measured again,
so that an interrupted benchmark goes on where it stopped. Recipes are given the time as `minutes`; a peer that is not
done by then is stopped. The clock runs from the source, its images decoded and cached before, to the clusters.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from comparison.command import check_sets, end_with_measurement, written_command
from comparison.document import RESULTS_PAGE, write_block
from comparison.job import Job
from comparison.jobs import run_jobs
from comparison.methods import QUALITY_METHODS, RECIPES
from comparison.plot import plot_quality
from comparison.quality_table import quality_text
from comparison.results import read
from comparison.sets import SETS
from gatcluster.errors import InputError

RESULTS = Path(__file__).parent / "results" / "quality.jsonl"


def planned(options: argparse.Namespace) -> list[Job]:
    """All measurements, set by set; within a set seed by seed, so that an early end leaves whole rounds."""
    jobs = []
    for name in options.sets:
        chosen = SETS[name]
        for seed in options.seeds if options.seeds is not None else range(chosen.n_seeds):
            jobs += [
                Job(
                    "quality",
                    name,
                    method,
                    seed,
                    minutes=options.minutes or options.share * chosen.minutes,
                    data=None if options.data is None else str(options.data.resolve()),
                    keeps_to_time=method in RECIPES,
                )
                for method in options.methods
            ]
    return jobs


def write_table(results: Path, page: Path) -> None:
    lines = [line for line in read(results) if line["benchmark"] == "quality"]
    if not lines:
        raise InputError(f"there are no results in {results}: measure first")
    plot = page.parent / "images" / "quality.svg"
    plot_quality(lines, plot)
    text = quality_text(lines, plot, page)
    write_block(page, "quality", text)
    print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder of the data sets; the digits need none")
    parser.add_argument("--sets", nargs="+", default=[*SETS], choices=[*SETS], metavar="SET")
    parser.add_argument("--seeds", nargs="+", type=int, help="by default 0 1 2, for the last two sets 0 1")
    parser.add_argument("--methods", nargs="+", default=[*QUALITY_METHODS], choices=QUALITY_METHODS, metavar="METHOD")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, help="another time budget than the sets have")
    length.add_argument("--share", type=float, default=1.0, help="of the time budget that each set has")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where lines are added")
    parser.add_argument("--again", action="store_true", help="measure again what is there already")
    parser.add_argument("--table", action="store_true", help="measure nothing, write the table and the plot")
    parser.add_argument("--page", type=Path, default=RESULTS_PAGE, help="where the table is written")
    options = parser.parse_args()
    try:
        if not options.table:
            check_sets(options.sets, options.data)
            end_with_measurement()
            run_jobs(planned(options), options.results, options.again, written_command())
        write_table(options.results, options.page)
    except InputError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
