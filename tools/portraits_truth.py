r"""How far counterfactuals of drawings are from the truth, which is known.

    python tools/portraits_truth.py portraits --compile --batch-size 1000 \
        --sheet docs/figures/portraits-counterfactuals.png
    python tools/portraits_truth.py --table docs/results/portraits-truth.json

The counterfactuals of held-out drawings are compared with the true ones, for each intervention
and five guidances:

- error on changed pixels: mean |generated - truth| over the pixels that differ by more than
  0.05 between truth and factual image, over mean |truth - factual| on them; 1 is no change at all;
- signed factor error: the judge's reading of the generated image, minus that of the true
  counterfactual, in standard deviations of the factor, positive toward the attribute's value. Off
  target its positive part is amplification, its negative part attenuation.

For a model of ``portraits-causal`` the only intervention permutes the age; the share of attributes
that follow correctly is reported as well.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import torch
from torch import Tensor

import fcfg
from fcfg.causal.attributes import Binary
from fcfg.datasets import portraits
from fcfg.datasets.portraits import Portraits
from fcfg.metrics import (
    Bootstrap,
    Estimate,
    auroc,
    directions,
    image_errors,
    image_mae,
    ratio,
    signed_shift,
)
from fcfg.sheet import sheet
from fcfg.support.files import write_atomically
from study import command, write_json
from truth_tables import CFG, FCFG, UNGUIDED, markdown, verdicts

ROOT = Path(__file__).parents[1]
LESS, MORE = (f"fcfg:affected=3.0,invariant={weight}" for weight in (1.0, 1.5))
SETTINGS = (UNGUIDED, CFG, LESS, FCFG, MORE)
SHOWN = {UNGUIDED: "unguided", CFG: "CFG 3.0", FCFG: "FCFG 3.0, 1.2"}  # titles on the sheet
TARGETS = {"portraits": ("smiling", "male", "young"), "portraits-causal": ("age",)}
COLUMNS = 8  # drawings on the sheet, the first ones


@dataclass(frozen=True, eq=False)
class Question:
    """One intervention, with the true counterfactuals and the judge's reading of them."""

    factual: Portraits
    truth: Portraits
    reading: fcfg.Reading


def ask(record: Portraits, target: str, judge: fcfg.AttributeJudge, seed: int = 0) -> Question:
    """Flip a binary attribute, or permute a continuous one, and draw the true counterfactuals."""
    factual, kind = record.attributes[target], portraits.space(record.variant)[target]
    permuted = np.random.default_rng(seed).permutation(factual)
    value = 1 - factual if isinstance(kind, Binary) else permuted
    truth = portraits.counterfactual(record, {target: value})
    return Question(record, truth, judge.read(truth.images))


def interval(estimate: Estimate) -> dict[str, float]:
    """Return an estimate as a JSON object."""
    return {"mean": estimate.value, "low": estimate.low, "high": estimate.high}


def measure(
    images: Tensor, question: Question, judge: fcfg.AttributeJudge, bootstrap: Bootstrap
) -> dict[str, Any]:
    """Compare generated images with the true counterfactuals; AUROC is None for one class."""
    factual, truth = question.factual, question.truth
    errors = image_errors(images, truth.images, factual.images)
    reading = judge.read(images)
    binary = [a.name for a in portraits.space(factual.variant) if isinstance(a, Binary)]
    shifts = {
        name: signed_shift(
            reading.factors[name],
            question.reading.factors[name],
            directions("binary", truth.attributes[name]),
            bootstrap,
            scale=float(factual.factors[name].std()),
        )
        for name in binary
    }
    areas = {
        name: auroc(reading.scores[name], truth.attributes[name], bootstrap, few=True).value
        if len(np.unique(truth.attributes[name])) == 2
        else None
        for name in binary
    }
    return {
        "changed_error": interval(ratio(errors.missed, errors.changed, bootstrap)),
        "image_mae": float(errors.mae.mean()),
        "factor_error": {name: interval(shift) for name, shift in shifts.items()},
        "auroc": areas,
    }


def evaluate(
    pipeline: fcfg.CounterfactualPipeline, record: Portraits, args: argparse.Namespace
) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
    """Return the rows of the table and of the sheet, which share one abduction."""
    judge, start = pipeline.judge, time.perf_counter()
    abduction = pipeline.abduct(
        record.images,
        record.attributes,
        sampling=f"ddim uniform {args.steps}",
        batch_size=chunk(args, rows=1),
    )
    print(f"abduction {time.perf_counter() - start:.1f} s", flush=True)
    bootstrap, rows = Bootstrap(args.n), []
    shown = {"factual": record.images[:COLUMNS]}
    for target in TARGETS[record.variant]:
        question = ask(record, target, judge)
        truth = question.truth
        shown[f"do({target}): truth"] = truth.images[:COLUMNS]
        do = {target: truth.attributes[target]}
        action = pipeline.act(record.attributes, do, keys=abduction.keys)
        derived = sorted(pipeline.graph.affected(do) - set(do))
        for setting in SETTINGS:
            start = time.perf_counter()
            guidance = fcfg.Guidance.parse(setting)
            size = chunk(args, rows=len(guidance.weights) + 1)
            pair = pipeline.predict(abduction, action, guidance, batch_size=size)
            row = {"do": target, "guidance": setting, "reversal_mae": None}
            row |= measure(pair.images, question, judge, bootstrap)
            row["attribute_accuracy"] = {
                name: float((action.attributes[name] == truth.attributes[name]).mean())
                for name in derived
            }
            if args.reverse:
                back = pipeline.reverse(pair, batch_size=size).images
                row["reversal_mae"] = float(image_mae(back, record.images).mean())
            if setting in SHOWN:
                shown[f"do({target}): {SHOWN[setting]}"] = pair.images[:COLUMNS]
            row["seconds"] = round(time.perf_counter() - start, 2)
            rows.append(row)
            name, error = f"do({target}) {setting}", row["changed_error"]["mean"]
            print(f"{name:44} {error:.3f} {row['seconds']:7.1f} s", flush=True)
    return rows, shown


def chunk(args: argparse.Namespace, rows: int) -> int:
    """Return the network rows per call; all calls of a compiled network have one shape."""
    if not args.compile:
        return args.batch_size
    most = max(1, min(args.batch_size // rows, args.n))
    return rows * next(images for images in range(most, 0, -1) if args.n % images == 0)


def prepare(folder: Path, args: argparse.Namespace) -> fcfg.CounterfactualPipeline:
    """Load a pipeline of drawings, and prepare it for its device."""
    pipeline = fcfg.load(folder)
    judge, names = pipeline.judge, set(pipeline.space.names)
    if not isinstance(judge, fcfg.AttributeJudge) or set(judge.factors) != names:
        raise SystemExit(f"{folder}: expected a judge that reads a factor for each attribute")
    device = torch.device(args.device)
    network = pipeline.to(device).denoiser.network
    if device.type == "cuda":
        tf32 = args.precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.allow_tf32 = tf32
        torch.backends.cudnn.benchmark = True
        network.memory_format = torch.channels_last
        network.to(memory_format=torch.channels_last)
    if args.precision == "bf16":  # the sampler stays in float32
        network.to(torch.bfloat16)
    if args.compile:
        pipeline.denoiser.network = torch.compile(network, dynamic=False)
    return pipeline


def find(model: str) -> Path:
    """Return the folder of a model: a path, or that of a shipped model."""
    shipped = Path(fcfg.__file__).parent / "pipeline" / "models" / model
    is_name = Path(model).name == model and (shipped / "config.json").is_file()
    return shipped if is_name else Path(model)


def git(*words: str) -> str | None:
    """Run git in this repository; return None if that fails."""
    if which("git") is None:
        return None
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("model", nargs="?", help="folder, or name of a shipped model")
    add("--n", type=int, default=1000, help="drawings")
    add("--steps", type=int, default=100, help="number of steps to noise, and back")
    add("--seed", type=int, default=portraits.EVALUATION_SEED, help="seed of the drawings")
    add("--device", default="auto", help="auto, cuda or cpu")
    add("--batch-size", type=int, default=4096, help="network rows per call")
    add("--precision", choices=("float32", "tf32", "bf16"), default="tf32")
    add("--compile", action="store_true", help="compile the network, once for each shape")
    add("--reverse", action="store_true", help="also measure reversal")
    add("--commit", help="commit of the code, where git is missing")
    add("--out", type=Path, default=ROOT / "docs/results/portraits-truth.json")
    add("--sheet", type=Path, help="PNG file of the first drawings to write")
    add("--table", type=Path, help="result file whose table to print")
    args = parser.parse_args()
    if (args.model is None) == (args.table is None):
        parser.error("give a model, or --table with a result file")
    if args.seed < portraits.EVALUATION_SEED:
        parser.error(f"--seed {args.seed}: below {portraits.EVALUATION_SEED} models are trained")
    if args.device == "auto":
        args.device = "cuda" if torch.cuda.is_available() else "cpu"
    if args.precision == "tf32" and not args.device.startswith("cuda"):
        args.precision = "float32"  # a CPU has no TF32
    return args


def main() -> None:
    """Measure and write, or print the table of a result file."""
    args = arguments()
    if args.table is not None:
        print(markdown(json.loads(args.table.read_text(encoding="utf-8"))), end="")
        return
    start, folder = time.perf_counter(), find(args.model)
    pipeline = prepare(folder, args)
    variant = next((v for v in TARGETS if portraits.space(v) == pipeline.space), None)
    if variant is None:
        raise SystemExit(f"{folder}: expected a model of {' or '.join(TARGETS)}")
    size = pipeline.denoiser.network.config.size
    record = portraits.sample(args.n, seed=args.seed, size=size, variant=variant)
    read = pipeline.judge.read(record.images).factors
    rows, shown = evaluate(pipeline, record, args)
    device = pipeline.denoiser.device
    changes = None if args.commit else git("status", "--porcelain")
    result = {
        "command": command("portraits_truth", sys.argv[1:]),
        "fcfg": fcfg.__version__,
        "commit": args.commit or git("rev-parse", "HEAD"),
        "dirty": None if changes is None else changes != "",
        "environment": {
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
            "torch": torch.__version__,
        },
        "precision": args.precision,
        "compiled": args.compile,
        "model": {
            "name": folder.name,
            "config_sha256": hashlib.sha256((folder / "config.json").read_bytes()).hexdigest(),
            "provenance": pipeline.provenance,
            "judge_r2": {
                name: 1 - float(((read[name] - factor) ** 2).mean() / factor.var())
                for name, factor in record.factors.items()
            },
        },
        "variant": variant,
        **{name: getattr(args, name) for name in ("n", "steps", "seed")},
        "bootstrap": {"resamples": Bootstrap.resamples, "seed": Bootstrap.seed, "level": 0.95},
        "seconds": round(time.perf_counter() - start, 1),
        "rows": rows,
        "verdicts": verdicts(rows),
    }
    write_json(args.out, result)
    if args.sheet is not None:
        page = sheet(shown, scale=2)
        args.sheet.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(args.sheet, lambda file: page.save(file, format="PNG"))
    print(markdown(result), end="")


if __name__ == "__main__":
    main()
