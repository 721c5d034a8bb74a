"""Networks of diffusers and MONAI behind the call of ours: ``network(x, t, condition)``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fcfg.diffusion.conditioners import AbstractConditioner
from fcfg.diffusion.libraries import class_name, config_of
from fcfg.diffusion.visible import VisibleAttributes
from fcfg.support.errors import InputError, listed, quoted

_PACKED = 2  # side of the squares of latents that Flux takes as one token
_CALLED = 1000.0  # Flux is called with times from 0 to 1
_MISFITS = TypeError, ValueError, AttributeError, IndexError, RuntimeError


class ForeignNetwork(nn.Module):
    """A network of another library, and the conditioner that makes its arguments.

    Args:
        network: Network of diffusers or MONAI.
        conditioner: Turns attributes into its arguments.
        config: Arguments it was built from; networks of diffusers know them.
        source: Place of its weights, which are then not stored: 'source' and, if there are
            some, 'revision' and 'subfolder', as ``from_pretrained`` takes them.
    """

    def __init__(
        self,
        network: nn.Module,
        conditioner: AbstractConditioner,
        config: Mapping[str, Any] | None = None,
        source: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.network, self.conditioner = network, conditioner
        self.config, self.source = config_of(network, config), source
        known = {**getattr(network, "config", {}), **self.config}  # with defaults that it knows
        self.attributes = VisibleAttributes(conditioner.space, conditioner.separate)
        taken = list(inspect.signature(network.forward).parameters)
        self._image = taken[0]
        self._time = next((name for name in taken if name.startswith("timestep")), "")
        missing = [name for name in conditioner.names if name.partition(".")[0] not in taken]
        if missing or not self._time:
            raise InputError(
                f"network {class_name(network)}",
                expected=f"the arguments {quoted(missing or ['timestep'])}",
                got=listed(taken),
                do="give the conditioner the names that the network has",
            )
        if known.get("guidance_embeds"):
            raise InputError(
                f"network {class_name(network)}",
                expected="a model with a null condition",
                got="one whose guidance was distilled into it",
                do="use one that was not distilled",
            )
        self._is_packed = "img_ids" in taken
        self._fixed = {"return_dict": False} if "return_dict" in taken else {}
        widths = known.get("block_out_channels") or known.get("channels")
        halved = 2 ** (len(widths) - 1) if isinstance(widths, list | tuple) else 1
        side = _PACKED if self._is_packed else 1  # of squares of latents that are one token
        self.dimensions = int(known.get("spatial_dims", 2))  #: number of axes of an image
        self.channels = int(known["in_channels"]) // side**2  #: of an image, or of its latents
        #: Number that must divide the sides of an image, or of its latents.
        self.stride = halved * (side if self._is_packed else int(known.get("patch_size") or 1))
        size = known.get("sample_size")
        self.size = size if isinstance(size, int) else None  #: side in training, if it is known
        self.condition = self.attributes.condition_width  #: width of a condition

    @property
    def stored(self) -> dict[str, Any]:
        """What a folder says of the network, in JSON values."""
        own = {"name": class_name(self.network), "conditioner": self.conditioner.to_config()}
        return own | {"config": self.config, "source": self.source}

    def forward(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        """Evaluate at times ``t``, under conditions of :class:`VisibleAttributes`."""
        given = self.conditioner(self.attributes.values(c), self.attributes.visible(c))
        given = {n: v.to(x.dtype) if v.is_floating_point() else v for n, v in given.items()}
        arguments: dict[str, Any] = _nested(given) | self._fixed
        if self._is_packed:
            ids = _positions(x, arguments["encoder_hidden_states"].shape[1])
            output = self._called(_pack(x), t / _CALLED, arguments | ids)
            sides = tuple(side // _PACKED for side in x.shape[2:])
            squares = output.transpose(1, 2).unflatten(2, sides)
            return functional.pixel_shuffle(squares, _PACKED)
        output = self._called(x, t, arguments)
        return output[:, : x.shape[1]]  # without a learned variance

    def _called(self, x: Tensor, t: Tensor, arguments: Mapping[str, Any]) -> Tensor:
        call = partial(self.network, **{self._image: x, self._time: t}, **arguments)
        output = call() if torch.compiler.is_compiling() else self._explained(call)
        return output[0] if isinstance(output, tuple) else output

    def _explained(self, call: Callable[[], Any]) -> Any:
        """Return what a network returns; if it fails, say what it was given."""
        try:
            return call()
        except _MISFITS as error:
            if type(error) not in _MISFITS:  # as when memory runs out
                raise
            name, expected = class_name(self.network), "channels and a condition that fit it"
            got = f"{quoted(self.conditioner.names)} and its error: {error}"
            do = "compare widths, channels and numbers of classes with its configuration"
            raise InputError(f"network {name}", expected=expected, got=got, do=do) from error


def _nested(arguments: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return arguments with mappings in place of names with a dot."""
    nested: dict[str, Any] = {}
    for name, value in arguments.items():
        outer, _, inner = name.partition(".")
        if inner:
            nested.setdefault(outer, {})[inner] = value
        else:
            nested[outer] = value
    return nested


def _pack(x: Tensor) -> Tensor:
    """Return squares of latents as a sequence of tokens, as Flux takes them."""
    return functional.pixel_unshuffle(x, _PACKED).flatten(2).transpose(1, 2)


def _positions(x: Tensor, texts: int) -> dict[str, Tensor]:
    height, width = (side // _PACKED for side in x.shape[2:])
    ids = torch.zeros(height, width, 3, device=x.device, dtype=x.dtype)
    ids[..., 1] += torch.arange(height, device=x.device)[:, None]
    ids[..., 2] += torch.arange(width, device=x.device)
    return {"img_ids": ids.flatten(0, 1), "txt_ids": ids.new_zeros(texts, 3)}
