"""Kill every long command at random moments until it ends, and compare what it leaves.

    python studies/killed.py --kills 16

Commands run on tiny models in forked processes, which are killed by SIGKILL. A row of
``results/tables/killed.csv`` says how often a command was killed while it was at work, and whether
its files are those of a run that nobody disturbed, without the times that are in them.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import os
import re
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import fcfg  # noqa: E402
from desk import World  # noqa: E402
from fcfg.cli import main as command  # noqa: E402
from kills import kill_again_and_again  # noqa: E402
from local_hub import local_hub  # noqa: E402
from runs import same, tiny_file  # noqa: E402
from tiny import draw  # noqa: E402

TABLE = ROOT / "studies/results/tables/killed.csv"
#: Words of commands; OUT is a folder of each run.
COMMANDS = {
    "train": "train tiny.yaml --out OUT --set model.steps=28 --set run.checkpoint_steps=3",
    "generate": "generate model many --do smiling=flip --sampling 6 --batch-size 6 --out OUT",
    "evaluate": "evaluate model asked.yaml --images 12 --batch-size 8 --no-report"
    " --out OUT --cache OUT-kept",
    "calibrate": "calibrate model --images 8 --weights 1,2 --sampling 2 --out OUT"
    " --cache OUT-kept",
    "diagnose": "diagnose model --images 64 --noised 32 --out OUT",
    "report": "report results.jsonl --out OUT",
}
_TIMES = re.compile(r'"(?:seconds|rate|check|time)": ("[^"]*"|[\d.e+-]+),? ?')


def run(words: str, name: str) -> None:
    """Run a command in silence."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        code = command([word.replace("OUT", folder_of(name)) for word in words.split()])
    if code != 0:
        raise RuntimeError(f"{words}: exit code {code}, {told.getvalue()}")


def folder_of(name: str) -> str:
    """Return the folder of a run."""
    return f"run-{name}-here"


def contents(folder: Path) -> dict[str, Any]:
    """Return the files of a folder, without times and the name of the folder."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(part.startswith(".") for part in path.parts):
            data = path.read_bytes()
            if path.suffix in (".json", ".jsonl", ".html", ".md", ".csv"):
                text = _TIMES.sub("", data.decode()).replace(folder.name, "")
                data = "\n".join(sorted(text.splitlines())).encode()
            found[str(path.relative_to(folder))] = data
    return found


def is_same(name: str, one: Path, other: Path) -> bool:
    """Return whether two runs left the same: weights to the bit, or all files."""
    if name == "train":
        return same(one, other)
    a, b = contents(one), contents(other)
    for file in sorted(a.keys() | b.keys()):
        if a.get(file) != b.get(file):
            print(f"{name}: {file} differs", file=sys.stderr)
    return a == b


def fetch(name: str) -> None:
    """Fetch a model from the hub into a cache."""
    import huggingface_hub.constants as constants

    constants.HF_HUB_CACHE = str(Path(folder_of(name)).absolute())
    constants.HF_HUB_DISABLE_PROGRESS_BARS = True
    fcfg.load("hf://me/tiny")


def killed(name: str, work: Callable[[str], None], kills: int) -> list[str]:
    """Return a row of the table."""
    effective = 0
    while effective < kills:
        effective += kill_again_and_again(partial(work, "out"), work, min(4, kills - effective))
        work("out")
        result = is_same(name, Path(folder_of("out")), Path(folder_of("first")))
        for folder in Path().glob("run-*"):
            shutil.rmtree(folder)
        if not result:
            return [name, str(effective), "no"]
    return [name, str(effective), "yes"]


def main() -> int:
    """Kill all commands, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=16)
    parser.add_argument("--commands", default=",".join([*COMMANDS, "download of a model"]))
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [["command", "kills while it was at work", "same files at the end"]]
    with TemporaryDirectory() as folder, local_hub() as hub:
        desk = World(Path(folder)).desk
        hub.commit("me/tiny", "main", {p.name: p.read_bytes() for p in (desk / "model").iterdir()})
        os.environ["HF_ENDPOINT"] = hub.address
        draw(desk, [f"many/{number}.png" for number in range(12)])
        tiny_file(desk)
        os.chdir(desk)
        for name in options.commands.split(","):
            work = partial(run, COMMANDS[name]) if name in COMMANDS else fetch
            rows.append(killed(name, work, options.kills))
            print(*rows[-1], flush=True)
        os.chdir("/")
    rows.append(["all", str(sum(int(row[1]) for row in rows[1:])), ""])
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    return 0 if all(row[2] != "no" for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
