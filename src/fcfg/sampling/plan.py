"""The plan of a run: what is to be known of its steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fcfg.diffusion.prediction import Step
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.support.errors import InputError


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything a run needs to know about its steps: one table, as tensors on the device."""

    t: Int[Tensor, "steps"]
    s: Int[Tensor, "steps"]
    signal_t: Float[Tensor, "steps"]
    noise_t: Float[Tensor, "steps"]
    signal_s: Float[Tensor, "steps"]
    noise_s: Float[Tensor, "steps"]
    weights: Float[Tensor, "steps groups"]
    guided: tuple[bool, ...]
    at_image: tuple[bool, ...]  #: which steps begin or end at t = 0
    ascending: bool

    @classmethod
    def build(
        cls,
        schedule: NoiseSchedule,
        times: Sequence[int],
        *,
        weights: Float[Tensor, "steps groups"] | None = None,
        guided: Sequence[bool] | None = None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> Plan:
        """Look everything up in float64, once.

        Args:
            schedule: The noise levels.
            times: Strictly ascending or strictly descending, within 0..T.
            weights: Of the guidance; none by default.
            guided: Which steps are guided; none by default.
            device: Of the tensors.
            dtype: Of the sampler state.
        """
        pairs = list(pairwise(times))
        ascending = bool(pairs) and pairs[0][0] < pairs[0][1]
        ordered = all((t < s) == ascending and t != s for t, s in pairs)
        if not (pairs and ordered and min(times) >= 0 and max(times) <= schedule.steps):
            raise InputError(
                "times",
                expected=f"at least two, strictly ordered, within 0 to {schedule.steps}",
                got=list(times) if len(times) < 12 else f"{len(times)} times",
                do="use time_grid",
            )
        t, s = torch.tensor(pairs, device=device).unbind(dim=1)
        if weights is None:
            weights = torch.zeros(len(pairs), 0)
        return cls(
            t=t,
            s=s,
            signal_t=schedule.signal(t).to(dtype),
            noise_t=schedule.noise(t).to(dtype),
            signal_s=schedule.signal(s).to(dtype),
            noise_s=schedule.noise(s).to(dtype),
            weights=weights.to(device, dtype),
            guided=(False,) * len(pairs) if guided is None else tuple(guided),
            at_image=tuple(0 in pair for pair in pairs),
            ascending=ascending,
        )

    def __len__(self) -> int:
        return len(self.guided)

    def __iter__(self) -> Iterator[Step]:
        for i, guided in enumerate(self.guided):
            yield Step(
                t=self.t[i],
                s=self.s[i],
                signal_t=self.signal_t[i],
                noise_t=self.noise_t[i],
                signal_s=self.signal_s[i],
                noise_s=self.noise_s[i],
                weights=self.weights[i],
                guided=guided,
                ascending=self.ascending,
                first=i == 0,
                last=i == len(self) - 1,
                at_image=self.at_image[i],
            )
