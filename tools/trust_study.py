r"""Are the answers that are doubted truly worse? On drawings, whose counterfactuals are known.

    python tools/trust_study.py portraits --images 512 --out docs/results/trust.json

Thresholds come from validation drawings, answers from drawings of another seed. Drawings take
turns: one attribute is flipped in each. ``default`` is the guidance of the model, ``fcfg`` the
paper's, without an anchor; ``nothing`` asks for no change, so that the answer is the drawing.
An interrupted study resumes with the same command.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

import fcfg
from fcfg.datasets import portraits
from fcfg.datasets.portraits.data import VALIDATION_SEED
from fcfg.generation.results import Result, values_of
from fcfg.pipeline.defaults import PAPER_GUIDANCE
from fcfg.pipeline.records import Action
from fcfg.trust import Thresholds, measure_trust, trust_thresholds
from study import model_arguments, provenance, write_json

SEED = portraits.EVALUATION_SEED + 19  # no result is reported on these drawings
CHUNK = 16
NOTHING = 128  # drawings that are also asked for no change
WORST = 0.2  # share of the answers that signals should find


def main(words: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    words = sys.argv[1:] if words is None else words
    parser = model_arguments(__doc__ or "")
    parser.add_argument("--images", type=int, default=512, help="drawings with answers")
    parser.add_argument("--validation", type=int, default=256, help="drawings for thresholds")
    args = parser.parse_args(words)
    pipeline = fcfg.load(args.model).to(args.device)
    data = pipeline.provenance["training"]["data"]
    result: dict[str, Any] = {"provenance": provenance("trust_study", words, args), "rows": []}
    if args.out.exists():
        result = json.loads(args.out.read_text())
        pipeline.thresholds = Thresholds.model_validate(result["thresholds"])
    else:
        real = portraits.sample(args.validation, VALIDATION_SEED, data["size"], data["format"])
        pipeline.thresholds = trust_thresholds(
            pipeline, real.images, real.attributes, batch_size=args.batch_size
        )
        result["thresholds"] = json.loads(pipeline.thresholds.model_dump_json())
        write_json(args.out, result)
    world = portraits.sample(args.images, SEED, data["size"], data["format"])
    done = 1 + max((row["drawing"] for row in result["rows"]), default=-1)
    for first in range(done, args.images, CHUNK):
        result["rows"] += _rows(pipeline, world, slice(first, min(first + CHUNK, args.images)))
        write_json(args.out, result)
        print(f"{first + CHUNK} of {args.images}", flush=True)
    _show(result["rows"])


def _rows(
    pipeline: fcfg.CounterfactualPipeline, world: portraits.Portraits, here: slice
) -> list[dict[str, Any]]:
    assert pipeline.thresholds is not None
    names = pipeline.space.names
    target = names[here.start // CHUNK % len(names)]
    truth = portraits.counterfactual(world, {target: "flip"}).images[here]
    images = world.images[here]
    table = {name: column[here] for name, column in world.attributes.items()}
    default = pipeline.choose_guidance([target])
    sampling = pipeline.default_sampling(default.anchor)
    there = pipeline.abduct(images, table, sampling=sampling)
    flipped = pipeline.act(table, {target: "flip"}, keys=there.keys)
    rows: list[dict[str, Any]] = []
    questions = [("default", default, flipped), ("fcfg", PAPER_GUIDANCE, flipped)]
    if here.start < NOTHING:
        questions.append(("nothing", default, Action(table, (target,), 0)))
    for label, guidance, action in questions:
        pair = pipeline.predict(there, action, guidance)
        signals = measure_trust(pipeline, images, pair)
        limits = pipeline.thresholds.limits_for([target], guidance, sampling)
        right = images if label == "nothing" else truth
        change, error, size = (
            (a - b).abs().mean(dim=(1, 2, 3)).tolist()
            for a, b in ((pair.images, images), (pair.images, right), (right, images))
        )
        for i in range(len(images)):
            answer = Result(
                "",
                (0, 0),
                (),
                "given",
                factual=values_of(pipeline.space, table, i),
                counterfactual=values_of(pipeline.space, action.attributes, i),
                change=change[i],
                signals=dict(signals.of(i)),
            ).doubted(limits)
            rows.append(
                {
                    "drawing": here.start + i,
                    "do": target,
                    "guidance": label,
                    "error": error[i],
                    "change": change[i],
                    "true change": size[i],
                    "reasons": answer.reasons,
                    "signals": answer.signals,
                }
            )
    return rows


def _show(rows: list[dict[str, Any]]) -> None:
    for label in ("nothing", "default", "fcfg"):
        for do in (*dict.fromkeys(row["do"] for row in rows), ""):
            own = [r for r in rows if r["guidance"] == label and do in ("", r["do"])]
            doubted = [bool(row["reasons"]) for row in own]
            errors = np.array([row["error"] for row in own])
            means = [
                f"{fmean(errors[np.array(doubted) == side]):.4f}" if side in doubted else "none"
                for side in (True, False)
            ]
            worst = errors > np.quantile(errors, 1 - WORST)
            print(
                f"{label:8} do({do or 'any'}): {sum(doubted)} of {len(own)} doubted; error of "
                f"these {means[0]}, of the others {means[1]}"
            )
            if label != "nothing":
                print("   ", _found(own, worst))


def _found(rows: list[dict[str, Any]], worst: Any) -> str:
    """How often a signal is larger on the worst answers than on others."""
    names = [n for n in rows[0]["signals"] if all(n in row["signals"] for row in rows)]
    shares = {}
    for name in ["change", *names]:
        values = np.array(
            [row["change"] if name == "change" else row["signals"][name] for row in rows]
        )
        above = values[worst][:, None] > values[~worst][None]
        shares[name] = f"{name} {above.mean():.2f}"
    return ", ".join(shares.values())


if __name__ == "__main__":
    main()
