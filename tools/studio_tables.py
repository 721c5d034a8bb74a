"""The table of docs/studio.md, from what tools/load_studio.py measured."""

from __future__ import annotations

import json
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "docs" / "results"


def speed(folder: Path = RESULTS) -> str:
    """Return the table of docs/results/studio.json."""
    found = json.loads((folder / "studio.json").read_text())
    one, many = found["one_visitor"], found["many_visitors"]
    turns, latency, memory = many["turns"], many["latency"], many["memory_mb"]
    slider = one["slider_median"]
    rows = [
        ("start, with the shipped `portraits`", f"{found['start_seconds']:.1f} s"),
        ("slider moved: first coarse answer", f"{slider['preview']:.1f} s"),
        ("slider moved: final answer", f"{slider['answer']:.1f} s"),
        ("the same, time of the processor alone", f"{slider['processor']:.1f} s"),
        (
            f"{many['visitors']} visitors at once, for {many['seconds']:.0f} s",
            f"{many['answers']} answers, {many['errors']} errors",
        ),
        ("turns of a visitor", f"{turns['min']} to {turns['max']}, median {turns['median']}"),
        ("wait for an answer in the crowd", f"median {latency['median']:.0f} s"),
        (
            "memory before, halfway and after",
            f"{memory['before']:.0f}, {memory['half']:.0f} and {memory['after']:.0f} MB",
        ),
    ]
    lines = ["| measured | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)]
    about = (
        f"\n{found['server']}; {found['cores']} cores, on which other processes kept a load of "
        f"{found['load_average_before']}. Measured by `python tools/load_studio.py`.\n"
    )
    return "\n".join(lines) + "\n" + about
