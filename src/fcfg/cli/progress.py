"""Progress on a terminal: a bar with rate, remaining time and loss; plain lines elsewhere."""

from __future__ import annotations

import time

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

from fcfg.cli.bars import SECONDS, time_left
from fcfg.training.log import AbstractReporter


def pace(rate: float) -> str:
    """Steps in a second, or seconds for a step where that is the larger number.

    >>> pace(2.5), pace(0.2)
    ('2.5 it/s', '5.0 s/it')
    """
    return f"{rate:.1f} it/s" if rate >= 1 else f"{1 / rate:.1f} s/it"


class _Rate(ProgressColumn):
    """Steps in a second."""

    def render(self, task: Task) -> Text:
        """Nothing until there is something to divide."""
        return Text(pace(task.speed) if task.speed else "", style="cyan")


class ProgressReporter(AbstractReporter):
    """Shows how a training run goes, on standard error.

    Args:
        console: Where to; standard error by default.
        quiet: Show nothing, as all processes but the first should.
    """

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
        self._task = self._bar.add_task("", start=False, visible=False, note="")
        self._what, self._total = "", 0
        self._first, self._start, self._said = 0, 0.0, 0.0

    def __enter__(self) -> ProgressReporter:
        if not self._bar.disable:  # else older releases of rich write empty lines
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if not self._bar.disable:
            self._bar.stop()

    def begin(self, part: str, done: int, total: int) -> None:
        """A new bar."""
        self._new_bar(part, done, total)
        if done:
            self.say(f"{part}: going on at step {done} of {total}")

    def progress(self, part: str, done: int, loss: float) -> None:
        """Move the bar, or write a line now and then."""
        self._move(f"{part}: step {done} of {self._total}", done, f"loss {loss:.4f}")

    def counted(self, what: str, done: int, total: int) -> None:
        """A bar for images."""
        if self._what != what:
            self._new_bar(what, done, total)
        self._move(f"{what}: {done} of {total}", done, "")

    def _new_bar(self, what: str, done: int, total: int) -> None:
        self._bar.remove_task(self._task)
        self._task = self._bar.add_task(what, total=total, completed=done, note="")
        self._what, self._total = what, total
        self._first, self._start = done, time.monotonic()
        self._said = self._start

    def _move(self, line: str, done: int, note: str) -> None:
        self._bar.update(self._task, completed=done, note=note)
        now, speed = time.monotonic(), ""
        if not self.console.is_terminal and (now - self._said > SECONDS or done == self._total):
            if self._first < done < self._total:
                rate = (done - self._first) / (now - self._start)
                speed = f"{pace(rate)}, {time_left((self._total - done) / rate)}"
            self.say(", ".join(filter(None, (line, note, speed))))
            self._said = now

    def say(self, text: str) -> None:
        """A line above the bar."""
        if not self._quiet:  # as it is: a path may hold what looks like markup
            self.console.print(text, markup=False, emoji=False, highlight=False, soft_wrap=True)
