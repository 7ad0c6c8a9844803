"""All settings of a run in one typed tree; the recipes and the paper's presets as data.

A :class:`Settings` is complete: nothing in it is left to be decided. It is written to ``config.json`` as it stands, and
a model is rebuilt from it alone. :func:`make_settings` turns what a user chose into one.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gatcluster.choices import Augment, Device, Precision, Recipe, Resize
from gatcluster.errors import InputError

_MOST: Final = 2**31 - 1  # of anything that is counted
Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Side = Annotated[int, Field(ge=1, le=4096)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ImageSettings(_Strict):
    """How an image reaches the network. Stored with a model, so that new images are treated the same way."""

    size: tuple[Side, Side]  # height, width
    channels: int = Field(ge=1, le=512)
    grey: bool  # colour images become grey, after the colour jitter
    ink: bool = False  # a pixel is how far it is from the colour of its paper, in one channel
    augment: Augment
    geometry: Share = 1.0  # how far images are moved by the transformations, relative to what ``augment`` allows
    any_turn: bool = False  # the transformations turn images by any angle: they have no upright
    strokes: Share = 0.0  # how much thicker or thinner the transformations make them; 1 is a pixel on either side
    mean: float = Field(default=0.0, allow_inf_nan=False)  # lightness, subtracted so that padding is no dark frame
    resize: Resize = "crop"
    value_range: tuple[Finite, Finite] = (0.0, 1.0)  # what stands for black and white in arrays of floats

    @property
    def network_channels(self) -> int:
        """Channels of the network's input."""
        return 1 if self.ink or (self.grey and self.channels == 3) else self.channels


class NetworkSettings(_Strict):
    """The network's shape. ``preset=None`` is the lean backbone."""

    preset: str | None = None
    width: int = Field(default=32, ge=4, le=1024)  # channels of the lean backbone's first layer
    alpha: Positive = 0.05  # α of the Gaussian kernel

    @model_validator(mode="after")
    def _preset_is_known(self) -> NetworkSettings:
        if self.preset is not None and self.preset not in PRESETS:
            raise ValueError(f"unknown preset '{self.preset}'; the presets are: {', '.join(PRESETS)}")
        return self


class LossWeights(_Strict):
    """The weights of Eq. "L_total"; the paper's values are the defaults."""

    relation: Weight = 1
    transformation: Weight = 5  # α₁
    attention: Weight = 5  # α₂
    entropy: Weight = 3  # α₃


class TrainingSettings(_Strict):
    """Algorithm 1: batch sizes, optimiser, and when to stop."""

    batch_size: int = Field(ge=2, le=_MOST)  # M: images whose targets are computed together
    target_sub_batch: int = Field(default=500, ge=1, le=_MOST)  # m₁: sets memory and speed, never the result
    sub_batch: int = Field(ge=2, le=_MOST)  # m₂: images of one step
    passes: int = Field(default=1, ge=1, le=_MOST)  # of step 2 over each batch
    learning_rate: Positive  # of Adam in the paper's recipe, of Muon in `fast`
    epochs: int | None = Field(default=None, ge=1, le=_MOST)
    minutes: Positive | None = None
    patience: int | None = Field(
        default=None, ge=1, le=_MOST
    )  # stop after so many epochs in which assignments stood still

    @model_validator(mode="after")
    def _one_length(self) -> TrainingSettings:
        if (self.epochs is None) == (self.minutes is None):
            raise ValueError("give either epochs or minutes, not both and not neither")
        return self

    @model_validator(mode="after")
    def _sub_batch_fits(self) -> TrainingSettings:
        if self.sub_batch > self.batch_size:
            raise ValueError(f"sub_batch is {self.sub_batch}, more than the batch_size of {self.batch_size}")
        return self


class FastSettings(_Strict):
    """What the `fast` recipe adds: contrast, and partitions of a neighbour graph."""

    warm_up_share: Share  # of the epochs or the minutes
    warm_up_scale: Share = 0.75  # of an image's sides, for the views of photos in the warm-up
    warm_up_views: int = Field(default=4, ge=2, le=_MOST)  # of each image of a batch, in the warm-up
    rounds: int = Field(default=3, ge=1, le=_MOST)  # of (partition the graph, learn it)
    refining_share: Share = 0.5  # of the learning rate, once clusters are learned
    temperature: Positive = 0.1
    whitening: Share = 0.5  # of the embedding in which neighbours are looked for; 1: all directions are equally wide
    # Of each image, in the graphs that are cut.
    neighbours: tuple[Annotated[int, Field(ge=1, le=_MOST)], ...] = (15, 20, 30)
    # Images in the graphs, at most; the rest follow their neighbours.
    landmarks: int = Field(default=20_000, ge=2, le=_MOST)
    ridges: tuple[Weight, ...] = (0.3, 1.0)  # of the cuts
    neighbour_share: Share = 0.5  # of second views that are of a neighbour, while the partition is learned
    contrast_weight: Weight = 1.0  # beside the four tasks


class Settings(_Strict):
    """Everything that determines a run, apart from the images."""

    n_clusters: int = Field(ge=2, le=_MOST)
    recipe: Recipe
    seed: int = Field(ge=0, lt=2**32)
    device: Device = "auto"
    precision: Precision = "32-true"
    memory: int | None = Field(default=None, ge=1, le=2**50)  # bytes; sub-batches were chosen to stay within
    watch: bool = True  # leave out steps that are not finite, revive empty clusters
    images: ImageSettings
    network: NetworkSettings
    loss_weights: LossWeights = LossWeights()
    training: TrainingSettings
    fast: FastSettings | None  # None in the paper's recipe

    @model_validator(mode="after")
    def _fast_has_its_settings(self) -> Settings:
        if (self.recipe == "fast") != (self.fast is not None):
            raise ValueError("recipe 'fast' needs settings of its own, recipe 'paper' has none")
        return self


@dataclass(frozen=True)
class Preset:
    """One experiment of the paper: its image size, its batch M, grey or colour, and its k."""

    size: int
    batch_size: int
    n_clusters: int
    grey: bool = True


_IMAGENET10_128: Final = Preset(size=128, batch_size=1000, n_clusters=10)

PRESETS: Final[dict[str, Preset]] = {
    "stl10": Preset(size=96, batch_size=1000, n_clusters=10),
    "imagenet10": Preset(size=96, batch_size=1000, n_clusters=10),
    "imagenet10-128": _IMAGENET10_128,  # attention map 6x6, the paper's best
    "imagenet10-128-att10": _IMAGENET10_128,
    "imagenet10-128-att8": _IMAGENET10_128,
    "imagenet10-128-att6": _IMAGENET10_128,
    "imagenet10-128-att4": _IMAGENET10_128,
    "imagenet10-128-att2": _IMAGENET10_128,
    "imagenet10-160": Preset(size=160, batch_size=1000, n_clusters=10),
    "imagenet10-192": Preset(size=192, batch_size=1000, n_clusters=10),
    "imagenet-dog": Preset(size=96, batch_size=1500, n_clusters=15, grey=False),
    "imagenet-dog-128": Preset(size=128, batch_size=1500, n_clusters=15, grey=False),
    "cifar10": Preset(size=32, batch_size=4000, n_clusters=10),
    "cifar100-20": Preset(size=32, batch_size=6000, n_clusters=20),
}

# `fast` measures the same four tasks on other scales: logarithms, and pairs that are balanced.
RECIPE_LOSS_WEIGHTS: Final[dict[Recipe, LossWeights]] = {
    "paper": LossWeights(),
    "fast": LossWeights(relation=1, transformation=1, attention=1, entropy=1),
}

RECIPE_SUB_BATCH: Final[dict[Recipe, int]] = {"paper": 32, "fast": 128}
RECIPE_LEARNING_RATE: Final[dict[Recipe, float]] = {"paper": 1e-3, "fast": 0.02}
# Which photos are near each other takes longer to learn than the parts do.
FAST_WARM_UP_SHARE: Final[dict[Augment, float]] = {"photo": 0.75, "glyph": 0.55, "none": 0.55}

# Without epochs or minutes the paper's recipe runs for as many outer iterations as the authors' released settings do.
_PAPER_OUTER_ITERATIONS: Final = 6000
# ... and `fast` sees about so many images, but each of them at least and at most so often.
_FAST_IMAGES: Final = 200_000
_FAST_EPOCHS: Final = (10, 200)


def default_epochs(recipe: Recipe, n_images: int, batch_size: int) -> int:
    """How long a recipe trains when the user does not say.

    >>> default_epochs("paper", n_images=13_000, batch_size=1000)
    462
    """
    if recipe == "paper":
        per_epoch = max(1, n_images // batch_size)
        return -(-_PAPER_OUTER_ITERATIONS // per_epoch)
    least, most = _FAST_EPOCHS
    return min(most, max(least, _FAST_IMAGES // n_images))


def find_preset(name: str | None) -> Preset | None:
    """The preset of that name; an unknown name is an error that lists the known ones."""
    if name is None:
        return None
    if name not in PRESETS:
        raise InputError(f"unknown preset '{name}'; the presets are: {', '.join(PRESETS)}")
    return PRESETS[name]


def check_choices(
    n_clusters: int,
    recipe: str,
    preset: str | None,
    epochs: int | None = None,
    minutes: float | None = None,
    seed: int = 0,
    batch_size: int | None = None,
    sub_batch: int | None = None,
    patience: int | None = None,
    passes: int | None = None,
) -> None:
    """Refuse what can be refused before a single image is read."""
    for name, number in (("n_clusters", n_clusters), ("epochs", epochs or 1), ("minutes", minutes or 1)):
        if not isinstance(number, Real):
            raise InputError(f"{name} must be a number, not {number!r}")
    if n_clusters < 2:
        raise InputError(f"k is {n_clusters}: at least 2 clusters are needed")
    if recipe not in ("fast", "paper"):
        raise InputError(f"unknown recipe '{recipe}'; the recipes are: fast, paper")
    find_preset(preset)
    if epochs is not None and minutes is not None:
        raise InputError("epochs and minutes exclude each other: give one of them")
    if epochs is not None and epochs < 1:
        raise InputError(f"epochs is {epochs}: at least 1 is needed")
    if minutes is not None and not 0 < minutes < float("inf"):
        raise InputError(f"minutes is {minutes:g}: it must be more than 0")
    if not 0 <= seed < 2**32:
        raise InputError(f"seed is {seed}: it must be at least 0 and less than {2**32}")
    for name, count, least in (
        ("batch_size", batch_size, 2),
        ("sub_batch", sub_batch, 2),
        ("patience", patience, 1),
        ("passes", passes, 1),
    ):
        if count is not None and count < least:
            raise InputError(f"{name} is {count}: it must be at least {least}")


def make_settings(
    *,
    n_clusters: int,
    n_images: int,
    images: ImageSettings,
    seed: int,
    recipe: Recipe = "fast",
    preset: str | None = None,
    epochs: int | None = None,
    minutes: float | None = None,
    device: str = "auto",
    precision: str = "32-true",
    batch_size: int | None = None,
    sub_batch: int | None = None,
    learning_rate: float | None = None,
    loss_weights: LossWeights | None = None,
    patience: int | None = None,
    passes: int | None = None,
    watch: bool = True,
) -> Settings:
    """Complete settings from a user's choices; ``None`` leaves a choice to the recipe and the preset."""
    check_choices(n_clusters, recipe, preset, epochs, minutes, seed, batch_size, sub_batch, patience, passes)
    if n_clusters > n_images:
        raise InputError(f"k is {n_clusters}, but there are only {n_images} images: give a smaller k or more images")
    known_preset = find_preset(preset)
    if batch_size is None:
        batch_size = known_preset.batch_size if known_preset else 1000
    batch_size = min(batch_size, n_images)
    if batch_size < n_clusters:
        raise InputError(f"the batch size is {batch_size}, but k is {n_clusters}: a batch must hold at least k images")
    if epochs is None and minutes is None:
        epochs = default_epochs(recipe, n_images, max(1, batch_size))
    training: dict[str, Any] = {
        "batch_size": batch_size,
        "target_sub_batch": _target_sub_batch(images.size),
        "sub_batch": min(RECIPE_SUB_BATCH[recipe] if sub_batch is None else sub_batch, batch_size),
        "epochs": epochs,
        "minutes": minutes,
        "patience": patience,
        "passes": passes or 1,
        "learning_rate": RECIPE_LEARNING_RATE[recipe] if learning_rate is None else learning_rate,
    }
    return checked_settings(
        {
            "n_clusters": n_clusters,
            "recipe": recipe,
            "seed": seed,
            "device": device,
            "precision": precision,
            "watch": watch,
            "images": images.model_dump(),
            "network": {"preset": preset},
            "loss_weights": (loss_weights or RECIPE_LOSS_WEIGHTS[recipe]).model_dump(),
            "training": training,
            "fast": {"warm_up_share": FAST_WARM_UP_SHARE[images.augment]} if recipe == "fast" else None,
        }
    )


def _target_sub_batch(size: tuple[int, int]) -> int:
    """An m₁ whose activations take some tens of megabytes, whatever the image size; larger ones are not faster."""
    return max(8, min(500, 128 * 32 * 32 // (size[0] * size[1])))


def checked_settings(tree: Any) -> Settings:
    """Settings from plain data, such as a ``config.json``; one line names every wrong field."""
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        problems = [
            f"{'.'.join(str(part) for part in problem['loc']) or 'settings'}: {problem['msg']}"
            for problem in error.errors(include_url=False)
        ]
        raise InputError("; ".join(problems)) from None
    except UnicodeEncodeError:  # half of a character, which JSON can say and pydantic cannot look at
        raise InputError("settings: a name or a value in them is no text") from None
