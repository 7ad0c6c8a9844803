"""GATCluster: the method as a scikit-learn estimator."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from gatcluster.choices import AugmentOrAuto, Colour, Format, Recipe, Resize
from gatcluster.config import LossWeights, Settings
from gatcluster.data.cache import use_cache
from gatcluster.data.formats.torch_dataset import is_dataset
from gatcluster.data.images import ImageSet
from gatcluster.data.sources import names_files
from gatcluster.errors import Interrupted
from gatcluster.evaluation.label_free import information_score
from gatcluster.learning.callbacks import Callback
from gatcluster.learning.fit import FitResult, fit
from gatcluster.model.inference import attention_maps, label_features
from gatcluster.prepare import ImageSize, prepare, read_like
from gatcluster.report.notebook import clusters_html, thumbnails
from gatcluster.report.plots import plot_attention, plot_clusters
from gatcluster.report.progress import PlainProgress
from gatcluster.resume import planned_images
from gatcluster.runs.checkpoints import Checkpoints
from gatcluster.runs.create import new_run, reopened_run
from gatcluster.runs.folder import RunFolder, load_run
from gatcluster.runs.interruption import Interruption
from gatcluster.runs.plan import Plan, read_plan
from gatcluster.runs.skipped import read_skipped

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class GATCluster(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Group unlabelled images into k clusters, end to end from pixels.

    A convolutional network with a label head and a Gaussian-attention head learns, from the images alone, to map each
    image to one of k clusters.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters, k.
    recipe : {"fast", "paper"}, default="fast"
        "paper" is the method as published. "fast" warms the network up and takes relations between images from a
        neighbour graph, for good clusters in minutes on a CPU.
    preset : str, default=None
        An architecture and batch size of the paper, such as "stl10" or "cifar10". By default a lean backbone that
        adapts to the images.
    image_size : int or (int, int), default=None
        Height and width to bring the images to. By default arrays keep their size, files are brought to the preset's
        size, or to their own if it is common and small, else to 64x64.
    minutes : float, default=None
        Plan the training for this long. The result then depends on the speed of the machine.
    epochs : int, default=None
        Train for so many passes over the images; the same seed then gives the same result. With neither minutes nor
        epochs, the recipe chooses a number of epochs.
    device : {"auto", "cpu", "cuda", "mps"}, default="auto"
        Where to train.
    random_state : int, RandomState or None, default=None
        Governs all randomness. Pass an int for the same result every time.
    augment : {"auto", "photo", "glyph", "none"}, default="auto"
        The random transformations to which clusters shall be blind. "glyph" does not mirror. "auto" looks at the
        pixels.
    colour : {"auto", "grey", "colour", "ink"}, default="auto"
        Whether the network sees colours. "ink" is how far each pixel is from the colour of its paper. In "fast", "auto"
        is ink for drawings in any colours on any paper, else colours if there are any; in "paper", and with a preset,
        it takes them away, as in the paper, except for the dog presets.
    resize : {"crop", "squash"}, default="crop"
        How image files reach their size: cut to the middle, or all of the image with its shape changed.
    format : str, default=None
        How to read an X that is a path: "folder", "csv", "cifar10", "parquet" and so on. By default it is told from
        what is there.
    batch_size : int, default=None
        M, the images whose targets "paper" computes together, and of which one record of the history speaks. By
        default that of the preset, or 1000.
    sub_batch : int, default=None
        The images of one optimiser step: m2 of "paper", 32 by default; the batch of "fast", 128 by default.
    passes : int, default=None
        How often "paper" goes over each batch before it makes new targets: 1 by default, 8 in the authors' code.
    learning_rate : float, default=None
        Of Adam in "paper", 0.001 by default; of Muon in "fast", 0.02 by default.
    loss_weights : LossWeights, default=None
        Weights of the four losses; by default the paper's for "paper", all 1 for "fast".
    precision : {"auto", "32-true", "bf16-mixed", "16-mixed"}, default="auto"
        Number format of the training. "auto" is "bf16-mixed" in "fast" on a CPU that computes with 16-bit floats, which
        takes less time, and "32-true" otherwise. Both heads, and all that is predicted, are in 32 bits.
    patience : int, default=None
        Stop early once assignments have stood still for so many epochs; in "fast", go on with the next cut of the
        graph, and stop after the last.
    callbacks : sequence of Callback, default=None
        Objects that look on while the network learns.
    verbose : bool, default=False
        Print a line now and then.
    watch : bool, default=True
        Leave out steps whose loss or gradient is not finite, and revive clusters that stay empty.
    memory : str or int, default=None
        Stay within so much memory, such as "2GB": sub-batches are made as small as it takes, by measuring some steps.
    run : path, default=None
        A folder for the run, as ``save`` writes it, that must not be there yet. While the network learns, its state is
        kept there every two minutes: :meth:`resume` goes on with a fit that was interrupted. Ctrl-C and SIGTERM finish
        the step and keep the state before ``KeyboardInterrupt`` is raised; a second one does not wait.

    Attributes
    ----------
    labels_ : ndarray of shape (N,)
        The cluster of each image.
    label_features_ : ndarray of shape (N, k)
        The label features of each image; rows sum to 1.
    history_ : list of Record
        One record for each outer iteration.
    settings_ : Settings
        Everything that determined the fit.
    network_ : GATNetwork
        The trained network.
    names_ : list of str
        Names of the images: paths, or positions in an array.
    skipped_ : tuple of Skipped
        Files that could not be read, with the reason.

    Examples
    --------
    >>> import numpy as np
    >>> from gatcluster import GATCluster
    >>> dark, light = np.zeros((20, 8, 8)), np.ones((20, 8, 8))
    >>> images = np.concatenate([dark, light]) + np.random.default_rng(0).random((40, 8, 8)) / 4
    >>> model = GATCluster(n_clusters=2, epochs=20, random_state=0).fit(images / 1.25)
    >>> len(set(model.labels_[:20])), len(set(model.labels_[20:])), bool(model.labels_[0] == model.labels_[20])
    (1, 1, False)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        recipe: Recipe = "fast",
        preset: str | None = None,
        image_size: ImageSize = None,
        minutes: float | None = None,
        epochs: int | None = None,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        augment: AugmentOrAuto = "auto",
        colour: Colour = "auto",
        resize: Resize = "crop",
        format: Format | None = None,
        batch_size: int | None = None,
        sub_batch: int | None = None,
        passes: int | None = None,
        learning_rate: float | None = None,
        loss_weights: LossWeights | None = None,
        precision: str = "auto",
        patience: int | None = None,
        callbacks: Sequence[Callback] | None = None,
        verbose: bool = False,
        watch: bool = True,
        memory: str | int | None = None,
        run: str | os.PathLike[str] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.recipe = recipe
        self.preset = preset
        self.image_size = image_size
        self.minutes = minutes
        self.epochs = epochs
        self.device = device
        self.random_state = random_state
        self.augment = augment
        self.colour = colour
        self.resize = resize
        self.format = format
        self.batch_size = batch_size
        self.sub_batch = sub_batch
        self.passes = passes
        self.learning_rate = learning_rate
        self.loss_weights = loss_weights
        self.precision = precision
        self.patience = patience
        self.callbacks = callbacks
        self.verbose = verbose
        self.watch = watch
        self.memory = memory
        self.run = run

    def fit(self, X: Any, y: Any = None) -> GATCluster:
        """Learn clusters from images.

        Parameters
        ----------
        X : array, tensor, torch Dataset, list of paths, or path of a folder or file
            (N, H, W), (N, H, W, C) or (N, C, H, W), uint8 or float in [0, 1]; (N, F) is N images of one row.
        y : Ignored
            Labels are never used.
        """
        images, settings = prepare(
            self._checked(X, reset=True),
            n_clusters=self.n_clusters,
            seed=_seed(self.random_state),
            recipe=self.recipe,
            preset=self.preset,
            image_size=self.image_size,
            resize=self.resize,
            format=self.format,
            augment=self.augment,
            colour=self.colour,
            epochs=self.epochs,
            minutes=self.minutes,
            device=self.device,
            precision=self.precision,
            batch_size=self.batch_size,
            sub_batch=self.sub_batch,
            passes=self.passes,
            learning_rate=self.learning_rate,
            loss_weights=self.loss_weights,
            patience=self.patience,
            watch=self.watch,
            memory=self.memory,
        )
        if self.run is None:
            self._set_result(fit(images, settings, self._all_callbacks()), images)
        else:
            path = str(X) if isinstance(X, (str, os.PathLike)) else None
            plan = Plan(path and str(Path(path).resolve()), self.format, given=path).begun(settings, images)
            with new_run(Path(self.run), overwrite=False) as run:
                plan.write(run.path)
                self._fit_in(run, plan, images)
        self._thumbnails = thumbnails(images, self.label_features_)
        return self

    @classmethod
    def resume(
        cls,
        run: str | os.PathLike[str],
        X: Any = None,
        *,
        callbacks: Sequence[Callback] | None = None,
        verbose: bool = False,
    ) -> GATCluster:
        """Go on with a fit that was interrupted, of an estimator with a ``run`` or of the command line, and finish it.

        With a number of epochs, and on a CPU, the result is that of a fit that was never interrupted, bit for bit.

        Parameters
        ----------
        run : path
            The run folder.
        X : as for ``fit``, default=None
            The same images. May be left out if ``fit`` got a path.
        callbacks, verbose
            As for the estimator.
        """
        path = Path(run)
        with reopened_run(path) as folder:
            plan = read_plan(path, lambda message: warnings.warn(message, stacklevel=3))
            source = None if X is None else cls()._checked(X, reset=True)
            with _same_cache(plan), plan.same_threads():
                plan, images = planned_images(plan, folder, source=source)
                assert plan.settings is not None
                model = cls._with_settings(plan.settings)
                model.set_params(callbacks=callbacks, verbose=verbose, run=run)
                model._fit_in(folder, plan, images)
        model._thumbnails = thumbnails(images, model.label_features_)
        return model

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The cluster of each image, (N,)."""
        clusters: NDArray[np.int64] = self.predict_proba(X).argmax(axis=1)
        return clusters

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """The label features of each image, (N, k): how surely it belongs to each cluster."""
        images = self._images_like_training(X)
        return label_features(self.network_, images, self.settings_)

    def transform(self, X: Any) -> NDArray[np.float32]:
        """The label features of each image, (N, k), in the container that ``set_output`` asks for."""
        return self.predict_proba(X)

    def attention_maps(self, X: Any) -> NDArray[np.float32]:
        """Where the network looks in each image: (N, H', W') in (0, 1], at the resolution of its feature map."""
        images = self._images_like_training(X)
        return attention_maps(self.network_, images, self.settings_)

    def plot_map(self, labels: Sequence[Any] | None = None) -> Figure:
        """A figure of all training images between their clusters: the paper's circular map.

        Parameters
        ----------
        labels : sequence of N, default=None
            Colour images by these, and not by their clusters.
        """
        check_is_fitted(self)
        from gatcluster.report.figures import map_figure

        return map_figure(self.label_features_, None if labels is None else [str(label) for label in labels])

    def plot_clusters(self, X: Any, *, images_per_cluster: int = 8) -> Figure:
        """A figure with one column for each cluster: its surest among the images of ``X``, which are not kept."""
        images = self._images_like_training(X)
        return plot_clusters(images, self.network_, self.settings_, images_per_cluster)

    def plot_attention(self, X: Any) -> Figure:
        """A figure of the surest of ``X`` for each cluster: the image, its label features, where the network looks."""
        return plot_attention(self._images_like_training(X), self.network_, self.settings_)

    def score(self, X: Any, y: Any = None) -> float:
        """How much a cluster tells of an image, without labels: mutual information as a share of log k, in [0, 1]."""
        return information_score(self.predict_proba(X))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fitted model and its clusters to a run folder."""
        check_is_fitted(self)
        result = FitResult(self.settings_, self.network_, self.label_features_, self.history_, self.snapshots_)
        with new_run(Path(path), overwrite) as run:
            run.write(result, self.names_, source=None, skipped=self.skipped_)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> GATCluster:
        """A fitted estimator from a run folder, of ``save`` or of the command line. No pickle is read."""
        run = load_run(Path(path))
        settings = run.settings()
        model = cls._with_settings(settings)
        features = run.label_features()
        names, _ = run.clusters()
        result = FitResult(settings, run.network(), features, run.history(), run.snapshots())
        no_pixels = np.empty((len(names), 0, 0, 0), np.uint8)
        model._set_result(result, ImageSet(no_pixels, names, tuple(read_skipped(run.path))))
        return model

    @classmethod
    def _with_settings(cls, settings: Settings) -> GATCluster:
        """An estimator that was made with these, as far as its parameters tell."""
        model = cls(
            settings.n_clusters,
            recipe=settings.recipe,
            preset=settings.network.preset,
            image_size=settings.images.size if min(settings.images.size) >= 8 else None,
            minutes=settings.training.minutes,
            epochs=settings.training.epochs,
            device=settings.device,
            random_state=settings.seed,
            augment=settings.images.augment,
            colour="ink" if settings.images.ink else "grey" if settings.images.grey else "colour",
            resize=settings.images.resize,
            batch_size=settings.training.batch_size,
            sub_batch=settings.training.sub_batch,
            passes=settings.training.passes,
            learning_rate=settings.training.learning_rate,
            loss_weights=settings.loss_weights,
            precision=settings.precision,
            patience=settings.training.patience,
            watch=settings.watch,
            memory=settings.memory,
        )
        if settings.images.size[0] == 1:
            model.n_features_in_ = settings.images.size[1]
        return model

    def _fit_in(self, run: RunFolder, plan: Plan, images: ImageSet) -> None:
        """Begin or go on with the fit of a run, and write all of it."""
        assert plan.settings is not None
        with _interruptible(run.path, plan) as interruption:
            keeper = Checkpoints(run.path, plan.identity(), plan.checkpoint_minutes, interruption)
            result = fit(images, plan.settings, [run.history_writer(), *self._all_callbacks()], keeper)
            run.write(result, images.names, plan.source, images.skipped, plan.source_format)
        self._set_result(result, images)

    def _all_callbacks(self) -> list[Callback]:
        return [*(self.callbacks or ()), *([PlainProgress()] if self.verbose else [])]

    def _set_result(self, result: FitResult, images: ImageSet) -> None:
        self.settings_ = result.settings
        self.network_ = result.network
        self.label_features_ = result.label_features
        self.labels_ = result.label_features.argmax(axis=1)
        self.history_ = result.history
        self.snapshots_ = result.snapshots
        self.names_ = list(images.names)
        self.skipped_ = tuple(images.skipped)
        self._n_features_out = result.settings.n_clusters

    def _checked(self, X: Any, reset: bool) -> Any:
        """``X`` with scikit-learn's checks of arrays; paths, tensors and datasets are checked where they are read."""
        if names_files(X) or is_dataset(X) or isinstance(X, torch.Tensor):
            return X
        least = 2 if reset else 1  # images: two clusters hold one each
        if getattr(X, "ndim", 2) > 2:
            return check_array(X, allow_nd=True, dtype=None, ensure_min_samples=least, estimator=self, input_name="X")
        return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=least)

    def _images_like_training(self, X: Any) -> ImageSet:
        check_is_fitted(self)
        return read_like(self._checked(X, reset=False), self.settings_.images, format=self.format)

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._clusters_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._clusters_html()
        return bundle

    def _clusters_html(self) -> str:
        """The clusters of a fitted estimator, to follow scikit-learn's own display."""
        if not hasattr(self, "label_features_"):
            return ""
        return clusters_html(self.label_features_, getattr(self, "_thumbnails", ()), len(self.skipped_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


def _seed(random_state: int | np.random.RandomState | None) -> int:
    """One seed from whatever scikit-learn takes for randomness; an int is its own."""
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))


def _same_cache(plan: Plan) -> AbstractContextManager[None]:
    """Look for decoded images where the run was told to keep them."""
    return nullcontext() if plan.cache is None else use_cache(None if plan.cache == "off" else Path(plan.cache))


@contextmanager
def _interruptible(run: Path, plan: Plan) -> Iterator[Interruption | None]:
    """On SIGINT and SIGTERM, end when the work is kept, with an error that says how to go on."""
    if threading.current_thread() is not threading.main_thread():
        yield None  # Python lets no other thread listen for signals
        return
    try:
        with Interruption() as interruption:
            yield interruption
    except Interrupted as stop:
        images = ", X" if plan.given is None else ""
        stop.args = (f"{stop}; GATCluster.resume({str(run)!r}{images}) goes on from here",)
        raise
