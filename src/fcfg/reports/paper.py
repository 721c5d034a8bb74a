"""The numbers of the paper: every row of its result tables.

``paper.json`` was extracted from the paper's TeX by a script; no digit was typed. A row has a note
where the paper contradicts itself, or where a caption claims more than the numbers show.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from fcfg.evaluation.experiment import parts_of
from fcfg.guidance import Guidance
from fcfg.reports.wording import has_trait
from fcfg.support.errors import InputError


@dataclass(frozen=True)
class PaperRow:
    """One row of a table of the paper.

    ``guidance`` names a setting that this package has, ``method`` anything else. Numbers that the
    paper does not report are None, or missing.
    """

    table: str  #: its label in the paper's TeX
    dataset: str
    do: str  #: targets, joined by "+"
    guidance: str | None = None  #: text form; "none" is the paper's ω = 1
    method: str | None = None
    auroc: Mapping[str, float] = field(default_factory=dict[str, float])  #: × 100
    delta: Mapping[str, float] = field(default_factory=dict[str, float])  #: against ω = 1
    off_target: float | None = None  #: Δ of attributes that the paper does not name
    mae: float | None = None  #: after reversal, in units of [-1, 1]
    lpips: float | None = None  #: after reversal
    fid: float | None = None
    parameters: int | None = None
    seconds: float | None = None  #: for one counterfactual
    note: str | None = None  #: what is inconsistent


def paper_rows(dataset: str) -> tuple[PaperRow, ...]:
    """All rows on a data set, main tables first; none if the paper does not have the data set."""
    return tuple(row for row in _rows() if row.dataset == dataset)


def match(dataset: str | None, do: str, guidance: str) -> PaperRow | None:
    """The row of the paper for a setting, or None.

    Weights are compared as numbers, targets and groups in any order. If several tables have the
    setting, the first one is taken; its note says how the others differ. The FID comes from a
    table of its own.
    """
    try:
        wanted = meaning(parts_of(guidance)[0])
    except InputError:  # of a rule or with an option that is not of this package
        return None
    found = [
        row
        for row in paper_rows(dataset or "")
        if row.guidance is not None and meaning(row.guidance) == wanted
        if set(row.do.split("+")) == set(do.split("+"))
    ]
    fids = [row.fid for row in found if row.fid is not None]
    return replace(found[0], fid=fids[0] if fids else None) if found else None


def dataset_of(header: Mapping[str, Any]) -> str | None:
    """Data set of the paper that a model with its guidance was run on, or None."""
    if not has_trait(header, "groups"):
        return None  # without guidance, another kind of model has nothing in common with ω = 1
    name = str(header["data"]["format"]).replace("celeba-mosaic", "celeba-hq")
    return name if paper_rows(name) else None


@cache
def meaning(text: str) -> Guidance:
    """A guidance in a normal form, equal for texts that mean the same."""
    guidance = Guidance.parse(text)
    if guidance.name == "cfg" and guidance.weights[0][1] == 1:
        return Guidance.none()
    return replace(guidance, weights=tuple(sorted(guidance.weights, key=lambda pair: pair[0])))


@cache
def _rows() -> tuple[PaperRow, ...]:
    found = json.loads(Path(__file__).with_name("paper.json").read_text("utf-8"))
    return tuple(PaperRow(**row) for row in found["rows"])
