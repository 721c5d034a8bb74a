"""The tables of the page: what each setting did under an intervention, and what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fcfg.evaluation.result_files import BASELINE
from fcfg.evaluation.summary import Cell, Summary
from fcfg.metrics import MIN_IMAGES
from fcfg.reports.axes import mark
from fcfg.reports.html import Markup, tag
from fcfg.reports.metric_values import Entry, Key, effectiveness, entries
from fcfg.reports.numbers import drift_unit, interval, knows_truth, named, number
from fcfg.reports.rule_styles import Setting, setting
from fcfg.reports.texts import too_few

_DIGITS = {
    "auroc": 1,
    "error": 2,
    "delta": 1,
    "shift": 3,
    "factor_error": 2,
    "reversal_mae": 3,
    "reversal_lpips": 3,
    "truth_changed": 2,
    "truth_mae": 3,
    "fd_judge": 1,
    "fid": 1,
    "evaluations": 0,
}
_FIT = 3  # columns that a phone shows whole
_EFFECTIVENESS = {"auroc": "AUROC", "error": "mean error"}
_WHOLE = (
    ("reversibility", ("reversal_mae", "MAE"), ("reversal_lpips", "LPIPS")),
    ("error to the truth", ("truth_changed", "changed pixels"), ("truth_mae", "MAE")),
    ("distance", ("fd_judge", "FD-judge"), ("fid", "FID")),
    ("cost", ("evaluations", "network rows")),
)


@dataclass(frozen=True)
class _Column:
    """One column: a metric of one attribute, or of whole images."""

    group: str
    heading: str
    metric: str
    attribute: str = ""
    role: str = ""  #: target, follows, or nothing
    unit: str = ""  #: of an attribute's numbers


def main_table(summary: Summary, do: str) -> Markup:
    """All numbers of one intervention; columns that would be empty are left out.

    Args:
        summary: Of a run.
        do: The intervention.
    """
    cells = [cell for cell in summary.cells.values() if cell.do == do]
    found = entries(summary)
    columns = [
        column
        for column in _columns(summary, cells[0])
        if any((do, cell.guidance, column.metric, column.attribute) in found for cell in cells)
    ]
    rows = [_row(found, cell, columns) for cell in cells]
    if any(column.metric in ("auroc", "error") for column in columns) and summary.real:
        rows.append(_real_row(summary, columns))
    caption = f"All settings under {named(do)}"
    return scrolling(
        caption,
        tag("table", tag("thead", *_heads(columns)), tag("tbody", *rows), class_="numbers"),
        1 + len(columns),
    )


def scrolling(label: str, content: Markup, columns: int) -> Markup:
    """A box that scrolls by itself where its content is wider than the page; a phone says so.

    Args:
        label: For who cannot see it.
        content: A table.
        columns: How many it has.
    """
    hint = f"{columns} columns: swipe sideways to see all →" if columns > _FIT else None
    return tag(
        "div",
        tag("p", hint, class_="swipe", aria_hidden="true") if hint else None,
        tag("div", content, class_="box", role="region", aria_label=label, tabindex=0),
    )


def _columns(summary: Summary, cell: Cell) -> Iterable[_Column]:
    names = summary.space.names
    for name in names:
        metric, role = effectiveness(summary, name), _role(cell, name)
        yield _Column("effectiveness", name, metric, name, role, _EFFECTIVENESS[metric])
    drift = "factor_error" if knows_truth(summary) else "shift"
    for name in names:
        unit, role = drift_unit(summary, name), _role(cell, name)
        yield _Column(drift.replace("_", " "), name, drift, name, role, unit)
    for group, *metrics in _WHOLE:
        for metric, heading in metrics:
            yield _Column(group, heading, metric)


def _role(cell: Cell, name: str) -> str:
    if name in cell.targets:
        return "target"
    return "follows" if name in cell.affected else ""


def _heads(columns: Sequence[_Column]) -> list[Markup]:
    groups: dict[str, int] = {}
    for column in columns:
        groups[column.group] = groups.get(column.group, 0) + 1
    above = [tag("th", "guidance", rowspan=2, scope="col", class_="name")]
    above += [
        tag("th", group, colspan=count, scope="colgroup", class_="group")
        for group, count in groups.items()
    ]
    below = [
        tag(
            "th",
            column.heading,
            tag("small", {"target": "◎ target", "follows": "follows"}[column.role])
            if column.role
            else None,
            tag("small", column.unit) if column.unit else None,
            scope="col",
            class_=_classes(columns, column),
        )
        for column in columns
    ]
    return [tag("tr", *above), tag("tr", *below)]


def _classes(columns: Sequence[_Column], column: _Column) -> str | None:
    """A hairline before each group, a ground under the target."""
    place = columns.index(column)
    is_first = place == 0 or columns[place - 1].group != column.group
    names = [*(["first"] if is_first else []), *(["target"] if column.role == "target" else [])]
    return " ".join(names) or None


def _row(found: dict[Key, Entry], cell: Cell, columns: Sequence[_Column]) -> Markup:
    boxes = [
        tag("td", *_numbers(found, cell, column), class_=_classes(columns, column))
        for column in columns
    ]
    return tag("tr", heading(setting(cell.guidance)), *boxes)


def _numbers(found: dict[Key, Entry], cell: Cell, column: _Column) -> list[object]:
    """A number, its interval in small print, its Δ, and what the paper has."""
    is_baseline = cell.guidance == BASELINE
    entry = found.get((cell.do, cell.guidance, column.metric, column.attribute))
    if entry is None or (is_baseline and column.metric == "shift"):
        return ["–"]
    signed = column.metric in ("factor_error", "shift")
    shown: list[object] = [_number(entry, signed=signed)]
    delta = found.get((cell.do, cell.guidance, "delta", column.attribute))
    if column.metric in ("auroc", "error") and delta is not None and not is_baseline:
        shown.append(tag("span", "Δ ", _number(delta, signed=True), class_="delta"))
    return shown


def _number(entry: Entry, *, signed: bool) -> Markup:
    digits = _DIGITS[entry.metric]
    value = number(entry.value, digits, signed=signed)
    shown, told = [], False
    if entry.low is not None and entry.high is not None:
        told = signed and (entry.low > 0 or entry.high < 0)
        shown.append(tag("small", interval(entry.low, entry.high, digits, signed=signed)))
    if entry.paper is not None:
        paper = f"paper {number(entry.paper, digits, signed=signed)}"
        shown.append(tag("small", paper, class_="paper", title=entry.note or None))
    return tag("span", tag("b" if told else "span", value), *shown)


def _real_row(summary: Summary, columns: Sequence[_Column]) -> Markup:
    boxes: list[Markup] = []
    for column in columns:
        text: list[object] = []
        if column.metric in ("auroc", "error") and column.attribute in summary.real:
            real, digits = summary.real[column.attribute], _DIGITS[column.metric]
            text = [
                number(real.value, digits),
                tag("small", interval(real.low, real.high, digits)),
            ]
        boxes.append(tag("td", *text, class_=_classes(columns, column)))
    return tag(
        "tr", tag("th", "factual images", scope="row", class_="name"), *boxes, class_="real"
    )


def heading(chosen: Setting) -> Markup:
    """The name of a setting at the head of a row, with its mark."""
    return tag("th", sign(chosen), _in_colour(chosen, chosen.label), scope="row", class_="name")


def sign(chosen: Setting) -> Markup:
    """The mark of a family, beside its name."""
    return tag("svg", mark(chosen, 8, 8), viewBox="0 0 16 16", class_="mark", aria_hidden="true")


def _in_colour(chosen: Setting, text: str) -> Markup:
    return tag("span", text, style=f"color:{chosen.colour}")


def family_key(summary: Summary) -> Markup:
    """The marks and colours of the families that were run.

    Args:
        summary: Of a run.
    """
    seen = {s.family: s for s in map(setting, summary.settings)}
    items = [tag("li", sign(s), _in_colour(s, s.family_name)) for s in seen.values()]
    return tag("ul", *items, class_="key", aria_label="Colours and marks")


def absent(summary: Summary) -> list[str]:
    """What is not in the tables, and why.

    Args:
        summary: Of a run.
    """
    header, notes = summary.header, list[str]()
    if summary.n < MIN_IMAGES:
        notes.append(f"{too_few(summary.n)}.")
    for name, title in (("lpips", "LPIPS"), ("inception", "FID")):
        about = header["metrics"].get(name) or {"missing": f"no {title}: it was not asked for"}
        if "missing" in about:
            how = about["missing"]
            notes.append(f"{how[:1].upper()}{how[1:].removesuffix('.')}.")
    if not header["reverse"]:
        notes.append("No reversibility: the way back was not asked for.")
    return notes


def cost_table(summary: Summary) -> Markup:
    """Network rows and seconds for one counterfactual, over all interventions.

    Args:
        summary: Of a run.
    """
    every = {
        text: [cell for cell in summary.cells.values() if cell.guidance == text]
        for text in summary.settings
    }
    plain = every.get(BASELINE)
    least = _mean([cell.evaluations for cell in plain]) if plain else None
    rows: list[Markup] = []
    for text, cells in every.items():
        evaluations = _mean([cell.evaluations for cell in cells])
        times = "–" if least is None else f"{evaluations / least:.1f} ×"
        seconds = _mean([cell.seconds for cell in cells])
        boxes = [tag("td", cell) for cell in (f"{evaluations:,.0f}", times, f"{seconds:.3g}")]
        rows.append(tag("tr", heading(setting(text)), *boxes))
    names = ("guidance", "network rows", "against unguided", "seconds")
    heads = [tag("th", n, scope="col", class_=None if k else "name") for k, n in enumerate(names)]
    table = tag(
        "table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="numbers narrow"
    )
    return scrolling("Cost of one counterfactual", table, len(names))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
