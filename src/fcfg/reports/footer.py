"""The end of the page: where everything on it comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping

from fcfg.evaluation.summary import Summary
from fcfg.reports.html import Markup, tag


def footer(summary: Summary) -> Markup:
    """Command, commit, environment, version, model and weights, as the header has them.

    Args:
        summary: Of a run.
    """
    header = summary.header
    model = header["model"]
    weights = [
        tag("div", f"{name}: {_told(about)}") for name, about in header["metrics"].items() if about
    ]
    items: dict[str, object] = {
        "command": tag("code", header["command"] or "not recorded"),
        "commit": header["commit"] or "unknown",
        "version": f"fcfg {header['version']}",
        "environment": _told(header["environment"]) or "unknown",
        "data": _told(header["data"]),
        "measured with": weights,
        "model": f"{model['name']}, digest {model['digest']}",
        "provenance": _provenance(model.get("provenance")),
    }
    pairs = [(tag("dt", key), tag("dd", value)) for key, value in items.items()]
    return tag("footer", tag("dl", *pairs))


def _told(about: Mapping[str, object]) -> str:
    """Facts in a line; what is missing says so itself."""
    if "missing" in about:
        return str(about["missing"])
    return ", ".join(f"{key} {value}" for key, value in about.items() if value is not None)


def _provenance(provenance: object) -> Markup:
    if not provenance:
        return tag("span", "not recorded")
    text = json.dumps(provenance, indent=1, ensure_ascii=False)
    return tag("details", tag("summary", "how the model was made"), tag("pre", text))
