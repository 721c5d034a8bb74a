"""Numbers, names and runs as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fcfg.causal.attributes import Binary, Categorical
from fcfg.evaluation.experiment import parts_of
from fcfg.evaluation.result_files import JSON
from fcfg.evaluation.summary import Cell, Summary
from fcfg.metrics import MIN_IMAGES, Estimate

#: Whose noise a reversal has.
RETURNS = (
    "own noise is that of the way there; fresh noise is drawn anew, as a recipient of the answer "
    "would. Noise that is inferred is both."
)


def number(value: float, digits: int, *, signed: bool = False) -> str:
    """A number with a true minus sign, and no sign at zero.

    >>> number(-0.126, 2), number(0.5, 1, signed=True), number(-0.001, 2, signed=True)
    ('−0.13', '+0.5', '0.00')
    """
    text = f"{value:{'+' if signed else ''}z.{digits}f}"
    return text.lstrip("+") if float(text) == 0 else text.replace("-", "−")


def interval(low: float, high: float, digits: int, *, signed: bool = False) -> str:
    """The ends of an interval, in brackets."""
    ends = ", ".join(number(end, digits, signed=signed) for end in (low, high))
    return f"[{ends}]"


def with_interval(estimate: Estimate, digits: int, *, signed: bool = False) -> str:
    """A number and its interval."""
    value = number(estimate.value, digits, signed=signed)
    return f"{value} {interval(estimate.low, estimate.high, digits, signed=signed)}"


def listed(texts: Iterable[str], last: str = "and") -> str:
    """Words as a list in a sentence."""
    *most, final = texts
    return f"{', '.join(most)} {last} {final}" if most else final


def named(do: str) -> str:
    """An intervention as the paper writes it.

    >>> named("smiling+male"), named("")
    ('do(smiling, male)', 'the null intervention')
    """
    return f"do({do.replace('+', ', ')})" if do else "the null intervention"


def in_words(summary: Summary, do: str) -> str:
    """What an intervention does to every image."""
    if not do:
        cycles = summary.header.get("cycles")
        again = f", and {cycles} times in a row" if cycles else ""
        return f"nothing is changed: abducted and predicted once{again}"
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


def sample(summary: Summary) -> str:
    """How many images there are, and what was resampled if not images."""
    groups = summary.header.get("groups")
    over = f", bootstrap over {len(set(groups['rows'])):,} {groups['of']}" if groups else ""
    return f"n = {summary.n:,}{over}"


def has_trait(header: Mapping[str, Any], name: str) -> bool:
    """Return whether a model has a trait; older runs are of models that have all of them."""
    return header["model"].get("traits", {name: True}).get(name, False)


def steps_text(header: JSON) -> str:
    """Number of steps, solver, and grid unless it is uniform; one pass without steps."""
    if not has_trait(header, "steps"):
        return "one pass"
    grid = header.get("grid", "uniform")
    on = "" if grid == "uniform" else f" on the {grid} grid"
    own = sorted({parts_of(text)[1] for _, text in header["questions"]} - {""})
    other = f"; {own[0] if len(own) == 1 else f'{len(own)} others'} where a setting says so"
    solver = header["solver"].removesuffix("()")
    return f"{header['steps']} steps of {solver}{on}{other if own else ''}"


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
