from pathlib import Path

import pytest

from comparison.ablation_table import ablation_text
from comparison.command import written_command
from comparison.demands import verdicts
from comparison.document import write_block
from comparison.methods import QUALITY_METHODS
from comparison.plot import plot_quality
from comparison.quality_table import quality_text, within_budget
from comparison.results import append, grouped, latest, rank_correlation, read, spread
from comparison.sets import SETS
from gatcluster.errors import InputError

PAGE, PLOT = Path("docs/results.md"), Path("docs/images/quality.svg")


def test_a_torn_line_is_left_out_and_the_next_one_stands_by_itself(tmp_path):
    path = tmp_path / "below" / "results.jsonl"
    append(path, {"seed": 0})
    with path.open("a") as file:
        file.write('{"seed": 1, "accu')  # the power went
    append(path, {"seed": 2})
    assert read(path) == [{"seed": 0}, {"seed": 2}]


def test_mean_and_spread_by_hand():
    found = spread([0.90, 0.94, 0.95])
    assert str(found) == "0.930 ± 0.026"  # √((0.03² + 0.01² + 0.02²) / 2)
    assert (found.least, found.most) == (0.90, 0.95)
    assert str(spread([0.5])) == "0.500"


def test_of_a_repeated_measurement_the_last_one_counts(made_up):
    lines = [made_up("digits", "fast", 0, 0.5), made_up("digits", "fast", 1, 0.7), made_up("digits", "fast", 0, 0.9)]
    assert [line["accuracy"] for line in latest(lines)] == [0.9, 0.7]
    ((_, methods),) = grouped(lines).items()
    assert methods["fast"].spread("accuracy").mean == pytest.approx(0.8)


def test_measurements_of_another_budget_stay_apart(made_up):
    lines = [made_up("digits", "fast", 0, 0.5), made_up("digits", "fast", 0, 0.9, minutes=1.0)]
    assert len(grouped(lines)) == 2


def test_rank_correlation_by_hand(made_up):
    def runs(*scores):
        return [
            made_up("digits", "fast", seed, accuracy, label_free={"information": score})
            for seed, (accuracy, score) in enumerate(scores)
        ]

    # Ranks 1 2 3 4 against 1 3 2 4: 1 - 6 · 2 / (4 · 15).
    value, n = rank_correlation(runs((0.1, 10), (0.2, 30), (0.3, 20), (0.4, 40)), "information")
    assert value == pytest.approx(0.8)
    assert n == 4
    assert rank_correlation(runs((0.1, 10), (0.2, 30)), "information") == (None, 2)  # two points are always in line
    assert rank_correlation(runs((0.1, 1), (0.2, 1), (0.3, 1)), "information") == (None, 3)


def digits_lines(made_up):
    """Three seeds of `fast`, exactly at the demand; k-means; Ward over the time; UMAP not installed."""
    return [
        *(made_up("digits", "fast", seed, accuracy) for seed, accuracy in enumerate((0.90, 0.94, 0.95))),
        *(made_up("digits", "kmeans", seed, 0.8, seconds=0.25) for seed in range(3)),
        made_up("digits", "ward", 0, None, status="over the time", seconds=120.1),
        made_up("digits", "umap", 0, None, status="failed", error="ModuleNotFoundError: No module named 'umap'"),
    ]


def test_the_table_has_a_row_for_each_method_and_marks_the_best(made_up):
    rows = quality_text(digits_lines(made_up), PLOT, PAGE).splitlines()
    assert "### digits, 1,797 images" in rows
    best = "**0.930 ± 0.026**"
    assert f"| `fast` | 2 | 3 | {best} | {best} | {best} | 0.900 | 60 ± 0 | 500 |" in rows
    plain = "0.800 ± 0.000"
    assert f"| k-means on pixels | 2 | 3 | {plain} | {plain} | {plain} | 0.800 | 0.2 ± 0.0 | 500 |" in rows
    assert any(row.startswith("| Ward on pixels | 2 | 0 | stopped after 2 min |") for row in rows)
    assert any("UMAP + Gaussian mixture, seed 0: ModuleNotFoundError" in row for row in rows)
    assert "![ACC against seconds, one panel for each set](images/quality.svg)" in rows


def test_the_page_says_in_how_many_bits_which_runs_were_computed(made_up):
    details = made_up("digits", "fast", 0, 0.9)["details"]
    wide, narrow = ({**details, "precision": precision} for precision in ("32-true", "bf16-mixed"))
    lines = [made_up("digits", "fast", seed, 0.9, details=wide) for seed in range(3)]
    assert "`fast` computed in 32 bits." in quality_text(lines, PLOT, PAGE)
    lines += [made_up("digits", "fast", 0, 0.9, minutes=minutes, details=narrow) for minutes in (7.5, 0.5)]
    text = quality_text(lines, PLOT, PAGE)
    assert "Runs of `fast`: those of 0.5 and 7.5 minutes in 16 bits, those of 2 minutes in 32 bits." in text
    assert text.count("`auto` chose") == 1


def test_the_page_names_command_seeds_machine_and_date(made_up):
    text = quality_text(digits_lines(made_up), PLOT, PAGE)
    for fact in (
        "- Commands: `python benchmarks/quality.py --data DIR`",
        "- Seeds: 0, 1, 2",
        "- Machine: a processor, 2 cores, 8 GB of memory",
        "- Commits: `0123456789`",
        "- Dates: 2026-01-02",
    ):
        assert fact in text.splitlines()


def judged(lines):
    """What is said of each demand, by how it begins."""
    budgets = {where[0]: methods for where, methods in grouped(lines).items()}
    return {verdict.demand: verdict for verdict in verdicts(budgets, {})}


def find(judgement, start):
    (verdict,) = [verdict for demand, verdict in judgement.items() if demand.startswith(start)]
    return verdict


def test_demands_that_are_met_and_those_that_are_open(made_up):
    judgement = judged(digits_lines(made_up))
    assert find(judgement, "digits: ACC at least 0.93").met is True  # the mean is 0.93
    aim = find(judgement, "digits: ACC 0.98")
    assert aim.met is False
    assert aim.found.endswith("-0.050")
    assert find(judgement, "MNIST: ACC at least").met is None
    assert find(judgement, "no seed of any set").met is True
    assert find(judgement, "no seed ends below").met is True
    assert find(judgement, "no seed takes longer").met is True
    assert find(judgement, "`fast` beats").met is None  # one set of six is known


def test_too_few_seeds_decide_nothing(made_up):
    assert find(judged([made_up("digits", "fast", 0, 0.99)]), "digits: ACC at least").met is None


def test_every_demand_can_fail(made_up):
    lines = [
        made_up("digits", "fast", 0, 0.60, empty_clusters=1),
        made_up("digits", "fast", 1, 0.95, seconds=121.0),
        made_up("digits", "fast", 2, 0.95),
        made_up("digits", "kmeans", 0, 0.70),
        made_up("usps", "fast", 0, 0.50),
        made_up("usps", "umap", 0, 0.50),
        made_up("mnist", "fast", 0, 0.50),
        made_up("mnist", "umap", 0, 0.51),
    ]
    judgement = judged(lines)
    assert find(judgement, "digits: ACC at least").met is False  # 0.833
    empty, below = find(judgement, "no seed of any set"), find(judgement, "no seed ends below")
    assert (empty.met, empty.found) == (False, "digits seed 0: 1")
    assert (below.met, below.found) == (False, "digits: 0.600 < 0.700")
    assert find(judgement, "no seed takes longer").met is False
    wins = find(judgement, "`fast` beats")
    assert wins.met is False  # two sets are lost, and a tie is no win
    assert wins.found.startswith("on 1: digits; not on USPS (behind umap), MNIST (behind umap)")


def test_fast_wins_with_five_of_six_sets(made_up):
    others = [method for method in QUALITY_METHODS if method != "fast"]
    lines = [made_up(name, "fast", 0, 0.9) for name in SETS]
    lines += [made_up(name, method, 0, 0.8) for name in SETS for method in others]
    lines.append(made_up([*SETS][5], "ward", 0, 0.95))
    assert find(judged(lines), "`fast` beats").met is True
    without = [line for line in lines if (line["set"], line["method"]) != ("mnist", "umap")]
    assert find(judged(without), "`fast` beats").met is None
    assert find(judged(without), "`fast` beats").found.endswith("not everywhere measured: umap")


def test_a_longer_budget_counts_for_the_aim_only_where_it_may(made_up):
    lines = [made_up("cifar10", "fast", seed, 0.4, minutes=30.0) for seed in range(2)]
    lines += [made_up("cifar10", "fast", seed, 0.62, minutes=120.0) for seed in range(2)]
    lines += [made_up("digits", "fast", seed, 0.9) for seed in range(3)]
    lines += [made_up("digits", "fast", seed, 0.99, minutes=60.0) for seed in range(3)]
    rows = quality_text(lines, PLOT, PAGE).splitlines()
    (aim,) = [row for row in rows if row.startswith("| CIFAR-10: ACC 0.61 (aim)")]
    assert "120 minutes" in aim
    assert aim.endswith("| met |")
    assert any(row.startswith("| digits: ACC 0.98 (aim) | 0.900 ± 0.000 (3 seeds), -0.080") for row in rows)


def test_what_is_reached_in_less_than_the_budget_is_reached(made_up):
    lines = [made_up("cifar10", "fast", seed, 0.5, minutes=7.5) for seed in range(2)]
    lines += [made_up("cifar10", "kmeans", seed, 0.2, minutes=30.0) for seed in range(2)]
    rows = quality_text(lines, PLOT, PAGE).splitlines()
    assert "| CIFAR-10: ACC at least 0.32 in 30 minutes (must) | 0.500 ± 0.000 (2 seeds, 7.5 minutes) | met |" in rows
    assert [row.split(" | ")[1] for row in rows if row.startswith(("| `fast` |", "| k-means on"))] == ["7.5", "30"]


def test_the_longer_of_two_budgets_counts_once_it_has_as_many_seeds(made_up):
    lines = [made_up("digits", "fast", seed, 0.99, minutes=0.5) for seed in range(3)]
    lines += [made_up("digits", "fast", seed, 0.90, minutes=2.0) for seed in range(2)]
    assert within_budget("digits", grouped(lines))["fast"].lines[0]["minutes"] == 0.5
    lines.append(made_up("digits", "fast", 2, 0.90, minutes=2.0))
    assert within_budget("digits", grouped(lines))["fast"].lines[0]["minutes"] == 2.0
    lines += [made_up("digits", "fast", seed, 0.99, minutes=2.5) for seed in range(3)]  # beyond the budget
    assert within_budget("digits", grouped(lines))["fast"].lines[0]["minutes"] == 2.0


def test_what_stands_around_a_block_stays(tmp_path):
    page = tmp_path / "results.md"
    page.write_text("# Results\n\nProse before.\n")
    write_block(page, "quality", "first")
    page.write_text(page.read_text() + "\nProse after.\n")
    write_block(page, "ablation", "other")
    write_block(page, "quality", "second")
    text = page.read_text()
    assert [part in text for part in ("Prose before.", "Prose after.", "second", "other", "first")] == [True] * 4 + [
        False
    ]
    write_block(page, "quality", "second")
    assert page.read_text() == text
    page.write_text(text.replace("<!-- quality: end -->", ""))
    with pytest.raises(InputError, match="by hand"):
        write_block(page, "quality", "third")


def test_the_ablation_gives_distances_from_the_whole_recipe(made_up):
    lines = [
        made_up("digits", "fast-full", 0, 0.9, benchmark="ablation"),
        made_up("digits", "fast-full", 1, 0.8, benchmark="ablation"),
        made_up("digits", "fast-no-warm-up", 0, 0.5, benchmark="ablation", empty_clusters=2),
        made_up("digits", "fast-no-warm-up", 1, 0.6, benchmark="ablation"),
    ]
    rows = ablation_text(lines).splitlines()
    assert "| variant | digits, 1,797 images, 2 min, 2 seeds |" in rows
    assert "| `fast`, whole | 0.850 ± 0.071 |" in rows
    assert "| no warm-up | 0.550 ± 0.071 (-0.300) |" in rows
    assert "Empty clusters: no warm-up on digits, seed 0: 2." in rows
    assert not any("paper" in row for row in rows)


def test_the_plot_has_a_panel_for_each_set(made_up, tmp_path):
    lines = [*digits_lines(made_up), made_up("usps", "fast", 0, 0.9)]
    plot_quality(lines, tmp_path / "plot.svg")
    first = (tmp_path / "plot.svg").read_bytes()
    for title in (b"digits", b"USPS", b"k-means on pixels", b"seconds"):
        assert title in first
    assert b"CIFAR" not in first
    plot_quality(lines, tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").read_bytes() == first


def test_commands_are_written_without_the_paths_of_a_machine():
    given = [
        "/home/me/benchmarks/ablation.py",
        "--data=/home/me/data",
        "--page",
        "x.md",
        "--again",
        "--seeds",
        "0",
        "1",
    ]
    assert written_command(given) == "python benchmarks/ablation.py --data=DIR --seeds 0 1"
