"""Measure how long one counterfactual takes with each model of docs/rivals.md.

    python tools/rivals_seconds.py portraits runs/hvae-portraits runs/sadcg-portraits \\
        --out docs/results/rivals-seconds.json

Every model answers do(smiling) about one drawing at a time, at the settings of
``portraits/baselines``. The time includes the abduction. The first answer does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from torch import Tensor

import fcfg
from fcfg.causal.attributes import Table
from fcfg.datasets import portraits
from fcfg.evaluation import find_experiment
from fcfg.model import AbstractCounterfactual, AnyModel, Method
from fcfg.reports.rule_styles import setting
from fcfg.reports.tables import table_row

RESULTS = Path(__file__).parents[1] / "docs" / "results"
_DO = "smiling"


def ask(
    model: AnyModel, method: Method[Any], images: Tensor, attributes: Table, do: dict[str, Any]
) -> AbstractCounterfactual:
    """Answer a question with any kind of model.

    Args:
        model: The model.
        method: How it answers.
        images: Factual images.
        attributes: Their attributes.
        do: The intervention.
    """
    abduction = model.abduct(images, attributes, **method.abduction)
    return model.predict(abduction, model.act(attributes, do), method.setting)


def measure(folder: str, answers: int) -> list[dict[str, Any]]:
    """Return the median seconds of a model at each of its settings.

    Args:
        folder: Model.
        answers: Number of answers that count.
    """
    model = fcfg.load(folder).prepare()
    experiment = find_experiment("portraits/baselines", model=model)
    drawn = portraits.sample(answers + 1, seed=portraits.EVALUATION_SEED, size=32)
    rows: list[dict[str, Any]] = []
    for text in (text for do, text in experiment.questions if do == _DO):
        method = model.method([_DO], model.parse_setting(text), sampling=experiment.sampling)
        seconds: list[float] = []
        for number in range(answers + 1):
            one = slice(number, number + 1)
            factual = {name: column[one] for name, column in drawn.attributes.items()}
            began = time.perf_counter()
            answer = ask(model, method, drawn.images[one], factual, {_DO: 1 - factual[_DO]})
            seconds.append(time.perf_counter() - began)
        median = statistics.median(seconds[1:])
        row = {"model": Path(folder).name, "setting": text, "rows": answer.evaluations}
        rows.append(row | {"seconds": round(median, 4)})
        print(rows[-1])
    return rows


def table(folder: Path = RESULTS) -> str:
    """Return the table of docs/results/rivals-seconds.json.

    Args:
        folder: Folder with the file.
    """
    found = json.loads((folder / "rivals-seconds.json").read_text("utf-8"))
    lines = [["model", "setting", "network rows", "seconds"], ["---"] * 4]
    for row in found["rows"]:
        label = setting(row["setting"]).label
        lines.append([row["model"], label, f"{row['rows']:.0f}", f"{row['seconds']:.2g}"])
    about = (
        f"`{found['command']}`: one counterfactual of do({_DO}), median of {found['answers']}, on "
        f"{found['cores']} processor cores."
    )
    return "\n".join([*map(table_row, lines), "", about])


def main() -> None:
    """Measure the models named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--answers", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    rows = [row for model in arguments.models for row in measure(model, arguments.answers)]
    names = [Path(word).name if "/" in word else word for word in sys.argv[1:]]
    found = {
        "command": shlex.join(["python", "tools/rivals_seconds.py", *names]),
        "cores": os.cpu_count(),
        "answers": arguments.answers,
        "rows": rows,
    }
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
