r"""Why reversal does not recover an image: training, averaging, precision, steps, or masks.

    python tools/reversibility.py runs/celeba-hq --do smiling --out result.json \
        --branch p_group=0.3 runs/branch --compile

Undoing an intervention should recover the image. Each row changes one setting, on held-out images
of a model trained by ``fcfg train``, and has for every guidance:

- ``mae``: error of the reversed image, in units of [-1, 1], and its paired difference to CFG;
- ``drift``: mean change of each colour channel, which shows images that turn warm or bright.

The settings are the checkpoint of the run (``trained``, with its ``average`` or ``last`` weights),
the last checkpoint of another run (``--branch``), the precision, and the number of steps.

Factored guidance evaluates the network with partly masked conditions. Unless ``diffusion.p_group``
is above 0, training uses the whole condition or none of it. ``losses`` are the squared errors of
the predicted noise of the same noisy images under each mask: a network that understood a masked
condition would predict better with it than without any condition.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import fcfg
from fcfg.evaluation import find_experiment
from fcfg.evaluation.presets import experiments
from fcfg.evaluation.subset import Subset, choose_subset, draw_targets
from fcfg.metrics import Bootstrap, image_mae, mean
from fcfg.training.state import Checkpoints, under_prefix
from study import intervention_arguments, provenance, write_json

GUIDANCE = ("none", "cfg:3.0", "fcfg:affected=3.0,invariant=1.2")
TIMES = (50, 150, 300, 500, 700, 900)  # at which the losses are measured
KINDS = {"average": "average", "last": "weights"}


@dataclass(frozen=True)
class State:
    """Weights of a run at a step."""

    run: str  #: label of the run
    folder: Path  #: folder of the checkpoints
    step: int
    kind: str  #: 'average' or 'last'

    def load(self, network: torch.nn.Module, embedder: torch.nn.Module) -> None:
        """Load the weights into modules of any precision."""
        tensors = Checkpoints(self.folder, 1).read(self.step).tensors
        weights = under_prefix(KINDS[self.kind], tensors)
        network.load_state_dict(under_prefix("network", weights))
        embedder.load_state_dict(under_prefix("embedder", weights))

    def to_json(self) -> dict[str, Any]:
        """Return the entries of a row."""
        return {"run": self.run, "trained": self.step, "weights": self.kind}


class Question:
    """One intervention on held-out images."""

    def __init__(self, pipeline: fcfg.CounterfactualPipeline, subset: Subset, do: str) -> None:
        self.subset, self.do = subset, do
        wanted = draw_targets(pipeline.space, subset.attributes, [do], subset.names, seed=0)
        self.action = pipeline.act(subset.attributes, wanted)
        self.bootstrap = Bootstrap(len(subset))

    def rows(
        self, pipeline: fcfg.CounterfactualPipeline, steps: int, batch_size: int
    ) -> Iterator[dict[str, Any]]:
        """Yield the reversal errors under every guidance."""
        images = self.subset.images
        abduction = pipeline.abduct(
            images,
            self.subset.attributes,
            sampling=f"ddim uniform {steps}",
            batch_size=batch_size,
        )
        found = {}
        for text in GUIDANCE:
            guidance = fcfg.Guidance.parse(text)
            pair = pipeline.predict(abduction, self.action, guidance, batch_size=batch_size)
            back = pipeline.reverse(pair, batch_size=batch_size).images.float()
            found[text] = mean(image_mae(back, images), self.bootstrap)
            difference = found[text] - found["cfg:3.0"] if text == GUIDANCE[2] else None
            yield {
                "guidance": text,
                "mae": found[text].to_json(),
                "against_cfg": None if difference is None else difference.to_json(),
                "drift": (back - images).mean(dim=(0, 2, 3)).tolist(),
            }

    @torch.no_grad()
    def losses(self, pipeline: fcfg.CounterfactualPipeline) -> dict[str, float]:
        """Return the squared error of the predicted noise under each mask."""
        denoiser, names = pipeline.denoiser.eval(), pipeline.space.names
        device, schedule = denoiser.device, pipeline.denoiser.schedule
        masks = {
            "whole": [True] * len(names),
            "none": [False] * len(names),
            "target only": [name == self.do for name in names],
            "all but target": [name != self.do for name in names],
        }
        images = self.subset.images.to(device)
        condition = denoiser.condition(pipeline.space.parse(self.subset.attributes))
        noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(0)).to(device)
        totals = dict.fromkeys(masks, 0.0)
        for time_ in TIMES:
            t = torch.full((len(images),), time_, device=device)
            signal, level = (
                f(t).float().view(-1, 1, 1, 1) for f in (schedule.signal, schedule.noise)
            )
            x = signal * images + level * noise
            for name, keep in masks.items():
                kept = denoiser.embedder.masked(condition, torch.tensor([keep], device=device))
                totals[name] += _square(denoiser(x, t, kept) - noise) / len(TIMES)
        return totals


def _square(x: Tensor) -> float:
    return float(x.square().mean())


def states(args: argparse.Namespace) -> list[State]:
    """Return the averages of all checkpoints, the last weights, and the branches."""
    folder = Path(args.model) / "training" / "state" / "diffusion"
    steps = Checkpoints(folder, 1).steps()
    found = [State("run", folder, step, "average") for step in steps]
    found += [State("run", folder, step, "last") for step in steps[-1:]]
    for label, run in args.branch:
        there = Path(run) / "training" / "state" / "diffusion"
        found += [State(label, there, max(Checkpoints(there, 1).steps()), "average")]
    return found


def measure(args: argparse.Namespace, write: Callable[[list[dict[str, Any]]], None]) -> None:
    """Measure all rows, and call `write` whenever some are added."""
    pipeline = fcfg.load(args.model).to(args.device)
    network, embedder = pipeline.denoiser.network, pipeline.denoiser.embedder
    family = f"{pipeline.provenance['training']['name']}/core"
    experiment = find_experiment(
        family if family in experiments() else "portraits/core", images=args.images
    )
    subset = choose_subset(pipeline, experiment, data=args.data)
    question, rows = Question(pipeline, subset, args.do), []

    def add(state: dict[str, Any], precision: str, steps: int, *, losses: bool) -> None:
        start = time.perf_counter()
        common = state | {"precision": precision, "steps": steps, "images": len(subset)}
        common["losses"] = question.losses(pipeline) if losses else None
        rows.extend(common | row for row in question.rows(pipeline, steps, args.batch_size))
        write(rows)
        print(json.dumps(rows[-1]), f"{time.perf_counter() - start:.1f} s", flush=True)

    published = {"run": "run", "trained": None, "weights": "published"}
    *exact, fast = ("float32", "tf32", "bf16") if args.device == "cuda" else ("float32",)
    for precision in exact:
        pipeline.prepare(precision)
        add(published, precision, args.steps[0], losses=True)
    pipeline.prepare(fast, compile=args.compile, batch_size=len(subset))
    for steps in args.steps:
        add(published, fast, steps, losses=steps == args.steps[0])
    for state in states(args):
        state.load(network, embedder)
        add(state.to_json(), fast, args.steps[0], losses=True)


def main(words: list[str]) -> None:
    """Measure, and write the file after each row."""
    parser = intervention_arguments(__doc__)
    add = parser.add_argument
    add("--steps", type=int, nargs="+", default=[50, 25, 100, 200], help="the default first")
    add("--branch", nargs=2, action="append", default=[], metavar=("LABEL", "RUN"))
    args = parser.parse_args(words)
    result = {**provenance("reversibility", words, args), "do": args.do}
    measure(args, lambda rows: write_json(args.out, result | {"rows": rows}))


if __name__ == "__main__":
    main(sys.argv[1:])
