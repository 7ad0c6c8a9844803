"""The images of a planned run, read for the first time or again. The command line and the estimator both use it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from gatcluster.data.cache import OnProgress
from gatcluster.data.images import ImageSet
from gatcluster.data.workers import workers_within
from gatcluster.errors import InputError
from gatcluster.learning.fit import check_fittable
from gatcluster.prepare import prepare, read_like
from gatcluster.runs.folder import RunFolder
from gatcluster.runs.plan import Plan, check_same_images


def planned_images(
    plan: Plan,
    run: RunFolder,
    on_progress: OnProgress | None = None,
    source: Any = None,
    tell: Callable[[str], None] = lambda message: warnings.warn(message, stacklevel=3),
) -> tuple[Plan, ImageSet]:
    """The images that a plan names, and the plan with the settings that were completed for them.

    Args:
        plan: of a run that is not finished.
        run: its folder.
        on_progress: called with (images read, images in all).
        source: where the images are, if the plan does not say.
        tell: called with what the user should know.

    Raises:
        InputError: the images are not those that the run was begun with.
    """
    if source is None:
        with plan.same_folder() as named:
            return planned_images(plan, run, on_progress, named, tell)
    if plan.settings is None:
        if not {"n_clusters", "seed"} <= plan.choices.keys():
            raise InputError(f"{run.path} does not say what was to be learned: fit again with --overwrite")
        images, settings = prepare(
            source, format=plan.source_format, on_progress=on_progress, tell=tell, **plan.choices
        )
        check_fittable(settings)
        plan = plan.begun(settings, images)
        plan.write(run.path)
        return plan, images
    check_fittable(plan.settings)
    memory = plan.settings.memory
    with nullcontext() if memory is None else workers_within(memory):  # as when the run was begun
        images = read_like(source, plan.settings.images, on_progress, plan.source_format)
    check_same_images(plan, images)
    return plan, images
