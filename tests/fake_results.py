"""Fake results: seeded numbers in the schema of result files, and drawn pictures.

The effects are those of the paper, and larger than their noise: global guidance pushes every
attribute, factored guidance the target alone. :func:`make_results` writes a whole run of a world
with pictures, :func:`known_results` one file in which each attribute has a given strength.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fcfg.datasets import portraits
from fcfg.evaluation.pictures import PictureFiles
from fcfg.evaluation.result_files import read_results
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
    rename = rename or {}
    world = _Mixed(n) if mixed else _Drawn(n, rename)
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
    ) | dict(header or {})
    entries = [top, *world.real()]
    for do, text in [("", "none"), *questions]:
        push = _push(text)
        entries += world.rows(do, text, push)
        if do:
            about = {"name": "judge", "width": 24}
            kept = {"do": do, "guidance": text, "n": n, "reference": n, "about": about}
            value = 2 + 5 * push["off"] + push["target"]
            entries.append({"kind": "distance", "metric": "FD-judge", "value": value, **kept})
    for entry in entries:
        if entry["kind"] == "row":
            kept = {"truth": truth and entry["do"], "reversal": reverse and entry["do"]}
            entry |= {name: None for name, there in kept.items() if not there}
            for apart in () if lpips else filter(None, (entry["change"], entry["reversal"])):
                apart["lpips"] = None
            entry |= _static(entry) if noise else {}
        if entry["kind"] == "real" and unrelated is not None:
            entry["unrelated"] = unrelated
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(entry, allow_nan=False) + "\n" for entry in entries)
    (folder / "results-0-of-1.jsonl").write_text(lines, "utf-8")
    if pictures:
        world.draw(folder, pictures, questions, truth, reverse)
    return folder


def _push(text: str) -> dict[str, float]:
    """Effect of a setting on the target, on the rest, and on the reversal, in sd."""
    rule, _, tail = text.partition(":")
    if rule == "none":
        return {"target": -0.1, "off": 0.0, "back": 0.02}
    weights = [float(part.split("=")[-1]) for part in tail.split(";")[0].split(",")]
    scale = (100 if "++" in rule else 1) / 3 * (0.7 if "apg" in rule else 1)
    strong, rest = max(weights) * scale, min(weights) * scale
    if rule.startswith("f"):
        return {"target": 0.6 * strong, "off": 0.3 * (rest - 0.4), "back": 0.02 + 0.03 * strong}
    return {"target": 0.5 * strong, "off": 0.45 * strong, "back": 0.12 * strong}


def _header(name: str, images: Sequence[str], **more: Any) -> dict[str, Any]:
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


def _instruments(lpips: Mapping[str, str]) -> dict[str, Any]:
    judge = {"name": "judge", "width": 24, "sha256": "cd34"}
    return {"mae": {"range": "[-1, 1]"}, "lpips": dict(lpips), "judge": judge}


def _static(row: Mapping[str, Any]) -> dict[str, Any]:
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


def _row(
    do: str, guidance: str, image: str, target: Mapping[str, Any], scores: Any, **more: Any
) -> dict[str, Any]:
    """A row of a run; ``more`` has its factors, truth, distances and cost."""
    row = {"kind": "row", "do": do, "guidance": guidance, "image": image}
    return row | {"target": target, "scores": scores, "factors": {}, "truth": None} | more


def _rounded(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of columns."""
    lists = [np.round(column, 6).tolist() for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def _noise(n: int, rng: np.random.Generator) -> Any:
    """Noise whose mean is exactly 0."""
    noise = 0.3 * rng.standard_normal(n)
    return noise - noise.mean()


def _extras(push: Mapping[str, float], rng: np.random.Generator, text: str) -> dict[str, Any]:
    """Distances between images, and cost."""
    size = abs(push["target"]) + abs(push["off"])
    change, back = 0.05 + 0.03 * size + 0.01 * rng.random(), push["back"] + 0.01 * rng.random()
    groups = 1 if text == "none" else 3 if text.startswith("f") else 2
    return {
        "change": {"mae": change, "lpips": 0.6 * change},
        "reversal": {"mae": back, "lpips": 0.5 * back},
        "evaluations": 100 * (1 + groups),
        "seconds": round(0.11 * (1 + groups), 3),
    }


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
        self.record, self.rename, self.n = _factual(n), dict(rename), n
        self.names = {name: self.rename.get(name, name) for name in DOS}
        self.images = [f"1000000-{number:08d}.png" for number in range(n)]
        self.attributes = {name: {"kind": "binary"} for name in self.names.values()}
        self.graph: dict[str, list[str]] = {name: [] for name in self.names.values()}

    def real(self) -> list[dict[str, Any]]:
        factors = self.record.factors
        columns = self._named(self.record.attributes), self._scores(factors), self._named(factors)
        return [
            {"kind": "real", "image": image, "attributes": a, "scores": s, "factors": f}
            for image, a, s, f in zip(self.images, *columns, strict=True)
        ]

    def rows(self, do: str, text: str, push: Mapping[str, float]) -> list[dict[str, Any]]:
        rng = np.random.default_rng([len(do), len(text), ord((do or "-")[0])])
        true, targets = self._true(do), self._targets(do)
        factors = {
            name: true.factors[name]
            + (2 * true.attributes[name] - 1)
            * (
                (push["target"] if name in targets else push["off"])
                * self.record.factors[name].std()
                + _noise(self.n, rng)
            )
            for name in DOS
        }

        def row(image: str, target: Any, wanted: Any, seen: Any, read: Any) -> dict[str, Any]:
            error = 0.015 + 0.05 * abs(push["off"]) + 0.002 * rng.random()
            truth = {"mae": error, "missed": 3000 * error, "changed": 120.0}
            truth |= {"factors": wanted, "target": target}
            more = _extras(push, rng, text) | {"factors": read, "truth": truth}
            return _row(do, text, image, target, seen, **more)

        columns = (
            *(self._named(true.attributes), self._named(true.factors)),
            *(self._scores(factors), self._named(factors)),
        )
        return [row(*values) for values in zip(self.images, *columns, strict=True)]

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
            push = _push(text)
            answer = self._pushed(true, push)
            files.write(answer, "answer", do, text)
            if reverse:
                back = factual + push["back"] * (answer - factual.flip(3))
                files.write(back, "reversed", do, text)
            if truth:
                files.write(true, "truth", do)

    @staticmethod
    def _pushed(images: Tensor, push: Mapping[str, float]) -> Tensor:
        """More contrast for a stronger push, as under guidance."""
        middle = images.mean(dim=(2, 3), keepdim=True)
        return (middle + (images - middle) * (1 + push["off"])).clamp(-1, 1)

    def _targets(self, do: str) -> list[str]:
        return [name for name, shown in self.names.items() if shown in do.split("+")]

    def _true(self, do: str) -> portraits.Portraits:
        return _flipped(self.n, tuple(self._targets(do)))

    def _named(self, columns: Mapping[str, Any]) -> list[dict[str, Any]]:
        return _rounded({self.names[k]: column for k, column in columns.items()})

    def _scores(self, factors: Mapping[str, Any]) -> list[dict[str, Any]]:
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

    def real(self) -> list[dict[str, Any]]:
        rng, push = np.random.default_rng(1), {"target": 0.0, "off": 0.0}
        columns = self._values(self.table), _rounded(self._scores(self.table, "", push, rng))
        return [
            {"kind": "real", "image": image, "attributes": values, "scores": s, "factors": {}}
            for image, values, s in zip(self.images, *columns, strict=True)
        ]

    def rows(self, do: str, text: str, push: Mapping[str, float]) -> list[dict[str, Any]]:
        rng = np.random.default_rng(2)
        table = dict(self.table)
        for name in do.split("+") if do else ():
            column, kind = table[name], MIXED[name]["kind"]
            table[name] = {
                "binary": lambda column=column: 1 - column,
                "categorical": lambda column=column: (column + 1) % 3,
                "continuous": lambda column=column: np.roll(column, 1),
            }[str(kind)]()
        scores = _rounded(self._scores(table, do, push, np.random.default_rng(2)))
        return [
            _row(do, text, image, target, seen, **_extras(push, rng, text))
            for image, target, seen in zip(self.images, self._values(table), scores, strict=True)
        ]

    def draw(self, *_: object) -> None:
        """Nothing: this world has no pictures."""

    def _scores(
        self,
        table: Mapping[str, Any],
        do: str,
        push: Mapping[str, float],
        rng: np.random.Generator,
    ) -> dict[str, Any]:
        def logits(name: str, levels: int) -> Any:
            move = push["target"] if name in do.split("+") else push["off"]
            own = (1.2 + 2 * move) * np.eye(levels)[table[name]]
            return own + 0.6 * rng.standard_normal((self.n, levels))

        def likely(name: str, levels: int) -> Any:
            return torch.from_numpy(logits(name, levels)).softmax(dim=1).numpy()

        move = push["target"] if "age" in do.split("+") else push["off"]
        age = (
            table["age"] + 3 * move * np.sign(table["age"] - 55) + 5 * rng.standard_normal(self.n)
        )
        return {
            "sex": likely("sex", 2)[:, 1],
            "race": likely("race", 3),
            "age": age.clip(20, 90),
            "finding": likely("finding", 2)[:, 1],
        }

    def _values(self, table: Mapping[str, Any]) -> list[dict[str, Any]]:
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


def _known_lines(
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
    """The lines of a result file; ``reversal`` holds the mean error after reversal by guidance."""
    rng = np.random.default_rng(0)
    images = [f"{k:04d}.png" for k in range(n)]
    values = {name: rng.integers(2, size=n) for name in attributes}
    noise = {name: rng.normal(size=n) for name in attributes}
    jitter = rng.normal(size=n)
    asked = [(do, guidance) for do in dos for guidance in settings]
    asked = [*([("", "none")] if composition else []), *asked]
    header = _header(
        "tiny",
        images,
        experiment="celeba-hq/core",
        title="Known effects",
        model={"name": "tiny", "digest": "0123456789ab", "provenance": {}},
        data={"format": data, "split": "test"},
        attributes=attributes,
        graph={name: [] for name in attributes},
        do=list(dos),
        guidance=list(settings),
        composition=composition,
        questions=[list(question) for question in asked],
        steps=20,
        reverse=reversal is not None,
        metrics=_instruments({"name": "LPIPS"} if lpips else {"missing": "give its weights."}),
        command="fcfg evaluate tiny celeba-hq/core",
        commit="f" * 40,
    )

    def shown(name: str, size: float) -> float:
        """On the scale of an attribute, from a size in sd."""
        continuous = attributes[name]["kind"] == "continuous"
        return 50 + 5 * size if continuous else float(1 / (1 + np.exp(-size)))

    def valued(target: dict[str, int]) -> dict[str, Any]:
        kinds = {name: config["kind"] for name, config in attributes.items()}
        return {
            name: 50.0 + 5 * (2 * value - 1) if kinds[name] == "continuous" else value
            for name, value in target.items()
        }

    def line(do: str, guidance: str, k: int) -> dict[str, Any]:
        """Of a real image, where there is no guidance."""
        own = {name: float(noise[name][k]) for name in attributes}
        target = {name: int(values[name][k]) ^ (name in do.split("+")) for name in attributes}
        show = {name: strength(do, guidance, name) if guidance else 1.0 for name in attributes}
        sign = {name: 2 * value - 1 for name, value in target.items()}
        scores = {name: shown(name, sign[name] * show[name] + own[name]) for name in attributes}
        factors = {name: own[name] + sign[name] * (show[name] - 1) for name in attributes}
        found = {"image": images[k], "scores": scores, "factors": factors if truth else {}}
        if not guidance:
            return found | {"kind": "real", "attributes": valued(target)}
        known = {"mae": 0.02, "missed": 0.5, "changed": 1.0, "factors": own}
        back = None if reversal is None else reversal.get(guidance, 0.2) + 0.02 * jitter[k]
        return found | {
            "kind": "row",
            "do": do,
            "guidance": guidance,
            "target": valued(target),
            "truth": known | {"target": valued(target)} if truth else None,
            "change": _apart(0.1, lpips),
            "reversal": None if back is None else _apart(back, lpips),
            "evaluations": 60,
            "seconds": 0.5,
        }

    about = {"kind": "distance", "metric": "FID", "value": fid, "n": n, "reference": n}
    distances = [
        about | {"do": do, "guidance": guidance, "about": {}}
        for do, guidance in asked
        if do and fid is not None
    ]
    asked = [("", ""), *asked]
    lines = [line(do, guidance, k) for do, guidance in asked for k in range(n)]
    return [header, *lines, *distances]


def _apart(error: float, lpips: bool) -> dict[str, float | None]:
    return {"mae": error, "lpips": error / 2 if lpips else None}


def known_results(path: Path, **options: Any) -> Path:
    """Write a result file with known effects; it is packed if its name ends in .gz."""
    data = "".join(json.dumps(line) + "\n" for line in _known_lines(**options)).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def known_summary(folder: Path, **options: Any) -> Summary:
    """Summary of known effects."""
    file = known_results(folder / "known.jsonl", **options)
    return summarise(read_results(file), resamples=200)
