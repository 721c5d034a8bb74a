r"""Measure how long the default takes on a CPU, beside the paper's rule.

    python tools/answer_seconds.py portraits --out docs/results/answer-seconds.json

One drawing at a time. Answers take turns, so that a slow moment of the machine meets all of them.
A second question about the same image reuses its abduction and the factual branch.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import fcfg
from fcfg.datasets import portraits
from fcfg.model import AbstractCounterfactual
from fcfg.pipeline.defaults import PAPER_GUIDANCE
from fcfg.reports.tables import table_row
from reproduction_tables import RESULTS
from study import model_arguments, provenance, write_json

FIRST, SECOND = ("smiling", "male")  # attributes of the first question, and of the second


def main(words: Sequence[str] | None = None) -> None:
    """Measure, write the file and print a table."""
    words = sys.argv[1:] if words is None else words
    parser = model_arguments(__doc__ or "")
    parser.add_argument("--images", type=int, default=7, help="drawings; the first does not count")
    args = parser.parse_args(words)
    pipeline = fcfg.load(args.model).to(args.device).prepare()
    world = portraits.sample(args.images, portraits.EVALUATION_SEED)
    seconds: dict[str, list[float]] = {}
    for number in range(args.images):
        here = slice(number, number + 1)
        facts = {name: column[here] for name, column in world.attributes.items()}
        for label, ask in _questions(pipeline, world.images[here], facts):
            began = time.perf_counter()
            ask()
            seconds.setdefault(label, []).append(time.perf_counter() - began)
    medians = {label: statistics.median(own[1:]) for label, own in seconds.items()}
    about = provenance("answer_seconds", words, args) | {"cores": os.cpu_count()}
    result = {"provenance": about, "images": args.images - 1, "seconds": medians}
    write_json(args.out, result)
    print(table(result))


def _questions(
    pipeline: fcfg.CounterfactualPipeline, images: Any, facts: Any
) -> list[tuple[str, Callable[[], AbstractCounterfactual]]]:
    """Return what is timed about one image, in this order."""
    kept: list[Any] = []

    def first(target: str) -> AbstractCounterfactual:
        method = pipeline.method([target])
        kept.append(pipeline.abduct(images, facts, **method.abduction))
        return second(target)

    def second(target: str) -> AbstractCounterfactual:
        method = pipeline.method([target])
        return pipeline.predict(kept[-1], pipeline.act(facts, {target: "flip"}), method.setting)

    def plain() -> AbstractCounterfactual:
        do = {FIRST: "flip"}
        return pipeline.counterfactual(images, facts, do, guidance=PAPER_GUIDANCE)

    return [
        ("FCFG 3.0 / 1.2", plain),
        ("the default", lambda: first(FIRST)),
        ("the default, a second question", lambda: second(SECOND)),
    ]


def table(result: dict[str, Any]) -> str:
    """Return the seconds of each answer, and their ratio to the first."""
    lines = [["answer", "seconds", "ratio"], ["---"] * 3]
    reference = next(iter(result["seconds"].values()))
    for label, seconds in result["seconds"].items():
        label += ", not calibrated" if label.startswith("FCFG") else ""
        lines.append([label, f"{seconds:.2f}", f"{seconds / reference:.2f}"])
    return "\n".join(map(table_row, lines))


def section() -> str:
    """Return the table of the stored run."""
    result = json.loads((RESULTS / "answer-seconds.json").read_text("utf-8"))
    about = result["provenance"]
    command = f"`{about['command']}`: median of {result['images']} drawings, one at a time, on "
    return f"{table(result)}\n\n{command}{about['cores']} processor cores."


if __name__ == "__main__":
    main()
