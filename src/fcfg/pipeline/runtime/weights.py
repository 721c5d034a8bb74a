"""Whether the weights of a network are still those that were seen before."""

from __future__ import annotations

from torch import nn


class WeightWatch:
    """Notices weights that were written to, and others in their place.

    Args:
        network: Whose parts stay the same; their weights may change.
    """

    def __init__(self, network: nn.Module) -> None:
        # Looked for once: there are hundreds, and finding them takes as long as a small step.
        self._parts = [module._parameters for module in network.modules()]  # pyright: ignore[reportPrivateUsage] # no public name
        self._seen = self._now()

    def changed(self) -> bool:
        """Whether they did since the last question."""
        now = self._now()
        changed, self._seen = now != self._seen, now
        return changed

    def _now(self) -> list[tuple[int, int]]:
        """Where each lies, and how often it was written to, which torch counts."""
        found = (weight for part in self._parts for weight in part.values())
        return [(weight.data_ptr(), weight._version) for weight in found if weight is not None]
