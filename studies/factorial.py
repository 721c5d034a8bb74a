"""Methods at the paper's and at calibrated weights, on held-out drawings whose truth is known.

    fcfg calibrate portraits --methods all --out found
    python studies/factorial.py test portraits --methods found --judge B --out test.json
    python studies/factorial.py frontier portraits --methods found --judge B --out front.json

``test`` and ``frontier`` answer with the sampling and the variant that suit every method, and read
the answers with the judge of another model as well. Every finished cell is written, and an
interrupted study resumes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import fcfg
from fcfg.datasets import portraits
from fcfg.evaluation.provenance import collect_provenance
from fcfg.evaluation.subset import find_data
from fcfg.metrics import Bootstrap, Estimate, directions, image_errors, image_mae, signed_shift
from fcfg.metrics.intervals import mean, ratio
from fcfg.pipeline.methods import Methods
from fcfg.support.files import write_atomically

HELD_OUT = portraits.EVALUATION_SEED


@dataclass(frozen=True, eq=False)
class World:
    """Drawings, and what is asked of them: every binary attribute is flipped."""

    pipeline: Any
    judges: dict[str, Any]
    drawn: Any
    batch_size: int

    def answer(self, name: str, guidance: fcfg.Guidance, sampling: str, *, back: bool) -> Any:
        """Return estimates of one intervention under one guidance, as JSON.

        Args:
            name: Attribute to flip.
            guidance: Rule and weights.
            sampling: Solver, grid and steps.
            back: Whether to reverse the answers, with their own and with fresh noise.
        """
        space, own = self.pipeline.space, self.drawn.attributes
        target = 1 - own[name]
        truth = portraits.counterfactual(self.drawn, {name: target})
        factual = {key: own[key] for key in space.names}
        asked = {"guidance": guidance, "sampling": sampling, "batch_size": self.batch_size}
        start = time.perf_counter()
        pair = self.pipeline.counterfactual(self.drawn.images, factual, {name: target}, **asked)
        images = pair.images.float().cpu()
        seconds = time.perf_counter() - start
        errors = image_errors(images, truth.images, self.drawn.images)
        boot = Bootstrap(len(images))
        found = {
            "mae": mean(errors.mae, boot),
            "rms": mean(rms(images, truth.images), boot),
            "changed": ratio(errors.missed, errors.changed, boot),
            "distance": mean(image_mae(images, self.drawn.images), boot),
        }
        for label, judge in self.judges.items():
            read, true = judge.read(images).factors, judge.read(truth.images).factors
            real = judge.read(self.drawn.images).factors
            for other in read:
                sign = directions("binary", truth.attributes[other])
                scale = float(np.std(real[other]))
                shift = signed_shift(read[other], true[other], sign, boot, scale=scale)
                found[f"shift {label} {other}"] = shift
            gap = np.abs(read[name] - true[name]) / np.std(real[name])
            found[f"absolute {label} {name}"] = mean(gap, boot)
        if back:
            same = self.pipeline.reverse(pair, batch_size=self.batch_size)
            changed = {key: np.asarray(pair.attributes[key]) for key in space.names}
            fresh = self.pipeline.counterfactual(
                pair.images, changed, {name: own[name]}, seed=1, **asked
            )
            ways = (("reversal, same noise", same), ("reversal, fresh noise", fresh))
            for key, other in ways:
                found[key] = mean(image_mae(other.images.float().cpu(), self.drawn.images), boot)
        about = {"rows": float(np.mean(pair.spent)), "seconds": round(seconds, 2)}
        estimates = {key: brief(value) for key, value in found.items()}
        return about | estimates, {
            "mae": errors.mae,
            "missed": errors.missed,
            "all": errors.changed,
        }

    def unchanged(self, name: str) -> Any:
        """Return the errors of the drawings themselves, as JSON."""
        own = self.drawn.images
        truth = portraits.counterfactual(self.drawn, {name: 1 - self.drawn.attributes[name]})
        boot = Bootstrap(len(own))
        found = {"mae": image_mae(own, truth.images), "rms": rms(own, truth.images)}
        return {key: brief(mean(values, boot)) for key, values in found.items()}


def rms(images: Tensor, truth: Tensor) -> NDArray[np.float64]:
    """Return the root mean square error of each image."""
    return (images.double() - truth).square().flatten(1).mean(1).sqrt().numpy()


def brief(estimate: Estimate) -> list[float]:
    """Return value and interval, in few digits."""
    return [float(f"{x:.4g}") for x in (estimate.value, estimate.low, estimate.high)]


class Store:
    """Finished cells in a JSON file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cells: dict[str, Any] = (
            json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        )

    def get(self, key: str, make: Callable[[], Any]) -> Any:
        """Return a finished cell, or make it, write all, and tell how long it took.

        Args:
            key: Name of the cell.
            make: Function that measures it.
        """
        if key not in self.cells:
            start = time.perf_counter()
            self.cells[key] = make()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, json.dumps(self.cells).encode() + b"\n")
            print(f"{key}: {time.perf_counter() - start:.1f} s", flush=True)
        return self.cells[key]


def test(args: argparse.Namespace, world: World, store: Store) -> None:
    """Answer held-out drawings with the paper's and with calibrated weights."""
    rows: dict[str, Any] = {}

    def answer(key: str, name: str, guidance: fcfg.Guidance, sampling: str) -> None:
        def make() -> Any:
            cell, rows[f"{key} | {name}"] = world.answer(name, guidance, sampling, back=True)
            return {"guidance": repr(guidance), "sampling": sampling} | cell

        store.get(f"{key} | {name}", make)

    for method, own in Methods.read(args.methods).methods.items():
        for name in own.weights:
            answer(f"{method} | calibrated", name, own.guidance_for(name), own.sampling)
            answer(f"{method} | paper", name, fcfg.Guidance.parse(own.published), own.sampling)
    for name in world.pipeline.space.names:
        answer("none plain | –", name, fcfg.Guidance.parse("none"), "dpm-2m karras 20")
        store.get(f"no change | {name}", lambda name=name: world.unchanged(name))
    paired(rows, store)


def paired(rows: dict[str, Any], store: Store) -> None:
    """Write paired differences to the default, of the methods that were answered in this run."""
    for key, cell in rows.items():
        name = key.rpartition(" | ")[2]
        ours = rows.get(f"contrast drawn | calibrated | {name}")
        if ours is None:
            continue
        boot = Bootstrap(len(cell["mae"]))
        both = [
            mean(cell["mae"], boot) - mean(ours["mae"], boot),
            ratio(cell["missed"], cell["all"], boot) - ratio(ours["missed"], ours["all"], boot),
        ]
        store.get(f"{key} | minus default", lambda both=both: [brief(each) for each in both])


def frontier(args: argparse.Namespace, world: World, store: Store) -> None:
    """Answer held-out drawings under every weight, with the sampling of each method."""
    found = Methods.read(args.methods)
    for method, own in found.methods.items():
        for name in own.weights:
            for weight in found.measured:
                guidance = own.guidance_for(name, weight)
                store.get(
                    f"{method} | {weight} | {name}",
                    lambda name=name, guidance=guidance, s=own.sampling: world.answer(
                        name, guidance, s, back=False
                    )[0],
                )


def main() -> None:
    """Run one part of the study."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=("test", "frontier"))
    parser.add_argument("model")
    parser.add_argument("--judge", help="model whose judge reads the answers, too")
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--methods", type=Path, required=True, help="folder of methods.json")
    parser.add_argument("--batch-size", type=int, default=8192)
    parser.add_argument("--precision", default="tf32")
    parser.add_argument("--commit")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    pipeline = fcfg.load(args.model).to(args.device).prepare(args.precision)
    store = Store(args.out)
    judges = {"A": pipeline.judge}
    if args.judge:
        judges["B"] = fcfg.load(args.judge).to(args.device).judge
    data: Any = find_data(pipeline)
    drawn = portraits.sample(args.images, HELD_OUT, data.size, data.format)
    world = World(pipeline, judges, drawn, args.batch_size)
    {"test": test, "frontier": frontier}[args.part](args, world, store)
    about = collect_provenance(args.device, args.precision, compiled=False, commit=args.commit)
    keys = ("command", "commit", "environment")
    store.get("about", lambda: {key: about.get(key) for key in keys} | {"images": args.images})


if __name__ == "__main__":
    main()
