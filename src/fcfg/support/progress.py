"""Progress: the share of some work that is done, and the receivers of progress."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol, TypeAlias

OnProgress: TypeAlias = Callable[[float], None]  # called with a share from 0 to 1


def in_words(seconds: float) -> str:
    """Describe a duration.

    >>> in_words(42), in_words(700), in_words(30_000)
    ('about 42 s', 'about 12 min', 'about 8.3 h')
    """
    if seconds < 120:
        return f"about {seconds:.0f} s"
    minutes = seconds / 60
    return f"about {minutes:.0f} min" if minutes < 120 else f"about {minutes / 60:.1f} h"


class HasShare(Protocol):
    """A step of a phase, which knows the share of the phase that is done."""

    @property
    def share(self) -> float:
        """The share of the phase, from 0 to 1."""
        ...


class Progress:
    """The share of some work that is done, computed from the costs of its phases.

    >>> progress = Progress(4, print)
    >>> progress.advance(1)
    0.25

    Args:
        total: Cost of the whole work.
        on_progress: Callback invoked with the share.
    """

    def __init__(self, total: float, on_progress: OnProgress | None) -> None:
        self._total, self._on_progress = total, on_progress
        self.done = 0.0  #: cost of the phases that are over

    def advance(self, cost: float) -> None:
        """Count a phase that is over."""
        self.done += cost
        self._report(self.done)

    def phase(self, cost: float, after: float = 0.0) -> Callable[[HasShare], None]:
        """Return a callback for the steps of a phase.

        Args:
            cost: Cost of the phase.
            after: Cost of phases before it that are not counted yet.
        """
        return lambda step: self._report(self.done + after + cost * step.share)

    def _report(self, done: float) -> None:
        if self._on_progress is not None:
            self._on_progress(min(1.0, done / self._total))


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
