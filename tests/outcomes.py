"""Results of a run that never ran, with effects that are known: for tables and claims."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fcfg.evaluation.result_files import read_results
from fcfg.evaluation.summary import Summary, summarise

CFG, FCFG = "cfg:3.0", "fcfg:affected=3.0,invariant=1.2"
BINARY = {name: {"kind": "binary"} for name in ("smiling", "male", "young")}


def paperlike(do: str, guidance: str, name: str) -> float:
    """How strongly an attribute shows: as the paper has it."""
    if name in do.split("+"):
        return {"none": 0.4, CFG: 1.5, FCFG: 1.6}.get(guidance, 0.8)
    return {"none": 1.0, CFG: 2.2, FCFG: 1.0}.get(guidance, 1.2)


def swapped(do: str, guidance: str, name: str) -> float:
    """The opposite: factored guidance amplifies, misses the target, and global does not."""
    other = {CFG: FCFG, FCFG: CFG}.get(guidance, guidance)
    return paperlike(do, other, name)


def lines(
    *,
    n: int = 240,
    dos: Sequence[str] = ("smiling", "male"),
    settings: Sequence[str] = ("none", CFG, FCFG),
    strength: Callable[[str, str, str], float] = paperlike,
    reversal: dict[str, float] | None = None,
    attributes: dict[str, Any] = BINARY,
    data: str = "celeba-mosaic",
    truth: bool = False,
    lpips: bool = True,
    composition: bool = True,
    fid: float | None = None,
) -> list[dict[str, Any]]:
    """The lines of a result file; ``reversal`` has the mean error of the way back by guidance."""
    rng = np.random.default_rng(0)
    images = [f"{k:04d}.png" for k in range(n)]
    values = {name: rng.integers(2, size=n) for name in attributes}
    noise = {name: rng.normal(size=n) for name in attributes}
    jitter = rng.normal(size=n)
    asked = [(do, guidance) for do in dos for guidance in settings]
    asked = [*([("", "none")] if composition else []), *asked]
    header = {
        "kind": "run",
        "schema": 1,
        "experiment": "celeba-hq/core",
        "title": "Known effects",
        "model": {"name": "tiny", "digest": "0123456789ab", "provenance": {}},
        "data": {"format": data, "split": "test"},
        "images": images,
        "attributes": attributes,
        "graph": {name: [] for name in attributes},
        "do": list(dos),
        "guidance": list(settings),
        "composition": composition,
        "questions": [list(question) for question in asked],
        "steps": 20,
        "solver": "DDIM()",
        "seed": 0,
        "reverse": reversal is not None,
        "shard": [0, 1],
        "threshold": 0.05,
        "metrics": {
            "mae": {"range": "[-1, 1]"},
            "lpips": {"name": "LPIPS"} if lpips else {"missing": "give its weights."},
            "judge": {"name": "judge"},
            "inception": None,
        },
        "command": "fcfg evaluate tiny celeba-hq/core",
        "commit": "f" * 40,
        "version": "0.1.0",
        "environment": {"device": "CPU", "torch": "2.13.0", "precision": "float32"},
    }

    def seen(k: int, target: dict[str, Any], show: dict[str, float]) -> dict[str, float]:
        shown: dict[str, float] = {}
        for name, config in attributes.items():
            size = (2 * target[name] - 1) * show[name] + noise[name][k]
            shown[name] = 50 + 5 * size if config["kind"] == "continuous" else _sigmoid(size)
        return shown

    def valued(target: dict[str, Any]) -> dict[str, Any]:
        kinds = {name: config["kind"] for name, config in attributes.items()}
        return {
            name: 50.0 + 5 * (2 * value - 1) if kinds[name] == "continuous" else value
            for name, value in target.items()
        }

    factual = [{name: int(values[name][k]) for name in attributes} for k in range(n)]
    found: list[dict[str, Any]] = [header]
    found += [
        {
            "kind": "real",
            "image": images[k],
            "attributes": valued(factual[k]),
            "scores": seen(k, factual[k], dict.fromkeys(attributes, 1.0)),
            "factors": {name: float(noise[name][k]) for name in attributes} if truth else {},
        }
        for k in range(n)
    ]
    for do, guidance in asked:
        show = {name: strength(do, guidance, name) for name in attributes}
        if fid is not None and do:
            found.append(
                {
                    "kind": "distance",
                    "do": do,
                    "guidance": guidance,
                    "metric": "FID",
                    "value": fid,
                    "n": n,
                    "reference": n,
                    "about": {},
                }
            )
        for k in range(n):
            target = {
                name: 1 - value if name in do.split("+") else value
                for name, value in factual[k].items()
            }
            back = None if reversal is None else reversal.get(guidance, 0.2) + 0.02 * jitter[k]
            drift = {
                name: float(noise[name][k]) + (2 * target[name] - 1) * (show[name] - 1)
                for name in attributes
            }
            found.append(
                {
                    "kind": "row",
                    "do": do,
                    "guidance": guidance,
                    "image": images[k],
                    "target": valued(target),
                    "scores": seen(k, target, show),
                    "factors": drift if truth else {},
                    "change": {"mae": 0.1, "lpips": 0.05 if lpips else None},
                    "reversal": None
                    if back is None
                    else {"mae": back, "lpips": back / 2 if lpips else None},
                    "truth": {
                        "mae": 0.02,
                        "missed": 0.5,
                        "changed": 1.0,
                        "factors": {name: float(noise[name][k]) for name in attributes},
                        "target": valued(target),
                    }
                    if truth
                    else None,
                    "evaluations": 60,
                    "seconds": 0.5,
                }
            )
    return found


def _sigmoid(size: float) -> float:
    return float(1 / (1 + np.exp(-size)))


def write(path: Path, **options: Any) -> Path:
    """A result file with known effects, packed where its name says so."""
    data = "".join(json.dumps(line) + "\n" for line in lines(**options)).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def summary(folder: Path, **options: Any) -> Summary:
    """Its summary."""
    return summarise(read_results(write(folder / "known.jsonl", **options)), resamples=200)
