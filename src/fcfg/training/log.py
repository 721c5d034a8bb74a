"""The log of a run: a JSONL file and, optionally, TensorBoard."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from fcfg.support.errors import InputError
from fcfg.support.files import naming, write_atomically


class RunLog:
    """A file with one line of JSON for every event of a run; TensorBoard may get all numbers."""

    def __init__(self, folder: Path, *, tensorboard: bool = False) -> None:
        self.path = folder / "log.jsonl"
        self._board: Any = _board(folder / "tensorboard") if tensorboard else None

    def rewind(self, part: str, step: int) -> None:
        """Remove the lines of a part after a step, which will be repeated."""
        if self.path.exists():
            kept = [e for e in self.entries() if e["part"] != part or e["step"] <= step]
            text = "".join(json.dumps(entry) + "\n" for entry in kept)
            write_atomically(self.path, text.encode())

    def entries(self) -> list[dict[str, Any]]:
        """Read all complete lines; a crash may have cut one short."""
        entries: list[dict[str, Any]] = []
        for line in self.path.read_text("utf-8").splitlines():
            with suppress(ValueError):
                entries.append(json.loads(line))
        return entries

    def write(self, part: str, step: int, **values: float) -> None:
        """Append a line."""
        entry = {"part": part, "step": step, **values}
        with naming(self.path), self.path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps(entry) + "\n")
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{part}/{name}", value, step)

    def close(self) -> None:
        """Close TensorBoard."""
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
            do="pip install 'fcfg[tensorboard]', or leave it out: log.jsonl holds the same log",
        ) from error
    return SummaryWriter(str(folder))
