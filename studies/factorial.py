r"""{FCFG, CFG, contrast} × {plain, inferred anchor, drawn anchor} × {paper's weights, calibrated}.

Beside them stand published methods, as settings of the package. Negative-prompt inversion is
"contrast plain" under ddim.

    python studies/factorial.py search portraits --judge B --out search.json
    python studies/factorial.py test portraits --search search.json --judge B --out test.json
    python studies/factorial.py frontier portraits --search search.json --judge B --out front.json

``search`` calibrates every method under its samplings on validation drawings, with the judge of
the model: a grid, a latest start and a number of steps, and variants of the method, such as
several noises. The sampling and the variant with the smallest error of the change are the method.
``test`` and ``frontier`` answer held-out drawings, whose truth is known, and read them with the
judge of another model as well. Every finished cell is written, and an interrupted study resumes.
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
from fcfg.calibration import choose_images
from fcfg.datasets import portraits
from fcfg.evaluation.provenance import collect_provenance
from fcfg.evaluation.subset import find_data
from fcfg.metrics import Bootstrap, Estimate, directions, image_errors, image_mae, signed_shift
from fcfg.metrics.intervals import mean, ratio
from fcfg.pipeline.calibration import with_weights
from fcfg.support.files import write_atomically

RULES = {"FCFG": "fcfg:affected=3.0,invariant=1.2", "CFG": "cfg:3.0", "contrast": "contrast:3.0"}
ANCHORS = {"plain": "", "inferred": ";anchor=true", "drawn": ";anchor=true;drawn_noise=true"}
FREE = ";anchor=true;drawn_noise=true;correlation=0"
FACTORIAL = {f"{r} {a}": RULES[r] + ANCHORS[a] for r in RULES for a in ANCHORS}
METHODS = FACTORIAL | {
    "edit-friendly": f"cfg:3.0{FREE};source=1.0",
    "FlowEdit": f"cfg:3.0{FREE};source=1.0",
    "SDEdit": f"cfg:3.0{FREE};release=0.0",
    "LEDITS++": f"fcfg:affected=3.0,invariant=0.0{FREE};source=0.0;mask=0.8",
    "null-text": "cfg:3.0;align=10",
}
SAMPLINGS = (
    *("dpm-2m karras 20", "dpm-2m uniform 20", "dpm-2m karras 12", "dpm-2m uniform 12"),
    *("ddim quadratic 11", "ddim uniform 11", "ddim quadratic 20", "ddim uniform 20"),
    *("ddim quadratic:0.8 5", "ddim quadratic:0.8 11", "ddim uniform:0.8 11"),
)
LATER = ("ddim quadratic:0.7 5", "ddim quadratic:0.8 11", "ddim quadratic:0.6 11")
DDPM = ("ddpm uniform 20", "ddpm uniform:0.8 20", "ddpm uniform:0.64 20", "ddpm quadratic:0.8 11")
DDIM = tuple(text for text in SAMPLINGS if text.startswith("ddim"))
STRENGTHS = tuple(f"{s} uniform:{end} 20" for s in ("ddim", "ddpm") for end in (0.3, 0.5, 0.7))
#: Samplings of methods that do not have all of them.
OWN = {"edit-friendly": DDPM, "FlowEdit": (*DDIM, *LATER[::2]), "SDEdit": STRENGTHS}
OWN |= {"LEDITS++": DDPM, "null-text": DDIM}
INTERVAL = ";start=0.2;stop=0.9"
#: What is tried of a method beside itself, under few samplings.
VARIANTS = {name: (INTERVAL, *(";noises=2", ";noises=4")) for name in METHODS if "drawn" in name}
VARIANTS |= {name: (*found, ";correlation=0") for name, found in VARIANTS.items()}
VARIANTS |= {name: (INTERVAL,) for name in FACTORIAL if "drawn" not in name}
VARIANTS |= {"edit-friendly": (";source=0.0", ";source=2.0"), "LEDITS++": (";mask=0.5",)}
VARIANTS |= {"FlowEdit": (";source=0.0", ";source=2.0", ";noises=4", ";release=0.8")}
WEIGHTS = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
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


def search(args: argparse.Namespace, pipeline: Any, store: Store) -> None:
    """Calibrate every method under every sampling, and choose by the error on changed pixels."""
    found = choose_images(pipeline, args.images)
    for method in args.methods:
        own = args.samplings or OWN.get(method, (*SAMPLINGS, *LATER[::2]))
        few = args.samplings or [text for text in own if text in (*LATER, *DDPM[1:3])]
        variants = () if args.plain else VARIANTS.get(method, ())
        asked = [(method, text) for text in own]
        asked += [(method + variant, text) for variant in variants for text in few]
        for name, sampling in asked:
            store.get(
                f"{name} | {sampling}",
                lambda name=name, sampling=sampling: calibrated(
                    args, pipeline, found, guidance_of(name), sampling
                ),
            )


def guidance_of(method: str) -> fcfg.Guidance:
    """Return the guidance of a method or of a variant, which replaces options.

    >>> guidance_of("edit-friendly;source=0.0")
    cfg:3.0;anchor=true;drawn_noise=true;correlation=0;source=0.0

    Args:
        method: Its name, with the options of the variant behind it.
    """
    name, _, stated = method.partition(";")
    options = dict(pair.split("=") for pair in stated.split(";") if pair)
    parts = [part for part in METHODS[name].split(";") if part.partition("=")[0] not in options]
    return fcfg.Guidance.parse(";".join([*parts, *(f"{k}={v}" for k, v in options.items())]))


def calibrated(
    args: argparse.Namespace, pipeline: Any, found: Any, guidance: fcfg.Guidance, sampling: str
) -> dict[str, Any]:
    """Return the weights of one method under one sampling, and its errors with them."""
    result = fcfg.calibrate(
        pipeline,
        found.images,
        found.attributes,
        guidance=guidance,
        sampling=sampling,
        weights=WEIGHTS,
        count=found.count,
        at_least_real=False,
        truth=found.truth,
        batch_size=args.batch_size,
    )
    weights = {name: own.weight for name, own in result.attributes.items()}
    factual = found.images[: found.count]
    columns = {name: column[: found.count] for name, column in found.attributes.items()}
    errors = {}
    for name, weight in weights.items():
        target = 1 - columns[name]
        pair = pipeline.counterfactual(
            factual,
            columns,
            {name: target},
            guidance=with_weights(guidance, {name: weight}),
            sampling=sampling,
            batch_size=args.batch_size,
        )
        made = image_errors(pair.images.float().cpu(), found.truth({name: target}), factual)
        errors[name] = [float(made.mae.mean()), float(made.missed.sum() / made.changed.sum())]
    intervals = {n: [own.low, own.high] for n, own in result.attributes.items()}
    return {"weights": weights, "intervals": intervals, "errors": errors}


def winners(cells: dict[str, Any]) -> dict[str, tuple[fcfg.Guidance, str, dict[str, float]]]:
    """Return variant, sampling and weights of each method with the smallest mean error."""
    best: dict[str, tuple[float, str, str, dict[str, float]]] = {}
    for key, cell in cells.items():
        if key == "about":
            continue
        method, _, sampling = key.partition(" | ")
        error = float(np.mean([changed for _, changed in cell["errors"].values()]))
        name, new = method.partition(";")[0], (error, method, sampling, cell["weights"])
        if name not in best or new[0] < best[name][0]:
            best[name] = new
    return {name: (guidance_of(variant), *found) for name, (_, variant, *found) in best.items()}


def test(args: argparse.Namespace, world: World, store: Store) -> None:
    """Answer held-out drawings with the paper's and with calibrated weights."""
    rows: dict[str, Any] = {}

    def answer(key: str, name: str, guidance: fcfg.Guidance, sampling: str) -> None:
        def make() -> Any:
            cell, rows[f"{key} | {name}"] = world.answer(name, guidance, sampling, back=True)
            return {"guidance": repr(guidance), "sampling": sampling} | cell

        store.get(f"{key} | {name}", make)

    for method, (rule, sampling, weights) in winners(json.loads(args.search.read_text())).items():
        for name, weight in weights.items():
            answer(f"{method} | calibrated", name, with_weights(rule, {name: weight}), sampling)
            if method in args.paper:
                answer(f"{method} | paper", name, guidance_of(method), sampling)
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
    for method, (rule, sampling, weights) in winners(json.loads(args.search.read_text())).items():
        for name in weights:
            for weight in WEIGHTS:
                guidance = with_weights(rule, {name: weight})
                store.get(
                    f"{method} | {weight} | {name}",
                    lambda name=name, guidance=guidance, s=sampling: world.answer(
                        name, guidance, s, back=False
                    )[0],
                )


def names(text: str) -> list[str]:
    """Return the names between commas.

    >>> names("CFG plain,CFG drawn")
    ['CFG plain', 'CFG drawn']
    """
    return text.split(",")


def main() -> None:
    """Run one part of the study."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=("search", "test", "frontier"))
    parser.add_argument("model")
    parser.add_argument("--judge", help="model whose judge reads the answers, too")
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--methods", type=names, default=[*METHODS])
    parser.add_argument("--samplings", type=names, help="instead of those of each method")
    parser.add_argument("--plain", action="store_true", help="no variants")
    parser.add_argument("--paper", type=names, default=[*FACTORIAL], help="with its weights, too")
    parser.add_argument("--search", type=Path)
    parser.add_argument("--batch-size", type=int, default=8192)
    parser.add_argument("--precision", default="tf32")
    parser.add_argument("--commit")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    pipeline = fcfg.load(args.model).to(args.device).prepare(args.precision)
    store = Store(args.out)
    if args.part == "search":
        search(args, pipeline, store)
    else:
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
