"""What the paper reports: every row of its result tables, to stand beside ours.

``paper.json`` was read from the paper's TeX by a script; no digit was typed. Where the paper
contradicts itself, or a caption says more than its numbers, the row has a note.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from fcfg.guidance import Guidance
from fcfg.reports.rule_styles import FAMILIES, setting

# The data set of the paper that a format of ours holds.
_FORMATS = {
    "celeba-hq": "celeba-hq",
    "celeba-mosaic": "celeba-hq",
    "embed": "embed",
    "mimic-cxr": "mimic-cxr",
}


@dataclass(frozen=True)
class PaperRow:
    """One row of a table of the paper.

    A setting that this package has, too, is named by ``guidance``, anything else by ``method``.
    What the paper does not say is None, or missing.
    """

    table: str  #: its label in the paper's TeX
    dataset: str
    do: str  #: targets, joined by "+"
    guidance: str | None = None  #: the text form; "none" is the paper's ω = 1
    method: str | None = None
    auroc: Mapping[str, float] = field(default_factory=dict[str, float])  #: × 100
    delta: Mapping[str, float] = field(default_factory=dict[str, float])  #: against ω = 1
    off_target: float | None = None  #: Δ of attributes that are not named
    mae: float | None = None  #: of the way back, in units of [-1, 1]
    lpips: float | None = None  #: of the way back
    fid: float | None = None
    parameters: int | None = None
    seconds: float | None = None  #: for one counterfactual
    note: str | None = None  #: what is wrong with it


def paper_rows(dataset: str) -> tuple[PaperRow, ...]:
    """All rows on a data set, main tables first; none where the paper does not have it.

    >>> [row.fid for row in paper_rows("celeba-hq") if row.fid and row.do == "smiling"]
    [19.0, 18.3, 21.3, 19.6]
    """
    return tuple(row for row in _rows() if row.dataset == dataset)


def paper_tables() -> dict[str, str]:
    """For each table, by its label, what it shows."""
    return dict(_read()["tables"])


def match(dataset: str | None, do: str, guidance: str) -> PaperRow | None:
    """The row of the paper for a setting, or None.

    >>> match("celeba-hq", "smiling", "cfg:3").delta["young"]
    11.7

    Weights are compared as numbers, targets and groups in any order. Where several tables have
    the setting, the first one speaks, and its note says what the others have; the FID, which has
    a table of its own, is added.

    Args:
        dataset: As in :func:`paper_rows`; None has no rows.
        do: Targets, joined by "+".
        guidance: The text form of :class:`fcfg.Guidance`.
    """
    if dataset is None or setting(guidance).family not in FAMILIES:
        return None  # a rule that the paper does not have
    found = _by_setting().get((dataset, frozenset(do.split("+")), meaning(guidance)), ())
    if not found:
        return None
    fids = [row.fid for row in found if row.fid is not None]
    return replace(found[0], fid=fids[0] if fids else None)


def dataset_of(header: Mapping[str, Any]) -> str | None:
    """The data set of the paper that a run was made on.

    Args:
        header: Of a result file.
    """
    return _FORMATS.get(header["data"]["format"])


def meaning(text: str) -> Guidance:
    """A guidance, the same one for texts that mean the same.

    >>> meaning("fcfg:invariant=1,affected=3")
    fcfg:affected=3.0,invariant=1.0
    >>> meaning("cfg:1")
    none
    """
    guidance = Guidance.parse(text)
    if guidance.name == "cfg" and guidance.weights[0][1] == 1:
        return Guidance.none()
    return replace(guidance, weights=tuple(sorted(guidance.weights, key=lambda pair: pair[0])))


@cache
def _read() -> dict[str, Any]:
    return json.loads(Path(__file__).with_name("paper.json").read_text("utf-8"))


@cache
def _rows() -> tuple[PaperRow, ...]:
    return tuple(PaperRow(**row) for row in _read()["rows"])


@cache
def _by_setting() -> dict[tuple[str, frozenset[str], Guidance], tuple[PaperRow, ...]]:
    found: dict[tuple[str, frozenset[str], Guidance], tuple[PaperRow, ...]] = {}
    for row in _rows():
        if row.guidance is not None:
            key = (row.dataset, frozenset(row.do.split("+")), meaning(row.guidance))
            found[key] = (*found.get(key, ()), row)
    return found
