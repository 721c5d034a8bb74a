r"""How far rounding moves a counterfactual, compared with the error of the solver.

    python tools/precision.py runs/faces --do smiling --images 64 --out result.json

The reference are counterfactuals of held-out images under FCFG, with default sampling, in float32.
Every row gives the distance to another precision, and the error of the reversed image. Two rows in
bf16 use the float32 network for the noisiest or the cleanest half of the steps. The last row is
float32 with many more steps (``--finer``): the error of the solver, which rounding should be small
against.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

import fcfg
from fcfg.diffusion.prediction import Evaluate
from fcfg.evaluation import Experiment, choose_subset
from fcfg.evaluation.subset import draw_targets
from fcfg.metrics import image_mae
from fcfg.sampling import PRESETS, SamplingConfig
from study import intervention_arguments, provenance, write_json

GUIDANCE = "fcfg:affected=3.0,invariant=1.2"


class PartlyExact:
    """Evaluates one network above a time, and another below it, in float32.

    Args:
        above: Network for the noisiest steps.
        below: Network for the cleanest steps.
        time: Time that separates them.
    """

    def __init__(self, above: Evaluate, below: Evaluate, time: int) -> None:
        self.above, self.below, self.time = above, below, time

    def __call__(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        """Predict the noise."""
        network = self.above if int(t[0]) > self.time else self.below
        return network(x, t, c).float()


class Question:
    """One intervention on held-out images, and its reversal."""

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
        """Return counterfactuals and reversed images."""
        pipeline, guidance = self.pipeline, fcfg.Guidance.parse(GUIDANCE)
        abduction = pipeline.abduct(
            self.subset.images, self.subset.attributes, sampling=way, batch_size=self.rows
        )
        pair = pipeline.predict(abduction, self.action, guidance, batch_size=self.rows)
        return pair.images, pipeline.reverse(pair, batch_size=self.rows).images

    def middle(self, way: SamplingConfig) -> int:
        """Return the time after half of the steps."""
        times = way.times(self.pipeline.denoiser.schedule)
        return times[len(times) // 2]


def answers(
    question: Question, args: argparse.Namespace
) -> Iterator[tuple[str, SamplingConfig, Any]]:
    """Yield the images of every precision, the reference first and the finer sampling last."""
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


def main(words: list[str]) -> None:
    """Measure, and write the file after each row."""
    parser = intervention_arguments(__doc__)
    parser.add_argument("--finer", default="dpm-2m karras 200", metavar="'SOLVER GRID STEPS'")
    args = parser.parse_args(words)
    question, exact, rows = Question(args), None, []
    about = provenance("precision", words, args)
    result = {**about, "model": {"name": Path(args.model).name}, "do": args.do, "rows": rows}
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
        write_json(args.out, result)


if __name__ == "__main__":
    main(sys.argv[1:])
