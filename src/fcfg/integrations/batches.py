"""A what-if as a function of batches, for the ``map`` of data libraries and their engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from fcfg.causal.intervention import Intervention
from fcfg.model import AUTO, AnyModel, load
from fcfg.support.errors import InputError, check_among, quoted
from fcfg.support.images import to_pictures

__all__ = ["Ask"]


@dataclass(frozen=True)
class Ask:
    """What would the images of a batch look like had attributes been different?

    A batch is a mapping of columns, as Hugging Face's ``dataset.map(ask, batched=True)`` and Ray
    Data's ``dataset.map_batches(ask)`` give it. It comes back with a column ``counterfactual`` of
    8-bit arrays, and the attributes after the intervention as ``counterfactual_NAME``.

    Engines send the question to their workers, not the weights: each process reads the model
    once, when its first batch comes. An answer depends on the image and the seed, not on the
    worker. Other rows in its batch change it by rounding at most.

    Args:
        model: Folder or name of a model, as :func:`fcfg.load` reads it.
        do: The intervention, as in ``model.counterfactual``.
        image: Column of the pictures.
        device: Device of every process, such as 'cuda'.
        options: Further arguments of ``model.counterfactual``, such as ``sampling``.
    """

    model: str
    do: Mapping[str, Intervention]
    image: str = "image"
    device: str = "cpu"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __call__(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """Answer for the rows of a batch; attributes that it lacks are read by the judge."""
        columns = list(batch)
        check_among("column", self.image, columns)
        model = _model(self.model, self.device)
        names = model.space.names
        missing = [name for name in names if name not in columns]
        if missing and len(missing) < len(names):
            raise InputError(
                "batch",
                expected=f"columns {quoted(names)}, or none of them",
                got=f"none for {quoted(missing)}",
                do="add it, or leave all out for the judge to read",
            )
        attributes = AUTO if missing else {name: batch[name] for name in names}
        answer = model.counterfactual(
            list(batch[self.image]),
            attributes,
            self.do,
            progress=False,
            resize=True,
            **self.options,
        )
        found = answer.action.attributes
        return {
            **{name: batch[name] for name in columns},
            "counterfactual": [np.asarray(picture) for picture in to_pictures(answer.images)],
            **{f"counterfactual_{name}": list(found[name]) for name in names},
        }


@lru_cache(maxsize=1)
def _model(name: str, device: str) -> AnyModel:
    return load(name).to(device).prepare()
