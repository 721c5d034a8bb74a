"""Measure how long one counterfactual takes with each model of docs/rivals.md.

    python tools/rivals_seconds.py --out docs/results/rivals-seconds.json \\
        portraits hvae-portraits sadcg-portraits

A name is that of a shipped model, a folder, or a training preset, whose networks get random
weights: they take as long as trained ones. Every model answers about one image of noise at a time,
at the settings of ``baselines``, and a diffusion model also at its default. The time includes the
abduction. The first answer does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import fcfg
from fcfg.bench.bench_model import BenchModel, random_table, randomise_zero_layers
from fcfg.causal.attributes import Table
from fcfg.causal.graph import CausalGraph
from fcfg.causal.scm import StructuralCausalModel
from fcfg.evaluation import find_experiment
from fcfg.hvae import HVAEModel
from fcfg.model import AbstractCounterfactual, AnyModel, Method
from fcfg.pipeline.checkpoint import shipped
from fcfg.reports.rule_styles import setting
from fcfg.reports.tables import table_row
from fcfg.training import read_config
from fcfg.training.models import new_vae

RESULTS = Path(__file__).parents[1] / "docs" / "results"


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


def find_model(name: str) -> AnyModel:
    """Return a shipped model, that of a folder, or that of a preset with random weights.

    Args:
        name: Its name.
    """
    if name in shipped() or Path(name).is_dir():
        return fcfg.load(name)
    config = read_config(name)
    if config.vae is None:
        return BenchModel.from_preset(name, torch.device("cpu")).pipeline
    network, graph = new_vae(config), CausalGraph({key: [] for key in config.space.names})
    randomise_zero_layers(network)
    return HVAEModel(network, StructuralCausalModel(config.space, graph))


def questions(model: AnyModel) -> Iterator[tuple[str, Method[Any]]]:
    """Yield each setting of a model, and how it is asked.

    Args:
        model: The model.
    """
    target = model.space.names[0]
    for kind in ("baselines", "default") if model.kind == "diffusion" else ("baselines",):
        experiment = find_experiment(kind, graph=model.graph, model=model)
        for text in (text for do, text in experiment.questions if do == target):
            guided = model.parse_setting(text)
            method = model.method([target], guided, sampling=experiment.sampling)
            if kind == "baselines" or guided == model.method([target]).setting:
                yield text, method


def measure(name: str, answers: int) -> list[dict[str, Any]]:
    """Return the median seconds of a model at each of its settings.

    Args:
        name: Model.
        answers: Number of answers that count.
    """
    model = find_model(name).prepare()
    shape = (model.channels, model.size, model.size)
    images = torch.rand(answers + 1, *shape, generator=torch.Generator().manual_seed(0)) * 2 - 1
    attributes, others = (random_table(model.space, answers + 1, seed) for seed in (0, 1))
    target, rows = model.space.names[0], list[dict[str, Any]]()
    for text, method in questions(model):
        seconds: list[float] = []
        for number in range(answers + 1):
            one = slice(number, number + 1)
            factual = {key: column[one] for key, column in attributes.items()}
            began = time.perf_counter()
            answer = ask(model, method, images[one], factual, {target: others[target][one]})
            seconds.append(time.perf_counter() - began)
        row = {"model": Path(name).name, "setting": text, "sampling": str(method.sampling or "")}
        rows.append(row | {"rows": answer.evaluations, "seconds": statistics.median(seconds[1:])})
        print(rows[-1], flush=True)
    return rows


def table(folder: Path = RESULTS) -> str:
    """Return the table of docs/results/rivals-seconds.json.

    Args:
        folder: Folder with the file.
    """
    found = json.loads((folder / "rivals-seconds.json").read_text("utf-8"))
    lines = [["model", "setting", "steps", "network rows", "seconds"], ["---"] * 5]
    for row in found["rows"]:
        label = setting(row["setting"]).label
        seconds = float(f"{row['seconds']:.2g}")  # 120 rather than 1.2e+02
        cells = [row["model"], label, row["sampling"], f"{row['rows']:.0f}"]
        lines.append([*cells, f"{seconds:g}"])
    about = (
        f"`{found['command']}`: one counterfactual, median of {found['answers']}, on "
        f"{found['cores']} processor cores."
    )
    return "\n".join([*map(table_row, lines), "", about])


def main() -> None:
    """Measure the models named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--answers", type=int, default=3)
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
