"""The command line: parse, call, print."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.markup import escape
from rich.table import Table
from typer.exceptions import Abort, Exit, TyperException

from gatcluster.choices import AugmentOrAuto, Colour, Device, Format, PrecisionOrAuto, Recipe, Resize
from gatcluster.cli_data import data_app
from gatcluster.cli_export import export
from gatcluster.cli_plot import plot
from gatcluster.cli_report import NoReport, report
from gatcluster.cli_resume import CheckpointMinutes, NoWatch, Resume, Strict, check_only_resume, interruptible
from gatcluster.console import AsJson, count_of_images, err, out, print_json
from gatcluster.errors import InputError

if TYPE_CHECKING:
    from gatcluster.evaluation.metrics import Metrics
    from gatcluster.report.progress import LiveProgress, PlainProgress
    from gatcluster.workflow import Summary

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Group unlabelled images into k clusters, end to end from pixels.",
)
app.add_typer(data_app, name="data")
app.command()(report)

_BAR_WIDTH = 24
_INTERRUPTED = 130
_TOO_FEW_CLUSTERS = 3


_SOURCE_ARGUMENT = typer.Argument(
    help="A folder of images (searched recursively), a pattern in quotes such as 'photos/*.jpg', a .csv, .npz, "
    ".parquet or .tar file, or the folder of a published data set."
)
Source = Annotated[Path, _SOURCE_ARGUMENT]
SourceFormat = Annotated[
    Format | None, typer.Option("--format", help="What SOURCE is (default: told from what is there).")
]
Run = Annotated[Path, typer.Argument(help="A run folder, as `gatcluster fit` writes it.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what an earlier call wrote there.")]
Seed = Annotated[int, typer.Option(help="Governs all randomness: the same seed and epochs give the same clusters.")]

Cache = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Keep decoded images there (default: GATCLUSTER_CACHE, or ~/.cache/gatcluster)."),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Keep no decoded images after this call.")]


@app.command()
def fit(
    context: typer.Context,
    source: Annotated[Path | None, _SOURCE_ARGUMENT] = None,
    clusters: Annotated[int | None, typer.Option("-k", "--clusters", help="How many clusters.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Run folder to make (default: SOURCE's name and k).")
    ] = None,
    recipe: Annotated[Recipe, typer.Option(help="fast: minutes on a CPU. paper: the method as published.")] = "fast",
    source_format: SourceFormat = None,
    preset: Annotated[
        str | None, typer.Option(help="An architecture of the paper; `gatcluster info` lists them.")
    ] = None,
    size: Annotated[str | None, typer.Option(help="Bring images to this size: 96, or 64x96 (height x width).")] = None,
    epochs: Annotated[int | None, typer.Option(help="Train for so many passes over the images.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Plan the training for so many minutes.")] = None,
    seed: Seed = 0,
    device: Annotated[Device, typer.Option(help="Where to train.")] = "auto",
    augment: Annotated[AugmentOrAuto, typer.Option(help="What clusters are blind to; glyph does not mirror.")] = "auto",
    colour: Annotated[
        Colour, typer.Option(help="Whether the network sees colours; auto: in fast, if they tell anything.")
    ] = "auto",
    precision: Annotated[
        PrecisionOrAuto, typer.Option(help="Of the training; auto: 16 bits in --recipe fast on CPUs made for it.")
    ] = "auto",
    resize: Annotated[
        Resize, typer.Option(help="Cut images to the middle, or squash them, to reach the size.")
    ] = "crop",
    batch_size: Annotated[int | None, typer.Option(help="M of --recipe paper: targets are made for so many.")] = None,
    sub_batch: Annotated[int | None, typer.Option(help="Images of one optimiser step; m2 of --recipe paper.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Default: 0.02 in fast, 0.001 in paper.")] = None,
    passes: Annotated[int | None, typer.Option(help="Of --recipe paper, over each batch before new targets.")] = None,
    patience: Annotated[int | None, typer.Option(help="Stop once assignments stood still for so many epochs.")] = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    no_report: NoReport = False,
    overwrite: Overwrite = False,
    resume: Resume = None,
    checkpoint_minutes: CheckpointMinutes = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Stay within so much memory, such as 2GB; steps shrink to fit.")
    ] = None,
    no_watch: NoWatch = False,
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """Learn the clusters of a folder of images, and leave a run folder."""
    if resume is not None:
        check_only_resume(context)
        _print_outcome(_resumed(resume, checkpoint_minutes), as_json, strict)
        return
    if source is None or clusters is None:
        raise InputError("give the images and how many clusters: gatcluster fit SOURCE -k NUMBER")
    target = output or _free_run_folder(source, clusters)
    _check_output(target, overwrite)
    from gatcluster.runs.plan import DEFAULT_CHECKPOINT_MINUTES
    from gatcluster.workflow import fit_to_run

    with interruptible(target) as interruption, _progress() as progress, _cache(cache, no_cache):
        summary = fit_to_run(
            source,
            target,
            overwrite,
            progress,
            format=source_format,
            with_report=not no_report,
            checkpoint_minutes=DEFAULT_CHECKPOINT_MINUTES if checkpoint_minutes is None else checkpoint_minutes,
            interruption=interruption,
            cache="off" if no_cache else str(cache.absolute()) if cache is not None else None,
            n_clusters=clusters,
            recipe=recipe,
            preset=preset,
            image_size=_parsed_size(size),
            epochs=epochs,
            minutes=minutes,
            seed=seed,
            device=device,
            augment=augment,
            colour=colour,
            precision=precision,
            resize=resize,
            batch_size=batch_size,
            sub_batch=sub_batch,
            learning_rate=learning_rate,
            passes=passes,
            patience=patience,
            watch=not no_watch,
            memory=memory,
        )
    _print_outcome(summary, as_json, strict)


@app.command()
def predict(
    run: Run,
    source: Source,
    output: Annotated[
        str, typer.Option("-o", "--output", help="CSV file to write; - for standard output.")
    ] = "clusters.csv",
    source_format: SourceFormat = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Label new images with the model of a run."""
    to_stdout = output == "-"
    if to_stdout and as_json:
        raise InputError("--json and -o - both want standard output: write the CSV to a file")
    if not to_stdout and Path(output).exists() and not overwrite:
        raise InputError(f"{output} exists: give another file with -o, or --overwrite")
    if not to_stdout and not Path(output).absolute().parent.is_dir():
        raise InputError(f"cannot write {output}: there is no folder {Path(output).parent}")
    from gatcluster.runs.files import write_bytes
    from gatcluster.runs.folder import clusters_csv
    from gatcluster.workflow import cluster_figures, predict_source

    with _progress() as progress, _cache(cache, no_cache):
        images, features = predict_source(run, source, progress, source_format)
    text = clusters_csv(images.names, features).encode("utf-8", "surrogateescape")
    for file in images.skipped:
        err.print(f"warning: skipped {file.name}: {file.reason}", markup=False, soft_wrap=True)
    if to_stdout:
        sys.stdout.buffer.write(text)
        return
    try:
        write_bytes(Path(output), text)
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror or error}") from None
    sizes, _ = cluster_figures(features)
    if as_json:
        print_json({"output": output, "n_images": len(images), "cluster_sizes": sizes, "skipped": len(images.skipped)})
    else:
        out.print(f"{count_of_images(len(images))} labelled -> {output}", markup=False, soft_wrap=True)


@app.command()
def evaluate(
    run: Run,
    labels: Annotated[
        str | None,
        typer.Option(
            help="source: the labels that the run's source carries. folders: an image's label is the folder it lies "
            "in. Or a CSV file with columns path, label. (default: source)"
        ),
    ] = None,
    source_format: Annotated[
        Format | None,
        typer.Option("--format", help="Read the source's labels as this; cifar100-20 has the coarse ones."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score the clusters of a run against labels: ACC, NMI, ARI."""
    from gatcluster.workflow import evaluate_run

    metrics = evaluate_run(run, labels, source_format)
    if as_json:
        print_json(metrics.as_json())
    else:
        _print_scores({"gatcluster": metrics})
        out.print(
            f"[dim]{count_of_images(metrics.n_images)}, {metrics.n_clusters_used} clusters, "
            f"{metrics.n_labels} labels[/]"
        )


@app.command()
def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Run folder to make.")] = Path("demo-run"),
    seed: Seed = 0,
    epochs: Annotated[int | None, typer.Option(help="Train for so many passes over the digits.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Plan the training for so many minutes.")] = None,
    no_report: NoReport = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Cluster 1,797 real handwritten digits, and compare with plain k-means on the same pixels."""
    _check_output(output, overwrite)
    from gatcluster.experiments.demo import run_demo

    with _progress() as progress:
        summary, scores = run_demo(output, seed, epochs, minutes, overwrite, progress, not no_report)
    _print_warnings(summary)
    if as_json:
        print_json({**summary.as_json(), "scores": {name: score.as_json() for name, score in scores.items()}})
        return
    _print_summary(summary)
    out.print("\nAgainst the true digits, which were not used in training:")
    _print_scores(scores)
    _print_next_steps(summary)


@app.command()
def info(
    run: Annotated[Path | None, typer.Argument(help="A run folder; without one, about this installation.")] = None,
    as_json: AsJson = False,
) -> None:
    """Versions, devices and presets; or a run's settings and results."""
    from gatcluster.experiments.info import installation, run_facts

    facts = installation() if run is None else run_facts(run)
    if as_json:
        print_json(facts)
        return
    for heading, entries in facts.items():
        if not isinstance(entries, dict):
            out.print(f"[bold]{heading}[/]  {escape(_plain(entries))}", soft_wrap=True)
            continue
        out.print(f"[bold]{heading}[/]")
        table = Table.grid(padding=(0, 2))
        for name, value in entries.items():
            table.add_row(f"  {name}", escape(_plain(value)))
        out.print(table)


app.command()(plot)
app.command()(export)


def main() -> NoReturn:
    """Run the command line; bad input is one line on standard error and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except InputError as error:
        _fail(str(error), 2)
    except Exit as stop:
        code = stop.exit_code
    except TyperException as error:
        _fail(error.format_message().replace("Value error, ", ""), 2)  # which says nothing to a user
    except (Abort, KeyboardInterrupt):
        code = _INTERRUPTED
    if code == _INTERRUPTED:  # Typer, too, makes it of Ctrl-C
        _fail("interrupted", _INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> NoReturn:
    one_line = " ".join(message.split())
    err.print(f"error: {one_line}", markup=False, soft_wrap=True)
    sys.exit(code)


@contextmanager
def _progress() -> Iterator[LiveProgress | PlainProgress]:
    from gatcluster.report.progress import LiveProgress, PlainProgress

    with LiveProgress(err) if err.is_terminal else PlainProgress() as progress:
        yield progress


@contextmanager
def _cache(folder: Path | None, off: bool) -> Iterator[None]:
    """Keep decoded images where the user says."""
    if folder is not None and off:
        raise InputError("--cache and --no-cache exclude each other: give one of them")
    from gatcluster.data.cache import use_cache

    with use_cache(folder) if folder is not None or off else nullcontext():
        yield


def _parsed_size(text: str | None) -> int | tuple[int, int] | None:
    if text is None:
        return None
    try:
        height, *width = (int(part) for part in text.lower().split("x"))
        if len(width) > 1:
            raise ValueError
    except ValueError:
        raise InputError(
            f"cannot read size '{text}': give a number such as 96, or height x width such as 64x96"
        ) from None
    return (height, width[0]) if width else height


def _free_run_folder(source: Path, clusters: int) -> Path:
    """A name for the run folder that is not taken."""
    there = next((part for part in [source, *source.parents] if part.exists()), source)  # of a pattern, its folder
    resolved = there.resolve()
    stem = f"{(resolved.name if resolved.is_dir() else resolved.stem) or 'run'}-k{clusters}"
    path, number = Path(stem), 1
    while path.exists():
        number += 1
        path = Path(f"{stem}-{number}")
    return path


def _check_output(path: Path, overwrite: bool) -> None:
    """Refuse an output folder before seconds go into imports and minutes into images."""
    from gatcluster.runs.layout import check_free
    from gatcluster.runs.lock import check_not_in_use

    check_not_in_use(path)
    check_free(path, overwrite)


def _resumed(run: Path, checkpoint_minutes: float | None) -> Summary:
    from gatcluster.workflow import resume_run

    with interruptible(run) as interruption, _progress() as progress:
        return resume_run(run, progress, checkpoint_minutes, interruption)


def _print_outcome(summary: Summary, as_json: bool, strict: bool) -> None:
    _print_warnings(summary)
    if as_json:
        print_json(summary.as_json())
    else:
        _print_summary(summary)
        _print_next_steps(summary)
    if strict and 0 in summary.cluster_sizes:
        raise Exit(_TOO_FEW_CLUSTERS)


def _print_warnings(summary: Summary) -> None:
    messages = list(summary.warnings)
    if summary.skipped:
        messages.append(f"{summary.skipped} files could not be read; {summary.run}/skipped.csv lists them")
    for message in messages:
        err.print(f"warning: {message}", markup=False, soft_wrap=True)


def _print_summary(summary: Summary) -> None:
    from gatcluster.report.progress import duration

    out.print(
        f"[bold]{summary.n_clusters} clusters of {count_of_images(summary.n_images)}[/], "
        f"found in {duration(summary.seconds)} by recipe {summary.recipe}, seed {summary.seed}, "
        f"{summary.epochs} epochs\n"
    )
    table = Table.grid(padding=(0, 2))
    table.add_row("[dim]cluster[/]", "", "[dim]images[/]", "[dim]confidence[/]")
    largest = max(summary.cluster_sizes)
    for cluster, (size, sure) in enumerate(zip(summary.cluster_sizes, summary.cluster_confidence, strict=True)):
        bar = "█" * max(round(size / largest * _BAR_WIDTH), 1 if size else 0)
        table.add_row(f"{cluster:>7}", f"[cyan]{bar}[/]", f"{size:>6,}", "     -" if sure is None else f"{sure:>10.2f}")
    out.print(table)


def _print_scores(scores: dict[str, Metrics]) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_row("", "[dim]  ACC[/]", "[dim]NMI (geometric)[/]", "[dim]  ARI[/]")
    for name, score in scores.items():
        table.add_row(name, f"{score.accuracy:.3f}", f"{score.nmi_geometric:>15.3f}", f"{score.ari:.3f}")
    out.print(table)


def _print_next_steps(summary: Summary) -> None:
    run = summary.run
    if summary.cache is not None:
        from gatcluster.data.store import megabytes

        kept = f"Decoded images: {megabytes(summary.cache_bytes)} kept in {summary.cache} for the next run"
        out.print(f"\n[dim]{escape(kept)}[/]", soft_wrap=True)
    out.print(
        f"\nLook at      {summary.report or f'{run}/clusters.png'}"
        f"\nEvery image  {run}/clusters.csv"
        f"\nNew images   gatcluster predict {run} FOLDER",
        markup=False,
        soft_wrap=True,
    )


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(inner)}" for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(_plain(inner) for inner in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
