"""The page of a diagnosis: the verdict, gaps over time, and matrices as coloured tables."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from markupsafe import Markup

from fcfg.diagnosis.diagnosis import Diagnosis, percent
from fcfg.diagnosis.pushes import Gap
from fcfg.reports.rule_styles import TINTS, variable
from fcfg.reports.svg import Scale
from fcfg.reports.template import rendered
from fcfg.reports.wording import named


def diagnosis_page(diagnosis: Diagnosis, model: str, about: Mapping[str, object]) -> str:
    """Return the whole page, which needs no other file."""
    return rendered(
        "diagnosis.html.jinja",
        "fcfg.diagnosis",
        diagnosis=diagnosis,
        model=model,
        about=about,
        charts={
            "Groups": _chart(diagnosis, groupings(diagnosis)),
            "Pairs of attributes": _chart(diagnosis, largest_pairs(diagnosis, len(TINTS))),
        },
        gaps=diagnosis.pairs | {(b, a): gap for (a, b), gap in diagnosis.pairs.items()},
        variables=list(dict.fromkeys(a for a, _ in diagnosis.associations)),
    )


def groupings(diagnosis: Diagnosis) -> dict[str, Gap]:
    """Return the gaps of whole groupings, by their names for readers."""
    gaps = {"one group per attribute": diagnosis.by_attribute}
    gaps |= {named(target): gap for target, gap in diagnosis.by_intervention.items()}
    if 1 < len(diagnosis.suggestion) < len(diagnosis.attributes):
        gaps["suggested groups"] = diagnosis.suggested
    return gaps


def largest_pairs(diagnosis: Diagnosis, count: int) -> dict[str, Gap]:
    """Return the pairs with the largest gaps, by their names for readers."""
    pairs = sorted(diagnosis.pairs.items(), key=lambda pair: -pair[1].overall.value)
    return {f"{a} and {b}": gap for (a, b), gap in pairs[:count]}


def _chart(diagnosis: Diagnosis, gaps: Mapping[str, Gap]) -> Markup:
    limit, weights = diagnosis.threshold, np.square(diagnosis.by_attribute.push)
    highest = max(0.05, 1.1 * limit, *(e.high for gap in gaps.values() for e in gap.over_time))
    return rendered(
        "chart.svg.jinja",
        "fcfg.diagnosis",
        gaps=gaps,
        times=diagnosis.times,
        limit=limit,
        weights=(weights / weights.max()).tolist(),
        across=Scale(-0.5, len(diagnosis.times) - 0.5, 48, 468),
        up=Scale(0.0, 1.1 * highest, 254, 14),
        tints=[variable(name) for name in TINTS],
        percent=percent,
    )
