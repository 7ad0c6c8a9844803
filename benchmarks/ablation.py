"""The ablation: what each ingredient of `fast` brings, and the paper's own ablation.

    python benchmarks/ablation.py --data DIR [--sets digits usps ...] [--seeds 0 1 2] [--minutes M | --epochs E]
    python benchmarks/ablation.py --table       # writes docs/results.md from what was measured

DIR is that of quality.py. The variants of `fast` run on digits, USPS, and 10,000 images of Fashion-MNIST and CIFAR-10,
drawn by the seed, all for the same time (or, with --epochs, for the same number of epochs: then a seed gives the same
result every time). Those of `paper` run on digits, USPS and the 10,000 images of CIFAR-10, for a number of epochs in
which about 200,000 images are seen. Results and resuming are as in quality.py.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from comparison.ablation_table import ablation_text
from comparison.command import check_sets, end_with_measurement, written_command
from comparison.document import RESULTS_PAGE, write_block
from comparison.job import Job
from comparison.jobs import run_jobs
from comparison.results import read
from comparison.sets import SETS
from comparison.variants import VARIANTS, has_meaning
from gatcluster.errors import InputError

RESULTS = Path(__file__).parent / "results" / "ablation.jsonl"
SUBSET = 10_000
# Minutes of each variant of `fast`; epochs of each variant of `paper`.
FAST_MINUTES = {"digits": 1.0, "usps": 1.5, "fashion-mnist": 2.0, "cifar10": 2.0}
PAPER_EPOCHS = {"digits": 110, "usps": 20, "cifar10": 20}
SUBSETS = {"fashion-mnist": SUBSET, "cifar10": SUBSET}


def planned(options: argparse.Namespace) -> list[Job]:
    """All measurements: recipe by recipe, set by set, seed by seed."""
    jobs = []
    for recipe, lengths in (("fast", FAST_MINUTES), ("paper", PAPER_EPOCHS)):
        for name in options.sets:
            if name not in lengths:
                continue
            minutes, epochs = _length(recipe, name, options)
            variants = [
                variant
                for variant in options.variants
                if VARIANTS[variant].recipe == recipe and has_meaning(variant, SETS[name].in_colour)
            ]
            jobs += [
                Job(
                    "ablation",
                    name,
                    variant,
                    seed,
                    minutes,
                    epochs,
                    n_images=SUBSETS.get(name),
                    data=None if options.data is None else str(options.data.resolve()),
                    keeps_to_time=True,
                )
                for seed in options.seeds
                for variant in variants
            ]
    return jobs


def _length(recipe: str, name: str, options: argparse.Namespace) -> tuple[float | None, int | None]:
    """Minutes and epochs of a variant, one of them None."""
    if recipe == "paper":
        return None, options.paper_epochs or PAPER_EPOCHS[name]
    if options.epochs is not None:
        return None, options.epochs
    return options.minutes or FAST_MINUTES[name], None


def write_table(results: Path, page: Path) -> None:
    lines = [line for line in read(results) if line["benchmark"] == "ablation"]
    if not lines:
        raise InputError(f"there are no results in {results}: measure first")
    text = ablation_text(lines)
    write_block(page, "ablation", text)
    print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder of the data sets; the digits need none")
    parser.add_argument("--sets", nargs="+", default=[*FAST_MINUTES], choices=[*FAST_MINUTES], metavar="SET")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--variants", nargs="+", default=[*VARIANTS], choices=[*VARIANTS], metavar="VARIANT")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, help="of each variant of `fast`, on every set")
    length.add_argument("--epochs", type=int, help="of each variant of `fast`, on every set, in place of minutes")
    parser.add_argument("--paper-epochs", type=int, help="of each variant of `paper`, on every set")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where lines are added")
    parser.add_argument("--again", action="store_true", help="measure again what is there already")
    parser.add_argument("--table", action="store_true", help="measure nothing, write the table")
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
