"""Tables of FCFG, CFG and contrast with equal care, from docs/results/factorial-portraits.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fcfg.guidance import Guidance
from fcfg.reports.numbers import number
from fcfg.reports.tables import table_row
from reproduction_tables import RESULTS

_FILE = RESULTS / "factorial-portraits.json"
_ANCHORS = {
    "plain": "",
    "inferred": ", anchored to inferred noise",
    "drawn": ", anchored with drawn noise",
}
_HEADS = [
    *("do", "answer", "sampling", "asked attribute, judge A", "judge B", "others, judge B"),
    *("error", "error of the change", "return, same noise", "return, fresh noise"),
    "network evaluations",
]


def answers(do: str, kind: str = "calibrated", part: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the name and the estimates of every method under an intervention.

    Args:
        do: Attribute intervened on.
        kind: Weights: 'calibrated' or 'paper'.
        part: Training of the model, such as 'seed 1'; the shipped one by default.
    """
    found = json.loads(_FILE.read_text("utf-8"))
    for key, cell in (found[part] if part else found)["test"].items():
        method, own, name = key.split(" | ")
        if name == do and own == kind:
            yield _name(method, cell["guidance"]) + f", {kind}", cell


def front_rows(do: str) -> list[list[str]]:
    """Return calibrated FCFG, plain and anchored, as rows of the table of the front page.

    Args:
        do: Attribute intervened on.
    """
    return [
        [
            *(do, name, _shown(cell[f"shift A {do}"], 2, signed=True), _others(cell, do, "A")),
            *(_shown(cell["mae"], 4), _shown(cell["changed"], 2)),
            *(_shown(cell["reversal, same noise"], 3), f"{cell['rows']:.0f}"),
        ]
        for name, cell in answers(do)
        if name.startswith("FCFG") and "inferred" not in name
    ]


def section(part: str = "") -> str:
    """Return all calibrated methods, read by the judge that calibrated them and by another one.

    Args:
        part: Training of the model, such as 'seed 1'; the shipped one by default.
    """
    lines = [_HEADS, ["---"] * len(_HEADS)]
    for do in ("smiling", "male", "young"):
        for name, cell in answers(do, part=part):
            lines.append(
                [
                    *(do, name, cell["sampling"]),
                    *(_shown(cell[f"shift {judge} {do}"], 2, signed=True) for judge in "AB"),
                    _others(cell, do, "B"),
                    *(_shown(cell["mae"], 4), _shown(cell["changed"], 3)),
                    *(_shown(cell[f"reversal, {n} noise"], 4) for n in ("same", "fresh")),
                    f"{cell['rows']:.0f}",
                ]
            )
    about = json.loads(_FILE.read_text("utf-8"))["about"]
    environment = about["environment"]
    made = f"{about['images']:,} drawings, {environment['device']}, {environment['precision']}"
    return "\n".join([*map(table_row, lines), "", f"{made}, {about['commit'][:12]}."])


def _name(method: str, guidance: str) -> str:
    """Return the words for a method.

    >>> _name("FCFG drawn", "fcfg:affected=2.17,invariant=1.2;anchor=true;drawn_noise=true")
    'FCFG 2.17 / 1.2, anchored with drawn noise'
    """
    rule, anchor = method.split()
    weights = " / ".join(f"{weight:g}" for _, weight in Guidance.parse(guidance).weights)
    return f"{rule} {weights}{_ANCHORS[anchor]}"


def _others(cell: dict[str, Any], do: str, judge: str) -> str:
    """Return the largest shift of an attribute that should stay."""
    prefix = f"shift {judge} "
    found = [v for key, v in cell.items() if key.startswith(prefix) and key != prefix + do]
    return _shown(max(found, key=lambda estimate: abs(estimate[0])), 2, signed=True)


def _shown(estimate: list[float], digits: int, *, signed: bool = False) -> str:
    """Return value and half the width of the interval."""
    value, low, high = estimate
    return f"{number(value, digits, signed=signed)} ± {number((high - low) / 2, digits)}"
