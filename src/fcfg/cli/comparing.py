"""The methods of ``fcfg calibrate --methods``: what is asked, and how it is shown."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fcfg.support.errors import InputError

if TYPE_CHECKING:
    from fcfg.calibration import Tried
    from fcfg.pipeline.methods import Methods

TABLE = "methods.csv"  #: of everything that was measured
_HEADS = ("method", "variant", "sampling", "images", "attribute")
_NUMBERS = ("weight", "low", "high", "error", "distance")


def wanted_methods(text: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Return what is compared by the options of a command; set its default of the weights."""
    from fcfg.calibration.methods import WEIGHTS, candidates, parse_names

    if "guidance" in asked:
        expected, do = "none with --methods, which have their own", "leave one of the two out"
        raise InputError("--guidance", expected=expected, got=repr(asked["guidance"]), do=do)
    samplings = None if asked["sampling"] == "default" else [asked["sampling"]]
    names = parse_names(text)
    candidates(names, samplings)  # refuses what is unknown before a model is loaded
    asked.setdefault("weights", ",".join(map(str, WEIGHTS)))
    return {"methods": names, "samplings": samplings}


def to_csv(tried: Iterable[Tried]) -> bytes:
    """Return a table with a line for everything that was measured, and every attribute."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*_HEADS, *_NUMBERS))
    for each in tried:
        asked, own = each.candidate, each.method
        for name, found in own.weights.items():
            numbers = found.weight, found.low, found.high, own.errors[name], own.distances[name]
            names = asked.method, asked.variant, asked.sampling, each.images, name
            writer.writerow((*names, *(f"{number:.6g}" for number in numbers)))
    return text.getvalue().encode()


def print_methods(found: Methods) -> None:
    """Print a row for each method, the best first, and which weights are in doubt."""
    from fcfg.cli.tables import print_table
    from fcfg.reports.table import Column, Row, Table

    best = dict(sorted(found.methods.items(), key=lambda item: item[1].rank))
    names = list(found.methods[found.best].weights)
    titles = [f"{name}\n{what}" for name in names for what in ("weight", "error")]
    rows: list[Row] = []
    for name, own in best.items():
        pairs = ((f"{own.weights[n].weight:g}", f"{own.errors[n]:.3f}") for n in names)
        cells = (*(cell for pair in pairs for cell in pair), f"{own.rows:.4g}")
        rows.append(Row((name, own.variant, own.sampling), cells))
    columns = tuple(map(Column, (*titles, "network\nrows")))
    print_table(Table(_HEADS[:3], columns, tuple(rows)))
    words = {
        "change": "of the pixels that truly change, 0 for the truth and 1 for no change",
        "distance": "is the mean absolute distance from the image, at calibrated weights",
    }
    print(f"Error: {words[found.criterion]}.")
    for name, own in best.items():
        if own.at_end:
            which = ", ".join(f"do({attribute})" for attribute in own.at_end)
            print(f"{name}: the best weight of {which} may lie beyond the last one measured.")
