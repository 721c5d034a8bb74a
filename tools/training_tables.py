"""Tables of training, for docs/training.md: presets, speed, and weight decay."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fcfg.training import TrainingConfig, read_config
from fcfg.training.describe import describe

RESULTS = Path(__file__).parents[1] / "docs" / "results"
PRESETS = (
    *("celeba-hq", "embed", "mimic-cxr", "celeba-64", "radiographs", "digits"),
    *("portraits", "portraits-causal"),
)


def presets_table() -> str:
    """Return a table with a column for each preset."""
    configs = {name: read_config(name) for name in PRESETS}
    columns = {name: _values(config) for name, config in configs.items()}
    keys = list(columns[PRESETS[0]])
    lines = [["", *PRESETS], ["---"] * (1 + len(PRESETS))]
    lines += [[key, *(columns[name][key] for name in PRESETS)] for key in keys]
    return _markdown(lines)


def _values(config: TrainingConfig) -> dict[str, str]:
    network, diffusion, found = config.network, config.diffusion, describe(config)
    steps = f"{found.steps:,}"
    return {
        "images for training": f"{found.images:,}",
        "image": f"{config.data.size} × {config.data.size} × {config.data.channels}",
        "attributes": str(len(config.attributes)),
        "`base`": str(network.base),
        "`multipliers`": _list(network.multipliers),
        "`attention`": _list(network.attention),
        "`blocks`": str(network.blocks),
        "`dropout`": f"{network.dropout:g}",
        "parameters": f"{found.parameters / 1e6:.1f} M",
        "`schedule.kind`": config.schedule.kind,
        "`batch`": str(diffusion.batch),
        "`epochs`": "–" if diffusion.epochs is None else f"{diffusion.epochs:,}",
        "steps": steps,
        "`learning_rate`": f"{diffusion.learning_rate:g}",
        "`warmup`, `decay`": f"{diffusion.warmup}, {diffusion.decay}",
        "`clip`": "–" if diffusion.clip is None else f"{diffusion.clip:g}",
        "`weight_decay`": f"{diffusion.weight_decay:g}",
        "`ema`": f"{diffusion.ema:g}",
        "`p_null`": f"{diffusion.p_null:g}",
        "`judge.width`": str(config.judge.width),
        "`judge.steps`": f"{config.judge.steps:,}",
        "TFLOP a step": f"{found.flops / 1e12:.2f}",
        "TFLOP in all": f"{found.flops * (found.steps or 0) / 1e12:,.0f}",
    }


def throughput_table() -> str:
    """Return the table of tools/training_speed.py."""
    result = json.loads((RESULTS / "training-throughput.json").read_text("utf-8"))
    lines = [
        ["", "steps/s, median", "slowest to fastest", "images/s", "of the product", "ratio"],
        ["---"] * 6,
    ]
    lines += [[name, *_rates(row)] for name, row in result["rows"].items()]
    waits = " and ".join(f"{share:.1%} {name}" for name, share in result["data_wait"].items())
    return (
        _markdown(lines)
        + f"\n{result['device']}, torch {result['torch']}, {result['precision']}; `"
        + f"{result['preset']}`, {result['parameters'] / 1e6:.1f} M parameters, batch "
        + f"{result['batch']}, {result['flops'] / 1e12:.2f} TFLOP a step; medians over "
        + f"{result['windows']} windows of {result['length']} steps after {result['warmup']} "
        + "steps of warm-up. A large matrix product reaches "
        + f"{result['chip_tflops']:.0f} TFLOP/s there. "
        + f"Waiting for images, against one batch that is on the device: {waits}.\n"
    )


def _rates(row: dict[str, Any]) -> list[str]:
    rate = row["steps_per_second"]
    return [
        f"{rate['median']:.1f}",
        f"{rate['low']:.1f} to {rate['high']:.1f}",
        f"{row['images_per_second']:,.0f}",
        f"{row['share_of_chip']:.0%}",
        f"{row['ratio']:.2f}",
    ]


def weight_decay_table() -> str:
    """Return the table of tools/weight_decay.py."""
    result = json.loads((RESULTS / "weight-decay.json").read_text("utf-8"))
    rows = result["rows"]
    steps = list(dict.fromkeys(row["step"] for row in rows))
    heads = ["weight decay", *(f"step {step:,}" for step in steps)]
    lines = [heads, ["---"] * len(heads)]
    for name in dict.fromkeys(row["optimiser"] for row in rows):
        own = {row["step"]: row for row in rows if row["optimiser"] == name}
        cells = [f"{own[s]['effect']:.4f} / {own[s]['weights']:.4f}" for s in steps]
        lines.append([name, *cells])
    environment = result["environment"]
    return (
        _markdown(lines)
        + f"\n`{result['command']}`: drawings of {result['size']} × {result['size']} pixels, "
        + f"batch {result['batch']}, learning rate {result['learning_rate']:g}, decay "
        + f"{result['decay']:g}; {environment['device']}, torch {environment['torch']}, commit "
        + f"{result['commit'][:12]}.\n"
    )


def _markdown(lines: Iterable[Iterable[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers)) or "–"
