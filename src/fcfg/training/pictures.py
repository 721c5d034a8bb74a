"""Counterfactuals of held-out images during training, so that one can watch it learn."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from fcfg.causal.attributes import AbstractAttribute, Column, Continuous
from fcfg.datasets.base import Examples
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.sheet import sheet

_IMAGES, _STEPS, _QUESTIONS, _SIDE = 6, 20, 3, 96


def counterfactual_sheet(pipeline: CounterfactualPipeline, examples: Examples) -> Image.Image:
    """Six images, what the model makes of them as they are, and under three interventions.

    Args:
        pipeline: As it is now.
        examples: Held out.
    """
    count = min(_IMAGES, len(examples))
    images = as_images(examples, count)
    table = {name: column[:count] for name, column in examples.attributes.items()}
    answerable = [a for a in pipeline.space if _answerable(pipeline, a.name)]
    abduction = pipeline.abduct(images, table, steps=_STEPS)
    rows: dict[str, Tensor] = {"factual": images}
    for attribute in answerable[:_QUESTIONS]:
        action = pipeline.act(table, {attribute.name: _other(attribute, table[attribute.name])})
        rows[f"do({attribute.name})"] = pipeline.predict(abduction, action).images
    return sheet(rows, scale=max(1, _SIDE // images.shape[-1]))


def as_images(examples: Examples, count: int) -> Tensor:
    """The first images, in [-1, 1]."""
    return torch.from_numpy(np.array(examples.images[:count])).float() / 127.5 - 1


def _answerable(pipeline: CounterfactualPipeline, name: str) -> bool:
    """Whether everything downstream of an attribute has a fitted mechanism."""
    downstream = pipeline.graph.affected({name}) - {name}
    return downstream <= set(pipeline.scm.fitted_parents)


def _other(attribute: AbstractAttribute, column: Column) -> Column:
    """Another value: the other class, the next level, the mirrored number."""
    if isinstance(attribute, Continuous):
        return attribute.low + attribute.high - column
    return (column + 1) % max(2, attribute.width)
