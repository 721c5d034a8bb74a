"""How a training run ends before its end."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


class TrainingStopped(Exception):
    """A run ended early; what it had done is kept.

    Args:
        message: Why, what is kept, and how to go on.
        code: Exit code of the command: 128 + the signal, or 1 where something went wrong.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class StopRequest:
    """Whether somebody asked the run to stop."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.signal == signal.SIGINT and number == signal.SIGINT:
            raise KeyboardInterrupt  # asked twice: at once
        self.signal = number

    def check(self, what: str) -> None:
        """End now, where somebody asked for it.

        Args:
            what: Is being done, of which nothing needs to be kept.
        """
        if self.signal is not None:
            message = f"{what}: stopped; run the same command again to go on"
            raise TrainingStopped(message, code=128 + self.signal)

    @contextmanager
    def listening(self) -> Generator[None]:
        """Take Ctrl-C and the system's request to end as a wish to end after this step."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = [signal.signal(number, self._ask) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)
