"""How long each model of docs/rivals.md was trained, from the logs under docs/results."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fcfg.reports.tables import table_row
from fcfg.training import read_config

RESULTS = Path(__file__).parents[1] / "docs" / "results"
_PAUSE = 60.0  # seconds; a longer interval between two lines is a pause, not training
_RUNS = {
    "drawings": ("portraits", "hvae-portraits", "hvae-soft-portraits", "sadcg-portraits"),
    "digits": (
        *("digits", "hvae-digits", "hvae-soft-digits", "hvae-tuned-digits", "sadcg-digits"),
    ),
    "faces": ("hvae-celeba-64", "hvae-soft-celeba-64", "sadcg-celeba-64"),
}
_PRESETS = {"hvae-tuned-digits": "hvae-soft-digits"}  # of runs with another name
_PARTS = ("diffusion", "hvae", "finetuning")


def table(folder: Path = RESULTS) -> str:
    """Return steps, images seen and minutes of the parts that make images.

    Args:
        folder: Folder with a file NAME-training.jsonl for every model.
    """
    lines = [["data", "model", "part", "steps", "images seen", "minutes"], ["---"] * 6]
    for data, runs in _RUNS.items():
        for name in runs:
            config = read_config(_PRESETS.get(name, name))
            log = (folder / f"{name}-training.jsonl").read_text("utf-8").splitlines()
            for part, (steps, seconds) in training_time(map(json.loads, log)).items():
                if part in _PARTS:
                    seen = f"{steps * getattr(config, part).batch / 1e6:.2f} M"
                    lines.append([data, name, part, f"{steps:,}", seen, f"{seconds / 60:.1f}"])
    return "\n".join(map(table_row, lines))


def training_time(entries: Iterable[dict[str, Any]]) -> dict[str, tuple[int, float]]:
    """Return the steps of every part and their seconds, without compilation and pauses.

    >>> log = [{"part": "hvae", "step": 20, "rate": 0.1}, {"part": "hvae", "step": 40, "rate": 10}]
    >>> training_time([*log, {"part": "hvae", "step": 40, "validation_loss": 1.0}])
    {'hvae': (40, 2.0)}

    Args:
        entries: Lines of the log of a run. The first line of a part is left out of the seconds,
            since its steps were compiled.
    """
    found: dict[str, tuple[int, float]] = {}
    for entry in entries:
        if "rate" not in entry:
            continue
        before, seconds = found.get(entry["part"], (0, 0.0))
        passed = (entry["step"] - before) / entry["rate"]
        counts = before > 0 and 0 < passed < _PAUSE  # a resumed run goes back in its log
        found[entry["part"]] = entry["step"], seconds + passed * counts
    return found
