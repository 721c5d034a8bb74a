r"""Are the answers that are doubted truly worse? On drawings, whose counterfactuals are known.

    python tools/trust_study.py portraits --images 512 --out docs/results/trust-portraits.json

Limits are those of the model, from validation drawings; answers are to drawings of another seed,
on which no other result is reported. Drawings take turns: one attribute is flipped in each.
``default`` is the guidance of the model, ``fcfg`` the paper's, without an anchor; ``nothing`` asks
for no change, so that the answer is the drawing. An interrupted study resumes with the same
command.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import fcfg
from anchoring_tables import MODELS
from fcfg.datasets import portraits
from fcfg.guidance import Guidance
from fcfg.model import Action
from fcfg.pipeline.defaults import PAPER_GUIDANCE
from fcfg.pipeline.thresholds import Thresholds
from fcfg.reports.tables import table_row
from fcfg.sampling import as_sampling
from fcfg.support.images import image_keys
from fcfg.trust import measure_trust, reasons
from reproduction_tables import RESULTS
from study import made_by, model_arguments, provenance, write_json

CHUNK = 16
NOTHING = 128  # drawings that are also asked for no change
LABELS = {
    "nothing": "no change asked",
    "default": "the default",
    "fcfg": "FCFG 3.0 / 1.2, not calibrated",
}


def main(words: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    words = sys.argv[1:] if words is None else words
    parser = model_arguments(__doc__ or "")
    parser.add_argument("--images", type=int, default=512, help="drawings with answers")
    parser.add_argument("--seed", type=int, default=portraits.EVALUATION_SEED + 19)
    args = parser.parse_args(words)
    pipeline = fcfg.load(args.model).to(args.device)
    data = pipeline.provenance["training"]["data"]
    result: dict[str, Any] = {"provenance": provenance("trust_study", words, args), "rows": []}
    if args.out.exists():
        result = json.loads(args.out.read_text())
    world = portraits.sample(args.images, args.seed, data["size"], data["format"])
    done = 1 + max((row["drawing"] for row in result["rows"]), default=-1)
    for first in range(done, args.images, CHUNK):
        result["rows"] += _rows(pipeline, world, slice(first, min(first + CHUNK, args.images)))
        write_json(args.out, result)
        print(f"{first + CHUNK} of {args.images}", flush=True)
    assert pipeline.thresholds is not None
    print(table(result["rows"], pipeline.thresholds))


def _rows(
    pipeline: fcfg.CounterfactualPipeline, world: portraits.Portraits, here: slice
) -> list[dict[str, Any]]:
    names = pipeline.space.names
    target = names[here.start // CHUNK % len(names)]
    truth = portraits.counterfactual(world, {target: "flip"}).images[here]
    images = world.images[here]
    facts = {name: column[here] for name, column in world.attributes.items()}
    flipped = pipeline.act(facts, {target: "flip"}, keys=image_keys(images))
    rows: list[dict[str, Any]] = []
    questions = [("default", None, flipped), ("fcfg", PAPER_GUIDANCE, flipped)]
    if here.start < NOTHING:
        questions.append(("nothing", None, Action(facts, (target,), 0)))
    for label, guidance, action in questions:
        method = pipeline.method([target], guidance)
        there = pipeline.abduct(images, facts, **method.abduction)
        pair = pipeline.predict(there, action, method.setting)
        signals = measure_trust(pipeline, images, pair)
        right = images if label == "nothing" else truth
        errors = (pair.images - right).abs().mean(dim=(1, 2, 3)).tolist()
        about = {"do": target, "guidance": label, "rule": repr(method.setting)}
        about["sampling"] = str(method.sampling)
        for i, error in enumerate(errors):
            own = {name: _short(value) for name, value in signals.of(i).items()}
            rows.append(
                {"drawing": here.start + i, **about, "error": _short(error), "signals": own}
            )
    return rows


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def table(rows: Sequence[dict[str, Any]], thresholds: Thresholds) -> str:
    """Return how many answers are doubted, and their errors beside those of the others.

    Args:
        rows: Answers with their signals.
        thresholds: Limits of the signals.
    """
    heads = ["do", "answers", "doubted", "error of these", "error of the others"]
    lines = [heads, ["---"] * len(heads)]
    for label, words in LABELS.items():
        for do in dict.fromkeys(row["do"] for row in rows):
            own = [row for row in rows if (row["guidance"], row["do"]) == (label, do)]
            sides: dict[bool, list[float]] = {True: [], False: []}
            for row in own:
                limits = thresholds.limits_for(
                    [do], Guidance.parse(row["rule"]), as_sampling(row["sampling"])
                )
                sides[bool(reasons(row["signals"], limits, {}, {}))].append(row["error"])
            means = [f"{fmean(side):.4f}" if side else "–" for side in sides.values()]
            lines.append([do, words, f"{len(sides[True])} of {len(own)}", *means])
    return "\n".join(map(table_row, lines))


def section() -> str:
    """Return the table of the study on the shipped model."""
    result = json.loads((RESULTS / "trust-portraits.json").read_text("utf-8"))
    shown = table(result["rows"], Thresholds.read(MODELS / "portraits"))
    return f"{shown}\n\n{made_by(result['provenance'])}"


if __name__ == "__main__":
    main()
