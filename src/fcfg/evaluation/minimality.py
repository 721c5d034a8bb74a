"""Minimality of the counterfactuals of a run, over the judge's features."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from fcfg.causal.attributes import AttributeSpace, Continuous
from fcfg.evaluation.experiment import targets_of
from fcfg.evaluation.result_files import JSON, Result
from fcfg.metrics import fifths, minimality


def minimality_entry(
    result: Result,
    question: tuple[str, str],
    factual: Float[np.ndarray, "image feature"],
    counterfactual: Float[np.ndarray, "image feature"],
) -> JSON:
    """Return the line of a result file that holds the minimality of every image."""
    do, guidance = question
    images, space = (
        result.header["images"],
        AttributeSpace.from_config(result.header["attributes"]),
    )
    rows = {r["image"]: r for r in result.rows if (r["do"], r["guidance"]) == question}
    groups: list[Int[np.ndarray, "two image"]] = []  # of every target: own, and requested
    for name in targets_of(do):
        before = [result.real[image]["attributes"][name] for image in images]
        values = np.array([before, [rows[image]["target"][name] for image in images]])
        is_continuous = isinstance(space[name], Continuous)
        codes = (
            fifths(values, before) if is_continuous else np.unique(values, return_inverse=True)[1]
        )
        groups.append(codes.reshape(values.shape))
    own, wanted = np.stack(groups, axis=2)
    found = minimality(factual, counterfactual, own, wanted)
    return {
        "kind": "minimality",
        "do": do,
        "guidance": guidance,
        "values": [None if np.isnan(value) else float(value) for value in found],
    }
