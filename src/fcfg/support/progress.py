"""Progress: the share of some work that is done, its receivers, and a bar that shows it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Timer
from typing import Protocol, TypeAlias, TypeVar

OnProgress: TypeAlias = Callable[[float], None]  # called with a share from 0 to 1

SECONDS = 30  # between two lines without a terminal
PATIENCE = 3.0  # seconds without a bar, of a call from Python

StepT = TypeVar("StepT", bound="HasShare")

_bar_is_shown: ContextVar[bool] = ContextVar("bar is shown", default=False)


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
    """A step of an abduction (``ascending``) or prediction, which knows the share that is done."""

    @property
    def share(self) -> float: ...

    @property
    def ascending(self) -> bool: ...


class Progress:
    """The share of some work that is done, computed from the costs of its phases."""

    def __init__(self, total: float, on_progress: OnProgress | None) -> None:
        self._total, self._on_progress = total, on_progress
        self.done = 0.0  #: cost of the phases that are over
        self.share = 0.0  #: the last share that was reported

    def advance(self, cost: float) -> None:
        """Count a phase that is over."""
        self.done += cost
        self._report(self.done)

    def phase(self, cost: float, after: float = 0.0) -> Callable[[HasShare], None]:
        """Return a callback for the steps of a phase."""
        return lambda step: self._report(self.done + after + cost * step.share)

    def both(self, up: float, down: float) -> Callable[[HasShare], None]:
        """Return a callback for the steps of an abduction and the prediction after it."""
        abducting, predicting = self.phase(up), self.phase(down, after=up)
        return lambda step: (abducting if step.ascending else predicting)(step)

    def _report(self, done: float) -> None:
        self.share = min(1.0, done / self._total)
        if self._on_progress is not None:
            self._on_progress(self.share)


class Reporter:
    """A receiver of the progress of several activities; this one ignores everything."""

    def progress(self, activity: str, done: int, total: int, loss: float | None = None) -> None:
        """Report how many steps or images of an activity are done, and the loss since then."""

    def say(self, text: str) -> None:
        """Report an event."""


@contextmanager
def share_bar(*, quiet: bool = False) -> Generator[OnProgress]:
    """Show the share of the work that is done: a bar on a terminal, lines elsewhere."""
    if quiet:
        yield lambda share: None
    elif sys.stderr.isatty():
        with _bar() as report:
            yield report
    else:
        yield _lines(SECONDS, "\n")


@contextmanager
def call_bar(callback: object, progress: bool) -> Generator[OnProgress]:
    """Show a bar for a call from Python that takes seconds, on a terminal or in a notebook."""
    wanted = progress and callback is None and not _bar_is_shown.get()
    if wanted and sys.stderr.isatty():
        with _bar(PATIENCE) as report:
            yield report
    else:  # in a notebook, a bar of rich would need further packages
        in_notebook = type(sys.stderr).__module__ == "ipykernel.iostream"
        yield _lines(PATIENCE, " " * 9 + "\r") if wanted and in_notebook else lambda share: None


@contextmanager
def steps_shown(
    on_step: Callable[[StepT], None] | None, progress: bool, up: float, down: float
) -> Generator[Callable[[StepT], None]]:
    """Show a bar for an abduction and a prediction, unless their steps have a callback."""
    with call_bar(on_step, progress) as report:
        yield on_step or Progress(up + down, report).both(up, down)


def _lines(seconds: float, end: str) -> OnProgress:
    """Return a function that prints the share when this many seconds have passed."""
    start = last = time.monotonic()

    def print_line(share: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > seconds and share > 0:
            left = in_words((now - start) * (1 / share - 1))
            print(f"{share:4.0%} done, {left} left", end=end, file=sys.stderr, flush=True)
            last = now

    return print_line


@contextmanager
def _bar(patience: float = 0.0) -> Generator[OnProgress]:
    """Show a bar on a terminal, after some seconds, and leave nothing behind."""
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    bar = Bar(*columns, console=Console(stderr=True), transient=True)
    task, timer = bar.add_task("", total=1.0), Timer(patience, bar.start)
    token, timer.daemon = _bar_is_shown.set(True), True
    timer.start()
    try:
        if not patience:
            timer.join()
        yield lambda share: bar.update(task, completed=share)
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
        _bar_is_shown.reset(token)
