"""The log of a run: a JSONL file and, if asked for, trackers of experiments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from fcfg.support.errors import InputError
from fcfg.support.files import naming, write_atomically

_FORWARD = ("wandb", "trackio")  # their steps never go back, and every part begins at 0


class RunLog:
    """A file with one line of JSON for every event of a run; trackers may get all numbers.

    Args:
        folder: The folder of the file.
        trackers: Names of those that get them, too.
        settings: Settings of the run, by name, which trackers show beside the numbers.
    """

    def __init__(
        self,
        folder: Path,
        *,
        trackers: tuple[str, ...] = (),
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = folder / "log.jsonl"
        self._trackers = {name: _started(name, folder, settings or {}) for name in trackers}

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
        for name, tracker in self._trackers.items():
            numbers = {f"{part}/{each}": value for each, value in values.items()}
            if name in _FORWARD:
                tracker.log({f"{part}/step": step, **numbers})
            else:
                tracker.log(numbers, step=step)

    def close(self) -> None:
        """End what trackers began."""
        for tracker in self._trackers.values():
            tracker.finish()


def _started(name: str, folder: Path, settings: Mapping[str, Any]) -> Any:
    """Begin a run of a tracker of accelerate; those on this machine write below the folder."""
    if find_spec(name) is None:
        raise InputError(
            f"run.trackers, {name}",
            expected="the package to be installed",
            got="no such package",
            do=f"pip install {name}, or leave it out: log.jsonl holds the same log",
        )
    from accelerate import PartialState
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS

    PartialState()  # they ask which process they are in
    kind = cast(Any, LOGGER_TYPE_TO_CLASS[name])
    if name == "tensorboard":
        tracker = kind(name, logging_dir=str(folder))
        tracker.start()
        return tracker
    tracker = kind("fcfg")
    tracker.start()
    tracker.store_init_configuration(dict(settings))
    return tracker
