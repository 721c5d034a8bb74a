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
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from fcfg.support.progress import SECONDS, OnProgress, Reporter, in_words, share_bar


def pace(rate: float) -> str:
    """Describe the speed: steps per second, or seconds per step if that is larger."""
    return f"{rate:.1f} it/s" if rate >= 1 else f"{1 / rate:.1f} s/it"


@contextmanager
def resumable(told: Callable[[], str], *, quiet: bool = False) -> Generator[OnProgress]:
    """Show the share of some work; if it is interrupted, say how to go on."""
    try:
        with share_bar(quiet=quiet) as on_progress:
            yield on_progress
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; {told()}") from None


class ProgressReporter(Reporter):
    """The progress of several activities, with speed and loss."""

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        self.console = console if console is not None else Console(stderr=True)
        self._quiet = quiet
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}", style="cyan"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=self.console,
            disable=quiet or not self.console.is_terminal,
        )
        self._activity = ""
        self._first, self._start, self._last = 0, 0.0, 0.0

    def __enter__(self) -> ProgressReporter:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if not self._bar.disable:  # older releases of rich would print an empty line
            self._bar.stop()

    def progress(self, activity: str, done: int, total: int, loss: float | None = None) -> None:
        """Move the bar, or print a line if one is due; begin a new bar for a new activity."""
        now = time.monotonic()
        if activity != self._activity:
            for task in self._bar.task_ids:
                self._bar.remove_task(task)
            self._bar.add_task(activity, total=total, completed=done, note="", speed="")
            self._activity, self._first, self._start, self._last = activity, done, now, now
        note = "" if loss is None else f"loss {loss:.4f}"
        rate = (done - self._first) / (now - self._start) if now > self._start else 0.0
        speed = pace(rate) if rate else ""
        self._bar.update(self._bar.task_ids[0], completed=done, note=note, speed=speed)
        if not self.console.is_terminal and (now - self._last > SECONDS or done == total):
            line = f"{activity}: {'step ' if note else ''}{done} of {total}"
            left = in_words((total - done) / rate) if rate and done < total else ""
            self.say(", ".join(filter(None, (line, note, left and f"{speed}, {left} left"))))
            self._last = now

    def say(self, text: str) -> None:
        if not self._quiet:  # without markup, which a path may look like
            self.console.print(text, markup=False, emoji=False, highlight=False, soft_wrap=True)
