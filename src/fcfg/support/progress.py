"""Progress: the share of some work that is done, and the receivers of progress."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol, TypeAlias

OnProgress: TypeAlias = Callable[[float], None]  # called with a share from 0 to 1


class HasShare(Protocol):
    """A step of a phase, which knows the share of the phase that is done."""

    @property
    def share(self) -> float:
        """The share of the phase, from 0 to 1."""
        ...


class Progress:
    """The share of the work on some images that is done.

    Images are worked on in blocks, and each block goes through phases. Costs are per image.

    >>> progress = Progress(images=4, cost=3, on_progress=print)
    >>> progress.begin_block(2)
    >>> progress.advance(1.5)
    0.25

    Args:
        images: Number of all images.
        cost: Cost of all phases.
        on_progress: Callback invoked with the share.
    """

    def __init__(self, images: int, cost: float, on_progress: OnProgress | None) -> None:
        self._images, self._cost, self._on_progress = images, cost, on_progress
        self._finished, self._block, self._done = 0, 0, 0.0

    def begin_block(self, images: int) -> None:
        """Begin a block of images."""
        self._finished, self._block, self._done = self._finished + self._block, images, 0.0

    def advance(self, cost: float) -> None:
        """Count phases that are over, or not needed."""
        self._done += cost
        self._report(self._done)

    def phase(self, cost: float, after: float = 0.0) -> Callable[[HasShare], None]:
        """Return a callback for the steps of a phase.

        Args:
            cost: Cost of the phase.
            after: Cost of phases before it that are not counted yet.
        """
        return lambda step: self._report(self._done + after + cost * step.share)

    def _report(self, done: float) -> None:
        if self._on_progress is not None:
            share = (self._finished + self._block * done / self._cost) / self._images
            self._on_progress(min(1.0, share))


class AbstractReporter(ABC):
    """A receiver of the progress of several activities, such as a progress bar."""

    @abstractmethod
    def progress(self, activity: str, done: int, total: int, loss: float | None = None) -> None:
        """Report the progress of an activity.

        Args:
            activity: Part of a training run, or a task such as reading images.
            done: Number of steps or images that are done.
            total: Number of all of them.
            loss: Mean loss since the last report, after steps of a training.
        """

    @abstractmethod
    def say(self, text: str) -> None:
        """Report an event."""


class Quiet(AbstractReporter):
    """A reporter that ignores everything."""

    def progress(self, activity: str, done: int, total: int, loss: float | None = None) -> None:
        """Do nothing."""

    def say(self, text: str) -> None:
        """Do nothing."""
