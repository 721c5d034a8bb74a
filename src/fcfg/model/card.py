"""The card of a model on the hub: what it is, and what was measured of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fcfg.storage.hub import CARD, HubName
from fcfg.support.tables import read_columns

if TYPE_CHECKING:
    from fcfg.model.parts import AbstractModel

_COLUMNS = ("do", "guidance", "metric", "attribute", "value", "low", "high", "n")


def write_card(
    model: AbstractModel, name: HubName, results: Path | None, license: str | None
) -> str:
    """Return the card of a model: front matter that the hub reads, and a page.

    Args:
        model: The model. If its folder has a page, the card shows that.
        name: Its name on the hub.
        results: The file ``table.csv`` of a report about it.
        license: Identifier of its licence, such as 'mit'.
    """
    from huggingface_hub import EvalResult, ModelCardData

    data = model.provenance.get("training", {}).get("data", {}).get("format", "images")
    measured = [] if results is None else [*zip(*_measured(results).values(), strict=True)]
    found = [
        EvalResult(
            task_type="image-to-image",
            dataset_type=data,
            dataset_name=f"{data}, {do}",
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
        tags=["counterfactual", "causality", model.kind],
        eval_results=found or None,
    )
    own = None if model.folder is None else model.folder / CARD
    page = own.read_text("utf-8") if own is not None and own.exists() else _page(model, name)
    page = page.partition("\n---\n")[2].lstrip() if page.startswith("---\n") else page
    rows = [
        f"| {do} | {guidance} | {metric} {attribute} | {value} ({low} to {high}) | {n} |"
        for do, guidance, metric, attribute, value, low, high, n in measured
    ]
    head = ["", "## Measured", "", "| do | guidance | metric | value | images |", "|" + "---|" * 5]
    return "\n".join(["---", front.to_yaml(), "---", "", page, *(head if rows else []), *rows, ""])


def _measured(results: Path) -> dict[str, list[str]]:
    columns = read_columns(results, _COLUMNS)
    return {name: columns[name] for name in _COLUMNS}


def _page(model: AbstractModel, name: HubName) -> str:
    arrows = [f"{a} → {b}" for b, parents in model.graph.parents.items() for a in parents]
    size = "any size" if model.size is None else f"{model.size} pixels"
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
        f"| model | {model.kind}, {model.parameters:,} parameters, images of {size} |",
        f"| attributes | {', '.join(model.space.names)} |",
        f"| causes | {', '.join(arrows) or 'none: all attributes are roots'} |",
    ]
    return "\n".join(lines)
