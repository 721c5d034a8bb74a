"""The section of a diagnosis, from the file that ``fcfg diagnose`` wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fcfg.reports.numbers import interval, named

RESULTS = Path(__file__).parents[1] / "docs" / "results"


def section(name: str) -> str:
    """Return the gaps and the verdict of docs/results/diagnosis-NAME.json."""
    found = json.loads((RESULTS / f"diagnosis-{name}.json").read_text("utf-8"))
    gaps = {"one group per attribute": found["by_attribute"]}
    gaps |= {named(do): gap for do, gap in found["by_intervention"].items()}
    gaps |= {"suggested groups": found["suggested"]}
    gaps |= {" and ".join(name for (name,) in gap["groups"]): gap for gap in found["pairs"]}
    about = (
        f"`{found['command']}`: {found['images']} images with noise, seed {found['seed']}, 95 % "
        f"intervals over images, commit {found['commit'][:12]}."
    )
    rows = [f"| {title} | {percent(gap)} |" for title, gap in gaps.items()]
    verdict = [f"- {line}" for line in found["verdict"]]
    return "\n".join(["| groups | gap |", "|---|---|", *rows, "", *verdict, "", about])


def percent(gap: dict[str, Any]) -> str:
    """Return a gap over all times, with its interval."""
    value, low, high = (100 * gap["overall"][key] for key in ("value", "low", "high"))
    return f"{value:.0f} % {interval(low, high, 0)}"
