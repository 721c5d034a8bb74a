r"""Factored guidance for the modular pipelines of diffusers; needs the extra ``diffusers``.

.. math:: \hat\epsilon = \epsilon_\varnothing + \sum_g w_g (\epsilon_g - \epsilon_\varnothing)

A stock block hands one condition and its negative to its guider. The negative is the null
condition here, and each group brings a condition of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar, Self

import torch
from diffusers.configuration_utils import register_to_config
from diffusers.guiders.guider_utils import BaseGuidance, GuiderOutput, rescale_noise_cfg
from diffusers.modular_pipelines.modular_pipeline import BlockState
from torch import Tensor

from fcfg.support.errors import InputError, check_is, quoted

__all__ = ["FactoredGuidance"]

_CONDITION, _NULL = 0, 1  # places in the pairs of a block
_AS_IS, _NULL_PASS = "pred_cond", "pred_uncond"  # names of passes, as in ClassifierFreeGuidance


class FactoredGuidance(BaseGuidance):
    """Gives each group of conditions its own weight; one group is classifier-free guidance.

    .. code-block:: python

        guider = FactoredGuidance({"smiling": 3.0, "beard": -1.0})
        guider.bind(encoder_hidden_states={"smiling": smiling, "beard": beard})
        pipeline.update_components(guider=guider)

    A weight is negative for what should not be seen. A group of weight 0 costs no pass, and a
    single group of weight 1 no null pass. Outside of ``start`` and ``stop``, the prediction is
    that of the block's own condition.

    Args:
        weights: Weight of each group.
        guidance_rescale: Share of the rescaling against overexposure, for a single group.
        start: Share of the steps before the first that is guided.
        stop: Share of the steps after the last that is guided.
        enabled: Whether to guide at all.
    """

    _input_predictions: ClassVar = [_AS_IS, _NULL_PASS]

    @register_to_config
    def __init__(
        self,
        weights: dict[str, float],
        guidance_rescale: float = 0.0,
        start: float = 0.0,
        stop: float = 1.0,
        enabled: bool = True,
    ) -> None:
        super().__init__(start, stop, enabled)
        check_is("weights", weights, dict, "a number for every group")
        for weight in weights.values():
            check_is("weights", weight, Real, "a number for every group")
        reserved = {_AS_IS, _NULL_PASS} & set(weights)
        if not weights or reserved or not all(map(math.isfinite, weights.values())):
            raise InputError(
                "weights",
                expected="a finite number for every group, and a group at least",
                got=f"the reserved names {quoted(reserved)}" if reserved else weights,
                do="write {'affected': 3.0, 'invariant': 1.2}",
            )
        self._groups = tuple(weights)
        # In the order of a saved file, so that the sum of a loaded guider is rounded alike.
        self.weights = {name: weight for name, weight in sorted(weights.items()) if weight}
        if guidance_rescale and len(self.weights) != 1:
            raise InputError(
                "guidance_rescale",
                expected="0 with several groups, which have no common condition to rescale to",
                got=guidance_rescale,
                do="leave it out",
            )
        self.guidance_rescale = guidance_rescale
        self._bound: dict[str, Mapping[str, Any]] = {}

    def bind(self, **fields: Mapping[str, Any]) -> Self:
        """Give the conditions of the groups, by the names that the block gives its inputs.

        Args:
            **fields: For each input of the network that differs between condition and null, such
                as ``encoder_hidden_states``, its value for every group.
        """
        for field, values in fields.items():
            if set(values) != set(self._groups):
                raise InputError(
                    f"bind, {field}",
                    expected=f"a condition for each group: {quoted(self._groups)}",
                    got=quoted(values),
                    do="name the groups as in weights",
                )
        self._bound = dict(fields)
        return self

    @property
    def num_conditions(self) -> int:
        """Number of passes of the network in a step."""
        return len(self._passes)

    @property
    def is_conditional(self) -> bool:
        """Whether the pass that was prepared last has a condition."""
        return self._passes[max(self._count_prepared, 1) - 1] != _NULL_PASS

    def prepare_inputs(  # pyright: ignore[reportIncompatibleMethodOverride]  # so do stock guiders
        self, data: dict[str, Any]
    ) -> list[BlockState]:
        """Return the inputs of every pass, of which a pair is that of condition and null."""
        if self._passes != [_AS_IS]:
            self._check(data)
        batches: list[BlockState] = []
        for name in self._passes:
            place = _NULL if name == _NULL_PASS else _CONDITION
            batch = self._prepare_batch(data, place, name)
            for field, values in self._bound.items() if name in self.weights else ():
                setattr(batch, field, values[name])
            batches.append(batch)
        return batches

    def prepare_inputs_from_block_state(
        self, data: BlockState, input_fields: dict[str, str | tuple[str, str]]
    ) -> list[BlockState]:
        """Return the inputs of every pass, where a block says in which fields they stand."""
        inputs: dict[str, Any] = {}
        for name, fields in input_fields.items():
            pair = fields if isinstance(fields, tuple) else (fields, fields)
            if hasattr(data, pair[_CONDITION]):
                inputs[name] = tuple(getattr(data, each, None) for each in pair)
        return self.prepare_inputs(inputs)

    def forward(self, **predictions: Tensor) -> GuiderOutput:
        """Combine the predictions of every pass of a step."""
        null = predictions.get(_NULL_PASS)
        groups = [pred for name, pred in predictions.items() if name != _NULL_PASS]
        condition = groups[0] if len(groups) == 1 else None
        if null is None:  # no guidance, or a single group of weight 1
            pred = groups[0]
        else:
            pred = null
            for name, weight in self.weights.items():
                pred = pred + weight * (predictions[name] - null)
        if self.guidance_rescale and condition is not None:
            pred = rescale_noise_cfg(pred, condition, self.guidance_rescale)
        return GuiderOutput(pred=pred, pred_cond=condition, pred_uncond=null)

    @property
    def _passes(self) -> list[str]:
        """Names of the passes of this step, in their order."""
        guided = self._enabled
        if vars(self)["_step"] is not None:  # None before the first step
            steps = self._num_inference_steps
            guided &= int(self._start * steps) <= self._step < int(self._stop * steps)
        if not guided:
            return [_AS_IS]
        alone = len(self.weights) == 1 and math.isclose(next(iter(self.weights.values())), 1.0)
        return [*self.weights] if alone else [*self.weights, _NULL_PASS]

    def _check(self, data: Mapping[str, Any]) -> None:
        """Refuse names that the block does not have, and groups that would not differ."""
        unknown = sorted(set(self._bound) - set(data))
        if unknown:
            raise InputError(
                "bind",
                expected=f"inputs of this block, which are {quoted(data)}",
                got=quoted(unknown),
                do="see the block's guider_inputs, or its guider_input_fields",
            )
        differing = [name for name, value in data.items() if _differ(value)]
        unbound = [name for name in differing if name not in self._bound]
        if len(self._groups) > 1 and (unbound or not self._bound):
            raise InputError(
                "bind",
                expected="conditions of every group, for all inputs that differ from the null",
                got=f"none for {quoted(unbound)}" if unbound else "none",
                do="call guider.bind(...); bound conditions are not saved with a guider",
            )
        used = [*self._bound] or differing
        given = {name: data[name] for name in used if isinstance(data[name], tuple)}
        lacking = [name for name in used if name not in given or given[name][_NULL] is None]
        if _NULL_PASS in self._passes and (lacking or not differing):
            raise InputError(
                "null condition",
                expected="a pair of condition and null from the block",
                got=f"none for {quoted(lacking)}" if lacking else "two that are the same",
                do="give the pipeline its negative embeddings",
            )


def _differ(value: Any) -> bool:
    """Return whether an input is a pair of two different values."""
    if not isinstance(value, tuple):
        return False
    condition, null = value
    both = isinstance(condition, Tensor) and isinstance(null, Tensor)
    return condition is not null and not (both and torch.equal(condition, null))
