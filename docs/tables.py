"""The tables of the documentation: what presets and result files say, and nothing typed by hand.

python docs/tables.py            # writes them between their marks
python docs/tables.py --check    # ends with 1 where the page says something else

A table stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``. NAME is one of TABLES,
``reproduction/DATA-SET`` for a part of docs/reproduction.md, ``solvers/STUDY`` for one of
docs/choosing.md, ``bench/MACHINE`` for one of docs/speed.md, or the name of a result file:
``portraits-core`` is the table of docs/results/portraits-core.jsonl.gz. :func:`filled` is a
function of the page and of the files alone, so that a test can compare it with the page. Pictures
of studies are written beside.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import choosing
import reproduction
import speed

from fcfg.reports.generated_sections import generated
from fcfg.support.errors import InputError
from fcfg.training import TrainingConfig, read_config
from fcfg.training.describe import describe

DOCS = Path(__file__).parent
PAGES = (
    *(DOCS / name for name in ("training.md", "reproduction.md", "speed.md", "choosing.md")),
    DOCS / "own-data.md",
    DOCS.parent / "README.md",
)
ORDER = (
    *("celeba-hq", "embed", "mimic-cxr", "celeba-64", "nih-cxr14"),
    *("portraits", "portraits-causal"),
)


def presets_table() -> str:
    """One column for each preset."""
    configs = {name: read_config(name) for name in ORDER}
    columns = {name: _values(config) for name, config in configs.items()}
    keys = list(columns[ORDER[0]])
    lines = [["", *ORDER], ["---"] * (1 + len(ORDER))]
    lines += [[key, *(columns[name][key] for name in ORDER)] for key in keys]
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
    """What benchmarks/training_throughput.py wrote."""
    result = json.loads((DOCS / "results" / "training-throughput.json").read_text("utf-8"))
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
    """What benchmarks/weight_decay.py wrote."""
    result = json.loads((DOCS / "results" / "weight-decay.json").read_text("utf-8"))
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
        + f"{result['decay']:g}; {environment['device']}, torch {environment['torch']}.\n"
    )


TABLES: dict[str, Callable[[], str]] = {
    "weight-decay": weight_decay_table,
    "reversibility": reproduction.reversibility,
    "real-faces": reproduction.main_claim,
    "presets": presets_table,
    "training-throughput": throughput_table,
    "execution-cpu": speed.execution,
    "precision": speed.precision,
}


def filled(page: str) -> str:
    """A page with every table as the files have it now."""
    return generated(page, table)


def table(name: str) -> str:
    """What stands in the part of a name."""
    kind, _, rest = name.rpartition("/")
    if kind == "reproduction":
        return reproduction.part(rest)
    if kind == "solvers":
        return choosing.study(rest)
    if kind == "bench":
        return speed.bench(rest)
    if kind == "recorded-steps":
        return speed.recorded_steps(rest)
    if name in TABLES:
        return TABLES[name]()
    file = reproduction.RESULTS / f"{name}.jsonl.gz"
    if not file.exists():
        raise InputError(
            f"part '{name}'",
            expected=f"one of {', '.join(TABLES)}, reproduction/DATA-SET, solvers/STUDY, "
            "bench/MACHINE, or a result file",
            got=f"no docs/results/{file.name}",
            do="put the file there, or rename the part",
        )
    return reproduction.result_table(file)


def _markdown(lines: Iterable[Iterable[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers)) or "–"


def pictures() -> dict[Path, str]:
    """The picture of every study, by its file."""
    studies = sorted(choosing.RESULTS.glob("solvers-*.json"))
    return {DOCS / "figures" / f"{file.stem}.svg": choosing.picture(file) for file in studies}


def main() -> int:
    wanted = {page: filled(page.read_text("utf-8")) for page in PAGES} | pictures()
    stale = {
        path: text
        for path, text in wanted.items()
        if not path.exists() or path.read_text("utf-8") != text
    }
    if "--check" in sys.argv[1:]:
        print(*(f"{path}: run python docs/tables.py" for path in stale), sep="\n", end="")
        return 1 if stale else 0
    for path, text in stale.items():
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
