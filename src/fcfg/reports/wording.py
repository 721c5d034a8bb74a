"""Phrases about a run that several outputs share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fcfg.causal.attributes import Binary, Categorical
from fcfg.evaluation.result_files import JSON
from fcfg.evaluation.summary import Cell, Summary
from fcfg.metrics import MIN_IMAGES
from fcfg.reports.numbers import listed

DIFFUSION = "diffusion"  # the kind of model of the paper


def measured_with(summary: Summary) -> str:
    """Provenance of a table in one line, from the header of the run."""
    header = summary.header
    environment, model = header["environment"], header["model"]
    commit = (header["commit"] or "unknown")[:12]
    text = (
        f"{header['experiment']}: n = {summary.n:,} images, {steps_text(header)}, "
        f"seed {header['seed']}, 95 % intervals over "
        f"images; model {model['name']} {model['digest']}, "
        f"{environment.get('precision', 'unknown precision')} on "
        f"{environment.get('device', 'unknown hardware')}; "
        f"fcfg {header['version']}, commit {commit}."
    )
    missing = [
        f"No {name}: {about['missing']}"
        for name, about in header["metrics"].items()
        if about and "missing" in about
    ]
    return " ".join([text, *missing])


def in_words(summary: Summary, do: str) -> str:
    """What an intervention does to every image.

    Args:
        summary: Summary of a run.
        do: The intervention.
    """
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


def model_kind(header: Mapping[str, Any]) -> str:
    """Kind of the model of a run; older runs are of diffusion models.

    >>> model_kind({"model": {"name": "portraits"}}), model_kind({"model": {"kind": "hvae"}})
    ('diffusion', 'hvae')
    """
    return header.get("model", {}).get("kind", DIFFUSION)


def takes_steps(header: Mapping[str, Any]) -> bool:
    """Whether the model of a run samples in steps, with guidance, as SA-DCG does, too.

    >>> takes_steps({"model": {"kind": "semantic"}}), takes_steps({"model": {"kind": "hvae"}})
    (True, False)
    """
    return model_kind(header) != "hvae"


def steps_text(header: JSON) -> str:
    """Number of steps, solver, and grid unless it is uniform; one pass without diffusion.

    >>> steps_text({"steps": 100, "solver": "DDIM()", "grid": "uniform"})
    '100 steps of DDIM'
    >>> steps_text({"steps": 20, "solver": "DPMSolver2M()", "grid": "karras"})
    '20 steps of DPMSolver2M on the karras grid'
    >>> steps_text({"model": {"kind": "hvae"}})
    'one pass'
    """
    if not takes_steps(header):
        return "one pass"
    grid = "" if header["grid"] == "uniform" else f" on the {header['grid']} grid"
    drawn = f"; {own} where noise is drawn" if (own := header.get("drawn_sampling")) else ""
    return f"{header['steps']} steps of {header['solver'].removesuffix('()')}{grid}{drawn}"
