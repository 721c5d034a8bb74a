r"""One weight for an attribute, or one for each direction? On drawings, whose truth is known.

    python tools/direction_weights.py portraits --out docs/results/direction-weights-portraits.json

Both are of the model's calibration, from validation drawings; answers are to drawings of another
seed. Every attribute is flipped, and flipped back. By direction, the way back has the weight of
its own direction, as a new question would.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

import fcfg
from fcfg.causal.attributes import Table
from fcfg.datasets import portraits
from fcfg.metrics import Bootstrap, Estimate, image_errors, image_mae, mean, ratio
from fcfg.pipeline.calibration import with_weights
from fcfg.reports.numbers import interval, number
from fcfg.reports.tables import table_row
from fcfg.support.images import image_keys
from reproduction_tables import RESULTS
from study import made_by, model_arguments, provenance, write_json

DIGITS = {"mae": 4, "change": 3, "reversal": 4}
HEADS = ["do", "weights", "MAE to the truth", "changed pixels", "reversal"]


def main(words: Sequence[str] | None = None) -> None:
    """Measure, write the file and print a table."""
    words = sys.argv[1:] if words is None else words
    parser = model_arguments(__doc__ or "")
    parser.add_argument("--images", type=int, default=512, help="number of drawings")
    parser.add_argument("--seed", type=int, default=portraits.EVALUATION_SEED + 20)
    args = parser.parse_args(words)
    pipeline = fcfg.load(args.model).to(args.device)
    data = pipeline.provenance["training"]["data"]
    world = portraits.sample(args.images, args.seed, data["size"], data["format"])
    about = provenance("direction_weights", words, args)
    result = {"provenance": about, "rows": _rows(pipeline, world, args.batch_size)}
    write_json(args.out, result)
    print(table(result))


def _rows(
    pipeline: fcfg.CounterfactualPipeline, world: portraits.Portraits, batch_size: int
) -> list[dict[str, Any]]:
    calibration = pipeline.calibration
    assert calibration is not None, "shipped models have one"
    rows: list[dict[str, Any]] = []
    for name, own in calibration.attributes.items():
        sides = own.directions
        if set(sides) != {"to 0", "to 1"}:
            continue
        truth = portraits.counterfactual(world, {name: "flip"}).images
        bootstrap, found = Bootstrap(len(truth)), dict[str, dict[str, Any]]()
        for kind, weights in (
            ("one weight", (own.weight, own.weight)),
            ("by direction", (sides["to 0"].weight, sides["to 1"].weight)),
        ):
            facts, keys = world.attributes, image_keys(world.images)
            there, table = _flipped(pipeline, world.images, facts, name, weights, keys, batch_size)
            back, _ = _flipped(pipeline, there, table, name, weights, keys, batch_size)
            errors = image_errors(there, truth, world.images)
            found[kind] = {
                "mae": mean(errors.mae, bootstrap),
                "change": ratio(errors.missed, errors.changed, bootstrap),
                "reversal": mean(image_mae(back, world.images), bootstrap),
            }
            rows.append({"do": name, "kind": kind, "weights": weights, **_json(found[kind])})
        one, two = found.values()
        rows.append(
            {"do": name, "kind": "difference", **_json({key: two[key] - one[key] for key in one})}
        )
    return rows


def _flipped(
    pipeline: fcfg.CounterfactualPipeline,
    images: Tensor,
    facts: Table,
    name: str,
    weights: tuple[float, float],
    keys: Sequence[int | str],
    batch_size: int,
) -> tuple[Tensor, Table]:
    """Flip an attribute, with one of two weights by its new value.

    Args:
        pipeline: The model.
        images: Images.
        facts: Their attributes.
        name: The attribute.
        weights: Weights to 0 and to 1.
        keys: Key of each image.
        batch_size: Largest number of network rows per call.
    """
    new, rule = 1 - np.asarray(facts[name]), pipeline.method([name]).setting
    answers, table = images.clone(), {key: column.copy() for key, column in facts.items()}
    for value, weight in enumerate(weights):
        here = np.flatnonzero(new == value)
        pair = pipeline.counterfactual(
            images[here],
            {key: column[here] for key, column in facts.items()},
            {name: value},
            guidance=with_weights(rule, {name: weight}),
            keys=[keys[i] for i in here],
            batch_size=batch_size,
        )
        answers[here] = pair.images.to(answers)
        for key, column in table.items():
            column[here] = pair.attributes[key]
    return answers, table


def _json(found: dict[str, Estimate]) -> dict[str, list[float]]:
    return {key: [e.value, e.low, e.high] for key, e in found.items()}


def table(result: dict[str, Any]) -> str:
    """Return both kinds of weights under each intervention, and their differences."""
    lines = [HEADS, ["---"] * len(HEADS)]
    for row in result["rows"]:
        shown = "difference" if "weights" not in row else row["kind"]
        if row["kind"] == "one weight":
            shown += f": {row['weights'][0]:g}"
        elif "weights" in row:
            shown += " (to 0, to 1): " + ", ".join(f"{weight:g}" for weight in row["weights"])
        cells: list[str] = []
        for key, digits in DIGITS.items():
            value, low, high = row[key]
            signed = "weights" not in row
            text = number(value, digits, signed=signed)
            cells.append(f"{text} {interval(low, high, digits, signed=signed)}")
        lines.append([row["do"], shown, *cells])
    return "\n".join(map(table_row, lines))


def section() -> str:
    """Return the table of the study on the shipped model."""
    result = json.loads((RESULTS / "direction-weights-portraits.json").read_text("utf-8"))
    return f"{table(result)}\n\n{made_by(result['provenance'])}"


if __name__ == "__main__":
    main()
