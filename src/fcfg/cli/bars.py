"""Progress with the time that is left: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

SECONDS = 30  # between two lines where there is no terminal


def time_left(seconds: float) -> str:
    """How long something still takes, in words.

    >>> time_left(42), time_left(700), time_left(30_000)
    ('about 42 s left', 'about 12 min left', 'about 8.3 h left')
    """
    if seconds < 120:
        return f"about {seconds:.0f} s left"
    minutes = seconds / 60
    return f"about {minutes:.0f} min left" if minutes < 120 else f"about {minutes / 60:.1f} h left"


@contextmanager
def share_bar(*, quiet: bool = False) -> Generator[Callable[[float], None]]:
    """A bar that is told which share of the work is done; where there is no terminal, lines.

    Args:
        quiet: Whether to say nothing.
    """
    if quiet:
        yield lambda share: None
        return
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=1.0)
        yield lambda share: progress.update(task, completed=share)


class _Lines:
    """A line on standard error now and then."""

    def __init__(self) -> None:
        self._start = self._said = time.monotonic()

    def __call__(self, share: float) -> None:
        now = time.monotonic()
        if now - self._said > SECONDS and share > 0:
            left = time_left((now - self._start) * (1 / share - 1))
            print(f"{share:4.0%} done, {left}", file=sys.stderr, flush=True)
            self._said = now
