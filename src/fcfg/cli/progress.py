"""Progress on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from fcfg.support.progress import SECONDS, AbstractReporter, OnProgress, in_words, share_bar


def pace(rate: float) -> str:
    """Describe the speed: steps per second, or seconds per step if that is larger.

    >>> pace(2.5), pace(0.2)
    ('2.5 it/s', '5.0 s/it')
    """
    return f"{rate:.1f} it/s" if rate >= 1 else f"{1 / rate:.1f} s/it"


@contextmanager
def resumable(told: Callable[[], str], *, quiet: bool = False) -> Generator[OnProgress]:
    """Show the share of some work; if it is interrupted, say how to go on.

    Yields:
        Function to call with the share.
    """
    try:
        with share_bar(quiet=quiet) as on_progress:
            yield on_progress
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; {told()}") from None


class _Rate(ProgressColumn):
    """Steps per second."""

    def render(self, task: Task) -> Text:
        """Return the speed, once there is one."""
        return Text(pace(task.speed) if task.speed else "", style="cyan")


class ProgressReporter(AbstractReporter):
    """The progress of a training run, with speed and loss."""

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        self.console = console if console is not None else Console(stderr=True)
        self._quiet = quiet
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=self.console,
            disable=quiet or not self.console.is_terminal,
        )
        self._activity, self._task = "", self._bar.add_task("", visible=False, note="")
        self._first, self._start, self._last = 0, 0.0, 0.0

    def __enter__(self) -> ProgressReporter:
        if not self._bar.disable:  # older releases of rich would print empty lines
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if not self._bar.disable:
            self._bar.stop()

    def progress(self, activity: str, done: int, total: int, loss: float | None = None) -> None:
        """Move the bar, or print a line if one is due; begin a new bar for a new activity."""
        now = time.monotonic()
        if activity != self._activity:
            self._bar.remove_task(self._task)
            self._task = self._bar.add_task(activity, total=total, completed=done, note="")
            self._activity, self._first, self._start, self._last = activity, done, now, now
        note = "" if loss is None else f"loss {loss:.4f}"
        self._bar.update(self._task, completed=done, note=note)
        if not self.console.is_terminal and (now - self._last > SECONDS or done == total):
            line, speed = f"{activity}: {'step ' if note else ''}{done} of {total}", ""
            if self._first < done < total:
                rate = (done - self._first) / (now - self._start)
                speed = f"{pace(rate)}, {in_words((total - done) / rate)} left"
            self.say(", ".join(filter(None, (line, note, speed))))
            self._last = now

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        if not self._quiet:  # without markup, which a path may look like
            self.console.print(text, markup=False, emoji=False, highlight=False, soft_wrap=True)
