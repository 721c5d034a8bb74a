"""Sentences about a run that stand under every table."""

from __future__ import annotations

from fcfg.experiments.summary import Summary


def measured_with(summary: Summary) -> str:
    """What the numbers were measured with, from the header of the run alone."""
    header = summary.header
    environment, model = header["environment"], header["model"]
    commit = (header["commit"] or "unknown")[:12]
    text = (
        f"{header['experiment']}: n = {summary.n:,} images, {header['steps']} steps of "
        f"{header['solver'].removesuffix('()')}, seed {header['seed']}, 95 % intervals over "
        f"images; model {model['name']} {model['digest']}, {environment['precision']} on "
        f"{environment['device']}; fcfg {header['version']}, commit {commit}."
    )
    absent = {
        name: about["missing"]
        for name, about in header["metrics"].items()
        if about and "missing" in about
    }
    return " ".join([text, *(f"No {name}: {how}" for name, how in absent.items())])
