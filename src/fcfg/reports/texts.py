"""Sentences about a run that stand under every table."""

from __future__ import annotations

from fcfg.experiments.record import JSON
from fcfg.experiments.summary import Summary
from fcfg.metrics import MIN_IMAGES


def measured_with(summary: Summary) -> str:
    """What the numbers were measured with, from the header of the run alone."""
    header = summary.header
    environment, model = header["environment"], header["model"]
    commit = (header["commit"] or "unknown")[:12]
    text = (
        f"{header['experiment']}: n = {summary.n:,} images, {steps_text(header)}, "
        f"seed {header['seed']}, 95 % intervals over "
        f"images; model {model['name']} {model['digest']}, {environment['precision']} on "
        f"{environment['device']}; fcfg {header['version']}, commit {commit}."
    )
    absent = {
        name: about["missing"]
        for name, about in header["metrics"].items()
        if about and "missing" in about
    }
    return " ".join([text, *(f"No {name}: {how}" for name, how in absent.items())])


def too_few(n: int) -> str:
    """What so few images do not give."""
    return (
        f"No AUROC and no distance from fewer than {MIN_IMAGES} images, and here are {n}; what "
        "the judge reads is compared image by image instead"
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
