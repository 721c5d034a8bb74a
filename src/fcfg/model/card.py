"""The card of a model on the hub: what it is, and what was measured of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fcfg.storage.hub import HubName
from fcfg.support.tables import read_columns

_COLUMNS = ("do", "guidance", "metric", "attribute", "value", "low", "high", "n")


@dataclass(frozen=True)
class Facts:
    """What the card of a model says of it."""

    kind: str
    parameters: int
    size: int | None  #: as in :class:`~fcfg.model.CounterfactualModel`
    data: str  #: format of its training data
    attributes: Sequence[str]
    arrows: Sequence[tuple[str, str]]  #: of the causal graph
    page: str | None  #: the page of its folder


def write_card(facts: Facts, name: HubName, results: Path | None, license: str | None) -> str:
    """Return the card of a model: front matter that the hub reads, and a page.

    The page is that of its folder, if it has one; results are a ``table.csv`` of a report.
    """
    from huggingface_hub import EvalResult, ModelCardData

    columns = {} if results is None else read_columns(results, _COLUMNS)
    measured = [*zip(*columns.values(), strict=True)]
    found = [
        EvalResult(
            task_type="image-to-image",
            dataset_type=facts.data,
            dataset_name=f"{facts.data}, {do}",
            metric_type=metric,
            metric_name=" ".join(filter(None, (metric, attribute, f"({guidance}, n = {n})"))),
            metric_value=float(value),
        )
        for do, guidance, metric, attribute, value, _, _, n in measured
    ]
    front = ModelCardData(
        model_name=name.repository.rpartition("/")[2],
        library_name="fcfg",
        pipeline_tag="image-to-image",
        license=license,
        tags=["counterfactual", "causality", facts.kind],
        eval_results=found or None,
    )
    page = _page(facts, name) if facts.page is None else facts.page
    page = page.partition("\n---\n")[2].lstrip() if page.startswith("---\n") else page
    rows = [
        f"| {do} | {guidance} | {metric} {attribute} | {value} ({low} to {high}) | {n} |"
        for do, guidance, metric, attribute, value, low, high, n in measured
    ]
    head = ["", "## Measured", "", "| do | guidance | metric | value | images |", "|" + "---|" * 5]
    return "\n".join(["---", front.to_yaml(), "---", "", page, *(head if rows else []), *rows, ""])


def _page(facts: Facts, name: HubName) -> str:
    arrows = [f"{cause} → {effect}" for cause, effect in facts.arrows]
    size = "any size" if facts.size is None else f"{facts.size} pixels"
    lines = [
        f"# {name.repository.rpartition('/')[2]}",
        "",
        "Counterfactual images: what would an image look like had an attribute been different?",
        "",
        "```python",
        f'import fcfg\n\nmodel = fcfg.load("{name}")',
        "```",
        "",
        "| | |",
        "|---|---|",
        f"| model | {facts.kind}, {facts.parameters:,} parameters, images of {size} |",
        f"| attributes | {', '.join(facts.attributes)} |",
        f"| causes | {', '.join(arrows) or 'none: all attributes are roots'} |",
    ]
    return "\n".join(lines)
