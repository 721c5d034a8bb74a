"""What can be chosen of how a network computes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from fcfg.support.errors import check_among, check_integer, check_is

PRECISIONS = ("auto", "float32", "tf32", "bf16")


@dataclass(frozen=True)
class Execution:
    """How a network computes. The sampler's state is float32 whatever is chosen.

    >>> Execution().on("cuda").precision, Execution().on("cpu").precision
    ('tf32', 'float32')
    """

    #: 'float32' is the network as it is; 'tf32' rounds the factors of its products, on a GPU;
    #: 'bf16' rounds its weights and all between them; 'auto' is tf32 on a GPU, float32 elsewhere.
    precision: str = "auto"
    compile: bool = False  #: with torch.compile: minutes at first, worth it on a GPU
    batch_size: int = 256  #: the most network rows of one compiled call
    cuda_graphs: bool = True  #: with few images, a GPU is told of a whole step at once

    def __post_init__(self) -> None:
        """Refuse what nobody knows."""
        check_among("precision", self.precision, PRECISIONS)
        for name in ("compile", "cuda_graphs"):
            check_is(name, getattr(self, name), bool, "True or False")
        check_integer("batch_size", self.batch_size, 1, 10**9, do="256 is the default")

    def on(self, device: torch.device | str) -> Execution:
        """The same with the precision that it means on a device: only a GPU has TF32."""
        on_gpu = torch.device(device).type == "cuda"
        if self.precision in ("auto", "tf32"):
            return replace(self, precision="tf32" if on_gpu else "float32")
        return self
