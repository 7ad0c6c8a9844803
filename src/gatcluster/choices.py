"""What users choose from, by name. Light on imports: the command line reads it before anything else."""

from __future__ import annotations

from typing import Literal

Recipe = Literal["fast", "paper"]
Device = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["32-true", "bf16-mixed", "16-mixed"]
PrecisionOrAuto = Literal["auto", "32-true", "bf16-mixed", "16-mixed"]
Augment = Literal["photo", "glyph", "none"]
AugmentOrAuto = Literal["auto", "photo", "glyph", "none"]
Colour = Literal["auto", "grey", "colour", "ink"]
Resize = Literal["crop", "squash"]
Format = Literal[
    "folder",
    "glob",
    "list",
    "csv",
    "numpy",
    "cifar10",
    "cifar100",
    "cifar100-20",
    "stl10",
    "stl10-unlabelled",
    "idx",
    "parquet",
    "huggingface",
    "webdataset",
]
Published = Literal["cifar10", "cifar100", "stl10", "mnist", "fashion-mnist"]
ExportKind = Literal["csv", "parquet", "folders", "links", "zip"]
PlotKind = Literal["map", "curves", "sizes", "grid", "attention"]
