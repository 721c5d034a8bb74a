"""The share of an experiment that is done, in network rows for one image."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from fcfg.causal.graph import CausalGraph
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.evaluation.experiment import Experiment, targets_of
from fcfg.guidance import Guidance
from fcfg.sampling import OnStep
from fcfg.support.progress import OnProgress, Progress


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


class BlockProgress:
    """The share of an experiment that is done, block by block of its images.

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
        self._costs, self._finished, self._size = costs, 0, 0
        self._per_image = 1 + sum(costs.total(*question) for question in questions)
        self._progress = Progress(images * self._per_image, on_progress)

    def begin_block(self, images: int, pending: Sequence[tuple[str, str]]) -> None:
        """Begin a block of images, some of whose questions may be answered already."""
        self._finished, self._size = self._finished + self._size, images
        left = sum(self._costs.total(*question) for question in pending) + bool(pending)
        self._progress.done = (self._finished + images) * self._per_image - images * left
        self._progress.advance(0)

    @contextmanager
    def phase(self, up: int = 0, down: int = 0) -> Generator[OnStep]:
        """Give a callback for the steps of a phase, and count the phase at its end.

        Args:
            up: Rows of a step from image to noise.
            down: Rows of a step from noise to image.
        """
        up, down = up * self._size, down * self._size
        ascending, descending = self._progress.phase(up), self._progress.phase(down, after=up)
        yield lambda step: (ascending if step.ascending else descending)(step)
        self._progress.advance(up + down)
