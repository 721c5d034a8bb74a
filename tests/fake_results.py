"""Fake results: seeded numbers in the schema of result files, and drawn pictures.

The effects are those of the paper, and larger than their noise: global guidance pushes every
attribute, factored guidance the target alone. :func:`make_results` writes a whole run of a world
with pictures, :func:`known_results` one file in which each attribute has a given strength.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fcfg.datasets import portraits
from fcfg.evaluation.pictures import PictureFiles
from fcfg.evaluation.result_files import JSON, read_results
from fcfg.evaluation.summary import Summary, summarise

CFG, FCFG = "cfg:3.0", "fcfg:affected=3.0,invariant=1.2"

CORE = (
    *("none", CFG, FCFG),
    *("cfg++:0.02", "fcfg++:affected=0.02,invariant=0.008"),
    *("apg:3.0", "fapg:affected=3.0,invariant=1.2"),
)
SWEEP = (
    "none",
    *(f"cfg:{weight}" for weight in (1.5, 2.0, 3.0)),
    *(f"fcfg:affected={weight},invariant=1.2" for weight in (1.5, 2.0, 3.0)),
    *(f"fcfg:affected={weight},invariant=1.0" for weight in (2.0, 3.0)),
)
DOS = ("smiling", "male", "young")
BINARY = {name: {"kind": "binary"} for name in DOS}
MISSING = "no weights for LPIPS: put lpips_alex_full.pt into a folder named in FCFG_WEIGHTS"
MIXED = {
    "sex": {"kind": "binary"},
    "race": {"kind": "categorical", "levels": ["asian", "black", "white"]},
    "age": {"kind": "continuous", "low": 20.0, "high": 90.0},
    "finding": {"kind": "binary"},
}


def make_results(
    folder: Path,
    n: int = 240,
    *,
    settings: Sequence[str] = CORE,
    dos: Sequence[str] = DOS,
    also: Mapping[str, Sequence[str]] | None = None,
    rename: Mapping[str, str] | None = None,
    mixed: bool = False,
    truth: bool = True,
    reverse: bool = True,
    lpips: bool = False,
    pictures: int = 4,
    header: Mapping[str, Any] | None = None,
    noise: bool = False,
    unrelated: float | None = None,
) -> Path:
    """Write a run and return its folder.

    ``also`` has further guidances of single interventions. A ``mixed`` world has attributes of all
    kinds, and cannot be drawn. With ``noise``, all counterfactuals are noise, as from an untrained
    model.
    """
    world = _Mixed(n) if mixed else _Drawn(n, rename or {})
    questions = [(do, text) for do in dos for text in (*settings, *(also or {}).get(do, ()))]
    known = {"name": "LPIPS", "network": "AlexNet v0.1", "sha256": "ab12", "range": "[-1, 1]"}
    top = _header(
        world.name,
        world.images,
        attributes=world.attributes,
        graph=world.graph,
        questions=[["", "none"], *map(list, questions)],
        reverse=reverse,
        threshold=0.05 if truth else None,
        metrics=_instruments(known if lpips else {"missing": MISSING}),
    )
    entries, apart = [top | dict(header or {})], {"unrelated": unrelated}
    for image, values in zip(world.images, world.real(), strict=True):
        real = {"kind": "real", "image": image, **values}
        entries.append(real if unrelated is None else real | apart)
    for do, text in [("", "none"), *questions]:
        push = _push(text)
        for image, values in zip(world.images, world.rows(do, text, push, lpips), strict=True):
            row = {"kind": "row", "do": do, "guidance": text, "image": image, **values}
            row |= {} if truth and do else {"truth": None}
            row |= {} if reverse and do else {"reversal": None}
            entries.append(row | (_static(row) if noise else {}))
        if do:
            about = {"name": "judge", "width": 24}
            kept = {"do": do, "guidance": text, "n": n, "reference": n, "about": about}
            value = 2 + 5 * push["off"] + push["target"]
            entries.append({"kind": "distance", "metric": "FD-judge", "value": value, **kept})
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "results-0-of-1.jsonl", entries)
    if pictures and not mixed:
        world.draw(folder, pictures, questions, truth, reverse)
    return folder


def _write(path: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """Write the lines of a file, which is packed if its name ends in .gz."""
    data = "".join(json.dumps(line, allow_nan=False) + "\n" for line in entries).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def _push(text: str) -> dict[str, float]:
    """Effect of a setting on the target, on the rest, and on the reversal, in sd."""
    rule, _, tail = text.split(" @ ")[0].partition(":")
    if rule == "none":
        return {"target": -0.1, "off": 0.0, "back": 0.02}
    weights = [float(part.split("=")[-1]) for part in tail.split(";")[0].split(",")]
    scale = (100 if "++" in rule else 1) / 3 * (0.7 if "apg" in rule else 1)
    strong, rest = max(weights) * scale, min(weights) * scale
    if rule.startswith("f"):
        return {"target": 0.6 * strong, "off": 0.3 * (rest - 0.4), "back": 0.02 + 0.03 * strong}
    return {"target": 0.5 * strong, "off": 0.45 * strong, "back": 0.12 * strong}


def _header(name: str, images: Sequence[str], **more: Any) -> JSON:
    """The header of a run; ``more`` replaces or adds entries."""
    return {
        "kind": "run",
        "schema": 1,
        "experiment": f"{name}/core",
        "title": "No guidance, and each rule, global and factored, at its strongest",
        "model": {
            "name": name,
            "digest": "93b1e183a5a5",
            "provenance": {"training": {"seed": 0, "commit": "56aa2e024386"}},
            "parameters": 4_400_000,
        },
        "data": {"format": name, "split": "evaluation", "seed": 1_000_000},
        "images": images,
        "steps": 100,
        "solver": "DDIM()",
        "seed": 0,
        "threshold": 0.05,
        "shard": [0, 1],
        "block": 32,
        "version": "0.1.0",
        "command": f"fcfg evaluate {name} {name}/core",
        "commit": "b219736deadbeef0",
        "environment": {"device": "CPU", "torch": "2.13.0", "precision": "float32"},
        **more,
    }


def _instruments(lpips: Mapping[str, str]) -> JSON:
    judge = {"name": "judge", "width": 24, "sha256": "cd34"}
    return {"mae": {"range": "[-1, 1]"}, "lpips": dict(lpips), "judge": judge}


def _static(row: Mapping[str, Any]) -> JSON:
    """Measurements on noise."""
    rng = np.random.default_rng(list(repr([row["do"], row["guidance"], row["image"]]).encode()))

    def unsure(score: Any) -> Any:
        if isinstance(score, list):
            chances = rng.random(len(score))
            return (chances / chances.sum()).round(6).tolist()
        return rng.uniform(20, 90) if score > 1 else round(0.5 + 0.02 * rng.standard_normal(), 6)

    far = {"mae": 0.63 + 0.01 * rng.random(), "lpips": None}
    return {
        "scores": {name: unsure(score) for name, score in row["scores"].items()},
        "factors": {name: round(rng.standard_normal(), 6) for name in row["factors"]},
        "change": far,
        "reversal": far if row["reversal"] else None,
    }


def _rounded(columns: Mapping[str, Any]) -> list[JSON]:
    """The rows of columns."""
    lists = [np.round(column, 6).tolist() for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def _noise(n: int, rng: np.random.Generator) -> Any:
    """Noise whose mean is exactly 0."""
    noise = 0.3 * rng.standard_normal(n)
    return noise - noise.mean()


def _extras(push: Mapping[str, float], rng: np.random.Generator, text: str, lpips: bool) -> JSON:
    """Distances between images, and cost."""
    size = abs(push["target"]) + abs(push["off"])
    groups = 1 if text == "none" else 3 if text.startswith("f") else 2
    return {
        "change": _apart(0.05 + 0.03 * size + 0.01 * rng.random(), lpips),
        "reversal": _apart(push["back"] + 0.01 * rng.random(), lpips),
        "evaluations": 100 * (1 + groups),
        "seconds": round(0.11 * (1 + groups), 3),
    }


def _apart(error: float, lpips: bool) -> dict[str, float | None]:
    return {"mae": error, "lpips": error / 2 if lpips else None}


@cache
def _factual(n: int) -> portraits.Portraits:
    return portraits.sample(n, seed=1_000_000)


@cache
def _flipped(n: int, targets: tuple[str, ...]) -> portraits.Portraits:
    return portraits.counterfactual(_factual(n), dict.fromkeys(targets, "flip"))


class _Drawn:
    """Portraits, whose true counterfactuals are known."""

    name = "portraits"

    def __init__(self, n: int, rename: Mapping[str, str]) -> None:
        self.record, self.n = _factual(n), n
        self.names = {name: rename.get(name, name) for name in DOS}
        self.images = [f"1000000-{number:08d}.png" for number in range(n)]
        self.attributes = {name: {"kind": "binary"} for name in self.names.values()}
        self.graph: dict[str, list[str]] = {name: [] for name in self.names.values()}

    def real(self) -> Iterator[JSON]:
        factors = self.record.factors
        columns = self._named(self.record.attributes), self._scores(factors), self._named(factors)
        for a, s, f in zip(*columns, strict=True):
            yield {"attributes": a, "scores": s, "factors": f}

    def rows(self, do: str, text: str, push: Mapping[str, float], lpips: bool) -> Iterator[JSON]:
        rng = np.random.default_rng([len(do), len(text), ord((do or "-")[0])])
        true, targets = self._true(do), self._targets(do)
        factors: JSON = {}
        for name, factor in self.record.factors.items():
            move = push["target" if name in targets else "off"] * factor.std()
            sign = 2 * true.attributes[name] - 1
            factors[name] = true.factors[name] + sign * (move + _noise(self.n, rng))
        columns = (
            *(self._named(true.attributes), self._named(true.factors)),
            *(self._scores(factors), self._named(factors)),
        )
        for target, wanted, seen, read in zip(*columns, strict=True):
            error = 0.015 + 0.05 * abs(push["off"]) + 0.002 * rng.random()
            truth = {"mae": error, "missed": 3000 * error, "changed": 120.0}
            truth |= {"factors": wanted, "target": target}
            row = {"target": target, "scores": seen, "factors": read, "truth": truth}
            yield row | _extras(push, rng, text, lpips)

    def draw(
        self,
        folder: Path,
        shown: int,
        questions: Sequence[tuple[str, str]],
        truth: bool,
        reverse: bool,
    ) -> None:
        files = PictureFiles(folder, tuple(self.images[:shown]))
        factual = self.record.images[:shown]
        files.write(factual, "factual")
        files.write_index(questions, reversed_too=reverse, truth=truth)
        for do, text in questions:
            true = self._true(do).images[:shown]
            push, middle = _push(text), true.mean(dim=(2, 3), keepdim=True)
            answer = (middle + (true - middle) * (1 + push["off"])).clamp(-1, 1)  # more contrast
            files.write(answer, "answer", do, text)
            if reverse:
                back = factual + push["back"] * (answer - factual.flip(3))
                files.write(back, "reversed", do, text)
            if truth:
                files.write(true, "truth", do)

    def _targets(self, do: str) -> list[str]:
        return [name for name, shown in self.names.items() if shown in do.split("+")]

    def _true(self, do: str) -> portraits.Portraits:
        return _flipped(self.n, tuple(self._targets(do)))

    def _named(self, columns: Mapping[str, Any]) -> list[JSON]:
        return _rounded({self.names[k]: column for k, column in columns.items()})

    def _scores(self, factors: Mapping[str, Any]) -> list[JSON]:
        return self._named({k: 1 / (1 + np.exp(-2.3 * f)) for k, f in factors.items()})


class _Mixed:
    """Records of a fictional clinic; age is a cause of finding."""

    name = "clinic"

    def __init__(self, n: int) -> None:
        rng = np.random.default_rng(7)
        self.n, self.attributes = n, MIXED
        self.graph: dict[str, list[str]] = {"sex": [], "race": [], "age": [], "finding": ["age"]}
        self.images = [f"scan-{number:05d}.png" for number in range(n)]
        self.table = {
            "sex": rng.integers(0, 2, n),
            "race": rng.integers(0, 3, n),
            "age": rng.uniform(20, 90, n).round(1),
            "finding": rng.integers(0, 2, n),
        }

    def real(self) -> Iterator[JSON]:
        scores = self._scores(self.table, dict.fromkeys(MIXED, 0.0), np.random.default_rng(1))
        for values, seen in zip(self._values(self.table), _rounded(scores), strict=True):
            yield {"attributes": values, "scores": seen, "factors": {}}

    def rows(self, do: str, text: str, push: Mapping[str, float], lpips: bool) -> Iterator[JSON]:
        rng, table = np.random.default_rng(2), dict(self.table)
        targets = do.split("+") if do else []
        for name in targets:
            kind, column = MIXED[name]["kind"], table[name]
            changed = {"binary": 1 - column, "categorical": (column + 1) % 3}
            table[name] = changed.get(str(kind), np.roll(column, 1))
        moves = {name: push["target" if name in targets else "off"] for name in table}
        scores = _rounded(self._scores(table, moves, np.random.default_rng(2)))
        for target, seen in zip(self._values(table), scores, strict=True):
            row = {"target": target, "scores": seen, "factors": {}, "truth": None}
            yield row | _extras(push, rng, text, lpips)

    def _scores(
        self, table: Mapping[str, Any], moves: Mapping[str, float], rng: np.random.Generator
    ) -> JSON:
        def likely(name: str, levels: int) -> Any:
            own = (1.2 + 2 * moves[name]) * np.eye(levels)[table[name]]
            logits = own + 0.6 * rng.standard_normal((self.n, levels))
            return torch.from_numpy(logits).softmax(dim=1).numpy()

        further = 3 * moves["age"] * np.sign(table["age"] - 55)
        age = table["age"] + further + 5 * rng.standard_normal(self.n)
        return {
            "sex": likely("sex", 2)[:, 1],
            "race": likely("race", 3),
            "age": age.clip(20, 90),
            "finding": likely("finding", 2)[:, 1],
        }

    def _values(self, table: Mapping[str, Any]) -> list[JSON]:
        levels = MIXED["race"]["levels"]
        return [values | {"race": levels[values["race"]]} for values in _rounded(table)]


# Known effects ----------------------------------------------------------------------------------


def paperlike(do: str, guidance: str, name: str) -> float:
    """How strongly an attribute shows, with the effects of the paper."""
    if name in do.split("+"):
        return {"none": 0.4, CFG: 1.5, FCFG: 1.6}.get(guidance, 0.8)
    return {"none": 1.0, CFG: 2.2, FCFG: 1.0}.get(guidance, 1.2)


def swapped(do: str, guidance: str, name: str) -> float:
    """The opposite effects: factored guidance amplifies and misses the target."""
    other = {CFG: FCFG, FCFG: CFG}.get(guidance, guidance)
    return paperlike(do, other, name)


def known_results(
    path: Path,
    *,
    n: int = 240,
    dos: Sequence[str] = ("smiling", "male"),
    settings: Sequence[str] = ("none", CFG, FCFG),
    strength: Callable[[str, str, str], float] = paperlike,
    reversal: Mapping[str, float] | None = None,
    lpips: bool = True,
    fid: float | None = None,
) -> Path:
    """Write a result file with known effects; ``reversal`` has mean errors by guidance."""
    rng = np.random.default_rng(0)
    images = [f"{k:04d}.png" for k in range(n)]
    values = {name: rng.integers(2, size=n) for name in DOS}
    noise = {name: rng.normal(size=n) for name in DOS}
    jitter = rng.normal(size=n)
    asked = [("", "none"), *((do, guidance) for do in dos for guidance in settings)]
    header = _header(
        "tiny",
        images,
        model={"name": "tiny", "digest": "0123456789ab", "provenance": {}},
        data={"format": "celeba-mosaic", "split": "test"},
        attributes=BINARY,
        graph={name: [] for name in DOS},
        questions=[list(question) for question in asked],
        reverse=reversal is not None,
        metrics=_instruments({"name": "LPIPS"} if lpips else {"missing": "give its weights."}),
    )

    def line(do: str, guidance: str, k: int) -> JSON:
        """Of a real image, where there is no guidance."""
        target = {name: int(values[name][k]) ^ (name in do.split("+")) for name in DOS}
        show = {name: strength(do, guidance, name) if guidance else 1.0 for name in DOS}
        sizes = {name: (2 * target[name] - 1) * show[name] + noise[name][k] for name in DOS}
        scores = {name: float(1 / (1 + np.exp(-size))) for name, size in sizes.items()}
        found = {"image": images[k], "scores": scores, "factors": {}}
        if not guidance:
            return found | {"kind": "real", "attributes": target}
        error = (reversal or {}).get(guidance, 0.2) + 0.02 * jitter[k]
        return found | {
            "kind": "row",
            "do": do,
            "guidance": guidance,
            "target": target,
            "truth": None,
            "change": _apart(0.1, lpips),
            "reversal": None if reversal is None else _apart(error, lpips),
            "evaluations": 60,
            "seconds": 0.5,
        }

    about = {"kind": "distance", "metric": "FID", "value": fid, "n": n, "reference": n}
    distances = [
        about | {"do": do, "guidance": guidance, "about": {}}
        for do, guidance in asked
        if do and fid is not None
    ]
    lines = [line(do, guidance, k) for do, guidance in [("", ""), *asked] for k in range(n)]
    _write(path, [header, *lines, *distances])
    return path


def known_summary(folder: Path, **options: Any) -> Summary:
    """Summary of known effects."""
    file = known_results(folder / "known.jsonl", **options)
    return summarise(read_results(file), resamples=200)
