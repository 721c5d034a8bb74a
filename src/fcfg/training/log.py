"""What a run says of itself: a JSONL file always, TensorBoard where it is wanted, a reporter."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from fcfg.support.errors import InputError
from fcfg.support.files import naming, write_atomically


class AbstractReporter(ABC):
    """Is told how a run goes; a progress bar, for instance."""

    @abstractmethod
    def begin(self, part: str, done: int, total: int) -> None:
        """A part begins, or goes on at ``done`` of ``total`` steps."""

    @abstractmethod
    def progress(self, part: str, done: int, loss: float) -> None:
        """Steps that are done, and the loss over the last ones."""

    @abstractmethod
    def counted(self, what: str, done: int, total: int) -> None:
        """Images that are read or drawn before the training begins."""

    @abstractmethod
    def say(self, text: str) -> None:
        """Something happened that a person may want to know."""


class Quiet(AbstractReporter):
    """Says nothing."""

    def begin(self, part: str, done: int, total: int) -> None:
        """Nothing."""

    def progress(self, part: str, done: int, loss: float) -> None:
        """Nothing."""

    def counted(self, what: str, done: int, total: int) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""


class RunLog:
    """One line of JSON for every event of a run, with its part and step.

    Args:
        path: The file; lines are added to what is there.
        tensorboard: A folder for TensorBoard, or none.
    """

    def __init__(self, path: Path, tensorboard: Path | None = None) -> None:
        self.path = path
        self._board: Any = None if tensorboard is None else _board(tensorboard)

    def rewind(self, part: str, step: int) -> None:
        """Forget what a part did after a step: it will be done again."""
        if self.path.exists():
            entries = self.entries()
            kept = [e for e in entries if e["part"] != part or e["step"] <= step]
            text = "".join(json.dumps(entry) + "\n" for entry in kept)
            write_atomically(self.path, text.encode())

    def entries(self) -> list[dict[str, Any]]:
        """All whole lines; a line that a crash cut short is not one."""
        found: list[dict[str, Any]] = []
        for line in self.path.read_text("utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def write(self, part: str, step: int, **values: float) -> None:
        """Add a line."""
        entry = {"part": part, "step": step, **values}
        with naming(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{part}/{name}", value, step)

    def close(self) -> None:
        """End the files."""
        if self._board is not None:
            self._board.close()


def _board(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard.writer import SummaryWriter
    except ImportError as error:
        raise InputError(
            "run.tensorboard",
            expected="TensorBoard to be installed",
            got="no such package",
            do="pip install 'fcfg[tensorboard]', or leave it out: the log is in log.jsonl, too",
        ) from error
    return SummaryWriter(str(folder))
