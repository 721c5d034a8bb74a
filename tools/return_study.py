r"""Why answers do not return exactly: there and back without guidance, ever more exactly.

    python tools/return_study.py portraits --out docs/results/return-portraits.json
    python tools/return_study.py portraits --noise --images 16 --precisions float32 \
        --sweep 'dpm-2m karras 20' 'dpm-2m karras 100' \
        --out docs/results/return-noise-portraits.json

Without guidance or an anchor, the way back is the inverse of the way there: with many steps and
exact arithmetic, one would expect every image to return. The study varies solver, grid, steps and
precision, and whether answers are clamped to [-1, 1] before the way back, as images of a user are.
With ``--noise``, it infers the noise of images that it made from known noise.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

import fcfg
from fcfg.causal.attributes import Table
from fcfg.datasets import portraits
from fcfg.metrics import Bootstrap, image_mae, mean
from fcfg.pipeline.inference import infer_noise
from fcfg.pipeline.records import Abduction
from fcfg.reports.numbers import number
from fcfg.reports.tables import table_row
from fcfg.sampling import SamplingConfig, Trajectory, as_sampling
from fcfg.support.images import image_keys
from reproduction_tables import RESULTS
from study import made_by, model_arguments, provenance, write_json

SAMPLINGS = [
    *(f"dpm-2m {grid} {steps}" for grid in ("uniform", "karras") for steps in (20, 200)),
    *(f"ddim uniform {steps}" for steps in (20, 200, 1000)),
]
PRECISIONS = ["tf32", "float32"]
WAYS = ("clamped", "unclamped")


def main(words: Sequence[str] | None = None) -> None:
    """Measure, write the file and print a table."""
    words = sys.argv[1:] if words is None else words
    parser = model_arguments(__doc__ or "")
    parser.add_argument("--images", type=int, default=64, help="number of drawings")
    parser.add_argument("--seed", type=int, default=portraits.EVALUATION_SEED + 30)
    parser.add_argument("--sweep", nargs="+", default=SAMPLINGS)
    parser.add_argument("--precisions", nargs="+", default=PRECISIONS)
    parser.add_argument("--noise", action="store_true", help="infer noise that is known")
    args = parser.parse_args(words)
    pipeline = fcfg.CounterfactualPipeline.load(args.model).to(args.device)
    data = pipeline.provenance["training"]["data"]
    world = portraits.sample(args.images, args.seed, data["size"], data["format"])
    about, rows = provenance("return_study", words, args), []
    study = inferred if args.noise else measured
    for precision in args.precisions:
        pipeline.prepare(precision)
        for sampling in args.sweep:
            for row in study(pipeline, world, sampling, args.batch_size):
                rows.append({"precision": precision, **row})
                print(json.dumps(rows[-1]), flush=True)
            write_json(args.out, {"provenance": about, "images": args.images, "rows": rows})


def measured(
    pipeline: fcfg.CounterfactualPipeline, world: portraits.Portraits, text: str, batch_size: int
) -> Iterator[dict[str, Any]]:
    """Yield, for every attribute, how much its flip changes, and what the way back leaves.

    Args:
        pipeline: The model.
        world: Drawings.
        text: Solver, grid and steps.
        batch_size: Largest number of network rows per call.
    """
    sampling, own = as_sampling(text), world.attributes
    walk = Walk(pipeline, sampling, image_keys(world.images), batch_size)
    noise = walk.infer(world.images, own)
    for name in pipeline.space.names:
        there = pipeline.act(own, {name: "flip"}, keys=walk.keys)
        answer = walk.generate(noise, there)
        change = image_mae(answer.clamp(-1, 1), world.images)
        row = {"sampling": text, "do": name, "change": _estimate(change)}
        row["clamp"] = _estimate((answer.clamp(-1, 1) - answer).abs().mean((1, 2, 3)).numpy())
        back = pipeline.act(there.attributes, {name: "flip"}, keys=walk.keys)
        for way, start in zip(WAYS, (answer.clamp(-1, 1), answer), strict=True):
            returned = walk.generate(walk.infer(start, there.attributes), back)
            row[way] = _estimate(image_mae(returned.clamp(-1, 1), world.images))
        yield row


def inferred(
    pipeline: fcfg.CounterfactualPipeline, world: portraits.Portraits, text: str, batch_size: int
) -> Iterator[dict[str, Any]]:
    """Yield how inferred noise differs from that which made an image, and what that matters.

    Args:
        pipeline: The model.
        world: Drawings, for their attributes.
        text: Solver, grid and steps.
        batch_size: Largest number of network rows per call.
    """
    sampling, own = as_sampling(text), world.attributes
    walk = Walk(pipeline, sampling, image_keys(world.images), batch_size)
    z = torch.randn(world.images.shape, generator=torch.Generator().manual_seed(0))
    known = Abduction(Trajectory(z), own, walk.keys, walk.times, walk.solver)
    none = pipeline.act(own, own, keys=walk.keys)
    image = walk.generate(known, none)
    found = walk.infer(image, own)
    length = (found.trajectory.x - z).flatten(1).norm(dim=1) / z.flatten(1).norm(dim=1)
    again = image_mae(walk.generate(found, none).clamp(-1, 1), image.clamp(-1, 1))
    same = {"sampling": text, "noise": _estimate(length.numpy()), "image": _estimate(again)}
    for name in pipeline.space.names:
        there = pipeline.act(own, {name: "flip"}, keys=walk.keys)
        one, two = (walk.generate(noise, there).clamp(-1, 1) for noise in (known, found))
        change, apart = image_mae(one, image.clamp(-1, 1)), image_mae(one, two)
        yield {**same, "do": name, "change": _estimate(change), "apart": _estimate(apart)}


class Walk:
    """There and back without guidance, where answers need not be in [-1, 1].

    Args:
        pipeline: The model.
        sampling: Solver, grid and steps.
        keys: Names of the images.
        batch_size: Largest number of network rows per call.
    """

    def __init__(
        self,
        pipeline: fcfg.CounterfactualPipeline,
        sampling: SamplingConfig,
        keys: Any,
        batch_size: int,
    ) -> None:
        self.pipeline, self.solver = pipeline, sampling.solver
        self.times = sampling.times(pipeline.denoiser.schedule)
        self.keys, self.batch_size = keys, batch_size

    def infer(self, images: Tensor, attributes: Table) -> Abduction:
        """Return the noise of images."""
        noise, _ = infer_noise(
            self.pipeline.denoiser,
            images,
            attributes,
            None,
            self.times,
            self.solver,
            keep_path=False,
            batch_size=self.batch_size,
            on_step=None,
        )
        return Abduction(noise, attributes, self.keys, self.times, self.solver)

    def generate(self, noise: Abduction, action: fcfg.Action) -> Tensor:
        """Return images, unclamped."""
        none = fcfg.Guidance.none()
        found = self.pipeline.predict(noise, action, none, batch_size=self.batch_size)
        return found.trajectory.x


def _estimate(errors: Any) -> dict[str, float | int]:
    return mean(errors, Bootstrap(len(errors), resamples=1000, seed=0)).to_json()


def table(result: dict[str, Any]) -> str:
    """Return what the way back leaves, with clamped answers and with others.

    Args:
        result: Content of the file.
    """
    asked = list(dict.fromkeys(row["do"] for row in result["rows"]))
    found = {(r["precision"], r["sampling"], r["do"]): r for r in result["rows"]}
    heads = ["precision", "sampling", *(f"do({name})" for name in asked)]
    lines = [heads, ["---"] * len(heads)]
    for precision, sampling in dict.fromkeys((p, s) for p, s, _ in found):
        cells = [found[precision, sampling, name] for name in asked]
        texts = [" / ".join(number(c[way]["value"], 4) for way in WAYS) for c in cells]
        lines.append([precision, sampling, *texts])
    made = made_by(result["provenance"])
    return "\n".join(map(table_row, lines)) + f"\n\n{result['images']} drawings. {made}"


def noise_table(result: dict[str, Any]) -> str:
    """Return how far inferred noise is from the known one, and the answers under both.

    Args:
        result: Content of the file.
    """
    asked = list(dict.fromkeys(row["do"] for row in result["rows"]))
    found = {(r["precision"], r["sampling"], r["do"]): r for r in result["rows"]}
    heads = ["precision", "sampling", "noise", "image", *(f"do({name})" for name in asked)]
    lines = [heads, ["---"] * len(heads)]
    for precision, sampling in dict.fromkeys((p, s) for p, s, _ in found):
        cells = [found[precision, sampling, name] for name in asked]
        texts = [" of ".join(number(c[k]["value"], 3) for k in ("apart", "change")) for c in cells]
        own = (
            number(cells[0][key]["value"], digits) for key, digits in (("noise", 2), ("image", 4))
        )
        lines.append([precision, sampling, *own, *texts])
    made = made_by(result["provenance"])
    return "\n".join(map(table_row, lines)) + f"\n\n{result['images']} drawings. {made}"


def sections() -> str:
    """Return the tables of the stored results."""
    stored = (("return", table), ("return-noise", noise_table))
    return "\n\n".join(
        show(json.loads((RESULTS / f"{name}-portraits.json").read_text("utf-8")))
        for name, show in stored
    )


if __name__ == "__main__":
    main()
