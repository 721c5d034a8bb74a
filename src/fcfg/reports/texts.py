"""Sentences about a run that stand under every table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fcfg.causal.attributes import Binary, Categorical
from fcfg.evaluation.result_files import JSON
from fcfg.evaluation.summary import Summary
from fcfg.metrics import MIN_IMAGES
from fcfg.reports.numbers import listed


def measured_with(summary: Summary) -> str:
    """What the numbers were measured with, from the header of the run alone."""
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
    absent = {
        name: about["missing"]
        for name, about in header["metrics"].items()
        if about and "missing" in about
    }
    return " ".join([text, *(f"No {name}: {how}" for name, how in absent.items())])


def in_words(summary: Summary, do: str) -> str:
    """What an intervention does to every image: whether it flips or sets, and to which values.

    Args:
        summary: Of a run.
        do: The intervention.
    """
    cell = next(cell for cell in summary.cells.values() if cell.do == do)
    follow = [name for name in cell.affected if name not in cell.targets]
    follows = f"; {listed(follow)} {'follows' if len(follow) == 1 else 'follow'}" if follow else ""
    flipped = [name for name in cell.targets if isinstance(summary.space[name], Binary)]
    verb = "is" if len(flipped) == 1 else "are"
    said = [f"{listed(flipped)} {verb} flipped, 0 to 1 and 1 to 0"] if flipped else []
    others = (name for name in cell.targets if name not in flipped)
    return (
        "; ".join([*said, *(_set(summary, name, cell.values[name]) for name in others)]) + follows
    )


def _set(summary: Summary, name: str, values: Sequence[Any]) -> str:
    attribute = summary.space[name]
    if isinstance(attribute, Categorical):
        return f"{name} is set to another level, drawn at random: {_or(attribute.levels)}"
    if summary.header["continuous"] == "quantiles":
        return (
            f"{name} is set to {_or([f'{v:.4g}' for v in values])}, the farther from its own value"
        )
    return f"{name} is set to that of another image, {values[0]:.4g} to {values[-1]:.4g}"


def _or(words: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def too_few(n: int) -> str:
    """What so few images do not give."""
    return (
        f"AUROC and distances need at least {MIN_IMAGES} images, and this run has {n}; what the "
        "judge reads is compared image by image instead"
    )


def steps_text(header: JSON) -> str:
    """How many steps, of which solver, and on which grid where it is another than usual.

    >>> steps_text({"steps": 100, "solver": "DDIM()", "grid": "uniform"})
    '100 steps of DDIM'
    >>> steps_text({"steps": 20, "solver": "DPMSolver2M()", "grid": "karras"})
    '20 steps of DPMSolver2M on the karras grid'
    """
    grid = "" if header["grid"] == "uniform" else f" on the {header['grid']} grid"
    return f"{header['steps']} steps of {header['solver'].removesuffix('()')}{grid}"
