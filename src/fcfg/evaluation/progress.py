"""The share of an experiment that is done, in network rows for one image."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from fcfg.causal.graph import CausalGraph
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.evaluation.experiment import Experiment, targets_of
from fcfg.guidance import Guidance
from fcfg.sampling import OnStep, StepRecord

OnProgress: TypeAlias = Callable[[float], None]  # called with the share of the work that is done


class Costs:
    """Network rows that the questions of an experiment take, for one image and one step."""

    def __init__(
        self, experiment: Experiment, graph: CausalGraph, schedule: NoiseSchedule
    ) -> None:
        self._reverse, self._graph, self._schedule = experiment.reverse, graph, schedule
        self._times = experiment.sampling.times(schedule)[::-1]

    def rows(self, do: str, guidance: str) -> int:
        """Return the rows of a guided step."""
        rule = Guidance.parse(guidance)
        groups = rule.partition(self._graph, targets_of(do))
        return rule.table(groups, self._times, self._schedule).rows

    def total(self, do: str, guidance: str) -> int:
        """Return the rows of a prediction and, if it is reversed, of the reversal."""
        rows = self.rows(do, guidance)
        return rows + (1 + rows if do and self._reverse else 0)


class Progress:
    """Reports the share of the work that is done.

    Args:
        costs: Costs of the questions.
        questions: Questions that every image is asked.
        images: Number of images.
        on_progress: Callback invoked with the share.
    """

    def __init__(
        self,
        costs: Costs,
        questions: Sequence[tuple[str, str]],
        images: int,
        on_progress: OnProgress | None,
    ) -> None:
        self._costs, self._images, self._on_progress = costs, images, on_progress
        self._per_image = 1 + sum(costs.total(*question) for question in questions)
        self._finished = self._block = self._done = 0

    def begin_block(self, images: int, pending: Sequence[tuple[str, str]]) -> None:
        """Begin a block of images, some of whose questions may be answered already."""
        self._finished, self._block = self._finished + self._block, images
        left = sum(self._costs.total(*question) for question in pending) + bool(pending)
        self._done = self._per_image - left
        self._report(0.0)

    @contextmanager
    def phase(self, up: int = 0, down: int = 0) -> Generator[OnStep]:
        """Give a callback for the steps of a phase, and count the phase at its end.

        Args:
            up: Rows of a step from image to noise.
            down: Rows of a step from noise to image.
        """

        def on_step(step: StepRecord) -> None:
            self._report(up * step.share if step.ascending else up + down * step.share)

        yield on_step
        self._done += up + down
        self._report(0.0)

    def _report(self, more: float) -> None:
        if self._on_progress is not None:
            share = self._finished + self._block * (self._done + more) / self._per_image
            self._on_progress(min(1.0, share / self._images))
