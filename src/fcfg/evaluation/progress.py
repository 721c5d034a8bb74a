"""How much of an experiment is done, in network rows of one image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from fcfg.causal.graph import CausalGraph
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.evaluation.experiment import Experiment
from fcfg.guidance import Guidance
from fcfg.sampling import OnStep, StepRecord, time_grid

OnProgress: TypeAlias = Callable[[float], None]  # told which share of the work is done


class Costs:
    """Network rows that the questions of an experiment take, for one image and one step."""

    def __init__(
        self, experiment: Experiment, graph: CausalGraph, schedule: NoiseSchedule
    ) -> None:
        self._reverse, self._graph, self._schedule = experiment.reverse, graph, schedule
        self._times = time_grid(schedule, experiment.steps, experiment.grid)[::-1]

    def rows(self, do: str, guidance: str) -> int:
        """Of a guided step."""
        asked = Guidance.parse(guidance)
        groups = asked.partition(self._graph, targets_of(do))
        return asked.table(groups, self._times, self._schedule).rows

    def whole(self, do: str, guidance: str) -> int:
        """Of the way there and, where it is gone, back."""
        rows = self.rows(do, guidance)
        return rows + (1 + rows if do and self._reverse else 0)


class Work:
    """The share of the work that is done.

    Args:
        costs: Of every question.
        questions: That are asked of every image.
        images: How many there are.
        told: Whom to tell.
    """

    def __init__(
        self,
        costs: Costs,
        questions: Sequence[tuple[str, str]],
        images: int,
        told: OnProgress | None,
    ) -> None:
        self._costs, self._images, self._told = costs, images, told
        self._each = 1 + sum(costs.whole(*question) for question in questions)
        self._finished, self._size, self._inside = 0, 0, 0.0

    def begin_block(self, images: int, pending: Sequence[tuple[str, str]]) -> None:
        """Another block of images, of whose questions some may be answered already."""
        self._finished, self._size = self._finished + self._size, images
        left = sum(self._costs.whole(*question) for question in pending) + bool(pending)
        self._inside = self._each - left
        self._tell(0.0)

    def advance(self, cost: float) -> None:
        """A phase is over."""
        self._inside += cost
        self._tell(0.0)

    def phase(self, cost: float, after: float = 0.0) -> OnStep:
        """Told of the steps of a phase, which comes after another one."""

        def on_step(step: StepRecord) -> None:
            self._tell(after + cost * step.share)

        return on_step

    def _tell(self, more: float) -> None:
        if self._told is not None:
            share = self._finished + self._size * (self._inside + more) / self._each
            self._told(min(1.0, share / self._images))


def targets_of(do: str) -> tuple[str, ...]:
    """The attributes of an intervention.

    >>> targets_of("smiling+male"), targets_of("")
    (('smiling', 'male'), ())
    """
    return tuple(do.split("+")) if do else ()
