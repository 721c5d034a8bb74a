"""The notebooks that a newcomer opens first: they hold no outputs, and every cell runs."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

import fcfg
from fcfg.cli import main

ROOT = Path(__file__).parents[1]
#: What makes the commands short enough for a test; nothing else is changed.
SHORTER = {
    "data example shapes": "--count 40",
    "train": "--set model.network.base=8 --set model.network.blocks=1 --set judge.width=4 "
    "--set run.sheets=0 --set model.steps=2 --set judge.steps=2 --set scm.steps=5",
    "evaluate": "--images 2 --sampling 2 --device cpu",
}


def cells(name: str) -> list[str]:
    notebook = json.loads((ROOT / "docs" / "notebooks" / f"{name}.ipynb").read_text("utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)
    return ["".join(cell["source"]) for cell in code]


def run(source: str, names: dict[str, Any]) -> None:
    """Run a cell as a notebook does: lines with ! are commands."""
    lines = source.splitlines()
    for line in (line[1:] for line in lines if line.startswith("!")):
        more = next((extra for start, extra in SHORTER.items() if f"fcfg {start}" in line), "")
        assert main(shlex.split(f"{line} {more}")[1:]) == 0, line
    exec("\n".join(line for line in lines if not line.startswith("!")), names)


@pytest.mark.parametrize("name", ["ask", "own_data"])
def test_every_cell_of_a_notebook_runs(name: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)  # as where it is not installed
    names: dict[str, Any] = {"__name__": "__main__"}
    for source in cells(name):
        run(source.replace("sample(4,", "sample(2,"), names)
    shown = names["answer" if name == "own_data" else "older"]
    assert "<img" in shown._repr_html_()
    if name == "ask":
        moved, kept = (names["error"](names[each].images) for each in ("older", "truth"))
        assert names["shown"].action.targets == ("smiling",)  # without a menu and a slider
        assert 0 == kept < moved < names["error"](names["other"].images)
    assert isinstance(names["model"], fcfg.CounterfactualPipeline)
