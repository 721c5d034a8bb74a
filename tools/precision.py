r"""How far rounding moves an answer, beside how far the solver does.

    python tools/precision.py runs/faces --do smiling --images 64 --out result.json

Counterfactuals of held-out images under FCFG, by the default way, in float32; every row says how
far those of another precision are from them, and how well each comes back. Two rows in bf16 ask
the float32 network in the half of the steps that is next to the noise, or to the image: where a
half mattered, it would show. The last row is float32 again by a much finer way (``--finer``): what
the solver leaves, which rounding has to be small against.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import fcfg
from fcfg.diffusion.prediction import Evaluate
from fcfg.evaluation import Experiment, choose_subset
from fcfg.evaluation.provenance import collect_provenance, without_folders
from fcfg.evaluation.subset import draw_targets
from fcfg.metrics import image_mae
from fcfg.sampling import PRESETS, SamplingConfig
from fcfg.support.files import write_atomically

GUIDANCE = "fcfg:affected=3.0,invariant=1.2"


class PartlyExact:
    """Asks one network above a time, and another below it.

    Args:
        above: Asked next to the noise.
        below: Asked next to the image.
        time: Between them.
    """

    def __init__(self, above: Evaluate, below: Evaluate, time: int) -> None:
        self.above, self.below, self.time = above, below, time

    def __call__(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        """What the one whose turn it is says, in float32."""
        asked = self.above if int(t[0]) > self.time else self.below
        return asked(x, t, c).float()


class Question:
    """One intervention on held-out images, there and back."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.pipeline = fcfg.load(args.model).to(args.device)
        experiment = Experiment(
            name="precision", do=(args.do,), guidance=(GUIDANCE,), images=args.images
        )
        self.subset = choose_subset(self.pipeline, experiment, data=args.data)
        names, attributes = self.subset.names, self.subset.attributes
        wanted = draw_targets(self.pipeline.space, attributes, [args.do], names, seed=0)
        self.action = self.pipeline.act(attributes, wanted)
        self.rows = args.batch_size

    def answer(self, way: SamplingConfig) -> tuple[Tensor, Tensor]:
        """Counterfactuals, and what comes back."""
        pipeline, guidance = self.pipeline, fcfg.Guidance.parse(GUIDANCE)
        abduction = pipeline.abduct(
            self.subset.images, self.subset.attributes, sampling=way, batch_size=self.rows
        )
        pair = pipeline.predict(abduction, self.action, guidance, batch_size=self.rows)
        return pair.images, pipeline.reverse(pair, batch_size=self.rows).images

    def middle(self, way: SamplingConfig) -> int:
        """The time that halves its steps."""
        times = way.times(self.pipeline.denoiser.schedule)
        return times[len(times) // 2]


def answers(
    question: Question, args: argparse.Namespace
) -> Iterator[tuple[str, SamplingConfig, Any]]:
    """Every precision, the reference first, and the finer way last."""
    pipeline, way, finer = question.pipeline, PRESETS["default"], SamplingConfig.parse(args.finer)
    denoiser = pipeline.denoiser
    pipeline.prepare("float32")
    yield "float32", way, question.answer(way)
    if args.device == "cuda":
        pipeline.prepare("tf32")
        yield "tf32", way, question.answer(way)
    pipeline.prepare("bf16", compile=args.compile, batch_size=len(question.subset))
    yield "bf16", way, question.answer(way)
    rounded, middle = denoiser.evaluate, question.middle(way)
    assert rounded is not None
    denoiser.evaluate = PartlyExact(denoiser.network, rounded, middle)
    yield "bf16, noisiest half float32", way, question.answer(way)
    denoiser.evaluate = PartlyExact(rounded, denoiser.network, middle)
    yield "bf16, cleanest half float32", way, question.answer(way)
    pipeline.prepare("float32")
    yield "float32", finer, question.answer(finer)


def arguments(words: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("model", help="folder, or name of a shipped model")
    add("--do", required=True, help="the attribute to intervene on, and back")
    add("--images", type=int, default=64, help="at most so many, balanced")
    add("--finer", default="dpm-2m karras 200", metavar="'SOLVER GRID STEPS'")
    add("--data", type=Path, help="the data set, if it is not where it was in training")
    add("--batch-size", type=int, default=4096, help="network rows at once")
    add("--compile", action="store_true", help="compile the network in bf16")
    add("--commit", help="of the code, where git cannot be asked")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    add("--out", type=Path, required=True, help="JSON file to write")
    return parser.parse_args(words)


def main(words: list[str]) -> None:
    """Measure, and write after each row what is there."""
    args = arguments(words)
    about = collect_provenance(args.device, "", compiled=args.compile, commit=args.commit)
    command = shlex.join(["python", "tools/precision.py", *without_folders(words)])
    question, exact, rows = Question(args), None, []
    model = {"name": Path(args.model).name}
    result = {**about, "command": command, "model": model, "do": args.do, "rows": rows}
    for precision, way, (images, back) in answers(question, args):
        exact = images if exact is None else exact
        away = (images - exact).abs()
        rows.append(
            {
                "precision": precision,
                "way": str(way),
                "images": len(images),
                "mean": float(away.mean()),
                "largest": float(away.max()),
                "reversal": float(image_mae(back, question.subset.images).mean()),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
        data = json.dumps(result, indent=1, allow_nan=False).encode() + b"\n"
        write_atomically(args.out, data)


if __name__ == "__main__":
    main(sys.argv[1:])
