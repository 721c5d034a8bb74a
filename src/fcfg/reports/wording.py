"""Phrases about a run that several outputs share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fcfg.causal.attributes import Binary, Categorical
from fcfg.evaluation.result_files import JSON
from fcfg.evaluation.summary import Cell, Summary
from fcfg.metrics import MIN_IMAGES
from fcfg.reports.numbers import listed


def in_words(summary: Summary, do: str) -> str:
    """What an intervention does to every image."""
    if not do:
        times = (
            f", and {cycles} times in a row" if (cycles := summary.header.get("cycles")) else ""
        )
        return f"nothing is changed: abducted and predicted once{times}"
    cell = summary.cells_of(do)[0]
    flipped = [name for name in cell.targets if isinstance(summary.space[name], Binary)]
    verb = "is" if len(flipped) == 1 else "are"
    clauses = [f"{listed(flipped)} {verb} flipped, 0 to 1 and 1 to 0"] if flipped else []
    clauses += [_set(summary, cell, name) for name in cell.targets if name not in flipped]
    follow = [name for name in cell.affected if name not in cell.targets]
    if follow:
        clauses.append(f"{listed(follow)} {'follows' if len(follow) == 1 else 'follow'}")
    return "; ".join(clauses)


def _set(summary: Summary, cell: Cell, name: str) -> str:
    attribute, values = summary.space[name], cell.values[name]
    if isinstance(attribute, Categorical):
        return f"{name} is set to another level at random: {listed(attribute.levels, 'or')}"
    if summary.header["continuous"] == "quantiles":
        choices = listed([f"{value:.4g}" for value in values], "or")
        return f"{name} is set to {choices}, whichever is farther from its own value"
    return f"{name} is set to that of another image, {values[0]:.4g} to {values[-1]:.4g}"


def too_few(n: int) -> str:
    """What is missing from a run of few images, and what replaces it."""
    return (
        f"AUROC and distances need at least {MIN_IMAGES} images, and this run has {n}; the "
        "judge's scores are compared image by image instead"
    )


def has_trait(header: Mapping[str, Any], name: str) -> bool:
    """Return whether a model has a trait; older runs are of models that have all of them.

    >>> has_trait({"model": {}}, "steps"), has_trait({"model": {"traits": {}}}, "steps")
    (True, False)
    """
    return header["model"].get("traits", {name: True}).get(name, False)


def steps_text(header: JSON) -> str:
    """Number of steps, solver, and grid unless it is uniform; one pass without steps.

    >>> steps_text({"model": {}, "steps": 20, "solver": "DPMSolver2M()", "grid": "karras"})
    '20 steps of DPMSolver2M on the karras grid'
    >>> steps_text({"model": {"traits": {"steps": False}}})
    'one pass'
    """
    if not has_trait(header, "steps"):
        return "one pass"
    grid = header.get("grid", "uniform")
    on = "" if grid == "uniform" else f" on the {grid} grid"
    drawn = f"; {own} where noise is drawn" if (own := header.get("drawn_sampling")) else ""
    return f"{header['steps']} steps of {header['solver'].removesuffix('()')}{on}{drawn}"


def made(header: JSON) -> str:
    """How a run was made, in one line."""
    commit = (header["commit"] or "unknown")[:12]
    checkpoint = f"checkpoint {header['model']['digest']}"
    return f"{steps_text(header)} · seed {header['seed']} · {checkpoint} · commit {commit}"


def hardware(header: JSON) -> str:
    """Device and precision of a run."""
    environment = header["environment"]
    return " in ".join(environment.get(key, f"unknown {key}") for key in ("device", "precision"))


def missing(header: JSON) -> list[str]:
    """What a run did not measure, and why."""
    notes: list[str] = []
    for name, title in (("lpips", "LPIPS"), ("inception", "FID")):
        about = header["metrics"].get(name) or {"missing": f"no {title}: not requested"}
        if reason := about.get("missing"):
            notes.append(f"{reason[:1].upper()}{reason[1:].removesuffix('.')}.")
    return notes if header["reverse"] else [*notes, "No reversibility: not requested."]


def facts(about: Mapping[str, object]) -> str:
    """Facts in one line; the reason instead if something is missing."""
    if "missing" in about:
        return str(about["missing"])
    return ", ".join(f"{key} {value}" for key, value in about.items() if value is not None)
