"""How fast a training step is, for the table of docs/training.md.

    python tools/training_throughput.py --out docs/results/training-throughput.json

The measurement is that of ``fcfg bench --only training``; see :mod:`fcfg.bench.training`
for the contestants. This script keeps it as the JSON file that tools/pages.py reads.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

import fcfg
from fcfg.bench import Bench, Measurement, Record, Scale, preset_subject
from fcfg.bench.training import ON_DEVICE, ONE_BATCH, STREAMED
from fcfg.support.files import write_atomically
from fcfg.training import presets


def rates(row: Measurement) -> dict[str, Any]:
    """A row as the table has it."""
    assert row.seconds is not None  # nobody is absent in training
    assert row.seconds_low is not None
    assert row.seconds_high is not None
    return {
        "steps_per_second": {
            "median": 1 / row.seconds,
            "low": 1 / row.seconds_high,
            "high": 1 / row.seconds_low,
        },
        "images_per_second": row.images_per_second,
        "tflops": row.tflops,
        "share_of_chip": row.share_of_chip,
        "ratio": row.ratio,
    }


def result(record: Record, scale: Scale) -> dict[str, Any]:
    """The contents of the file."""
    facts, rows = record.facts, {row.name: row for row in record.of("training")}
    found = {name: rates(row) for name, row in rows.items()}
    alone = found[ONE_BATCH]["steps_per_second"]["median"]
    waits = {"on device": ON_DEVICE, "streamed": STREAMED}
    return {
        "fcfg": fcfg.__version__,
        "torch": facts["torch"],
        "device": facts["device"],
        "precision": facts["chip_precision"],
        "preset": facts["model"],
        "parameters": int(facts["parameters"]),
        "batch": scale.pace.batch,
        "warmup": scale.pace.warmup,
        "windows": scale.pace.windows,
        "length": scale.pace.length,
        "flops": rows[ONE_BATCH].flops,
        "chip_tflops": float(facts["chip_tflops"]),
        "rows": found,
        "data_wait": {
            name: 1 - found[row]["steps_per_second"]["median"] / alone
            for name, row in waits.items()
        },
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", choices=presets(), default="celeba-hq")
    parser.add_argument("--quick", action="store_true", help="one window of each")
    parser.add_argument("--out", type=Path, help="write the result to this JSON file")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    scale = Scale.fitting(device, quick=args.quick)
    subject = preset_subject(args.preset, device)
    record = Bench(subject, scale, ("training",), compiled=device.type == "cuda").run()
    text = json.dumps(result(record, scale), indent=2)
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(args.out, text.encode() + b"\n")
    print(text)


if __name__ == "__main__":
    main()
