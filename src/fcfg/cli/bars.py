"""Progress bars with the time that is left, where somebody can see them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def share_bar(description: str = "") -> Generator[Callable[[float], None] | None]:
    """A bar that is told which share of the work is done; None where nobody is watching.

    Args:
        description: Before the bar.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        *([TextColumn(description, markup=False)] if description else []),
        *(BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn()),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=1.0)
        yield lambda share: progress.update(task, completed=share)
