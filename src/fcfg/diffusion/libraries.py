"""Networks of diffusers and MONAI by the names of their classes; nothing else is built by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import nn

from fcfg.support.errors import InputError, listed

_HOMES = {"diffusers": "diffusers", "monai": "monai.networks.nets"}
_ADVICE = "name a network of diffusers or of monai.networks.nets"


def class_name(network: nn.Module) -> str:
    """Return library and class of a network, such as 'diffusers.UNet2DModel'."""
    library, kind = type(network).__module__.partition(".")[0], type(network).__name__
    return f"{library}.{kind}"


def checked_class(name: str) -> type[nn.Module]:
    """Return the class of a network by its name; refuse all that is of another place."""
    library, _, kind = name.partition(".")
    refusal = InputError("network", expected="a class of diffusers or MONAI", got=name, do=_ADVICE)
    if library not in _HOMES:
        raise refusal
    try:
        found = getattr(import_module(_HOMES[library]), kind, None)
    except ImportError as error:
        raise InputError(
            "network",
            expected=f"{library}, which has the class {kind}",
            got="a Python without it",
            do=f'pip install "fcfg[{library}]"',
        ) from error
    if not (inspect.isclass(found) and issubclass(found, nn.Module)):
        raise refusal
    return found


def build_network(name: str, config: Mapping[str, Any]) -> nn.Module:
    """Return a network without its weights, from what :func:`config_of` returned."""
    kind = checked_class(name)
    try:
        return kind(**config)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"network {name}",
            expected="arguments of its class",
            got=" ".join(str(error).split()),
            do="correct its configuration",
        ) from error


def read_network(name: str, source: str, revision: str | None, subfolder: str) -> nn.Module:
    """Return a network of diffusers with its weights, from a folder or the local cache of a hub.

    Nothing is downloaded.
    """
    read: Any = getattr(checked_class(name), "from_pretrained", None)
    if read is None:
        raise InputError(
            f"network {name}, source",
            expected="none, since weights of MONAI are stored with the model",
            got=source,
            do="build it, load its weights, and leave out source",
        )
    try:
        return read(
            source,
            revision=revision,
            subfolder=subfolder,
            local_files_only=True,
            use_safetensors=True,
        )
    except OSError as error:
        where = source if revision is None else f"{source} at {revision}"
        raise InputError(
            f"network {name}",
            expected=f"the weights of {where}, in a folder or in the local cache",
            got="none" if not Path(source).exists() else "a folder without them",
            do="download that revision once with `huggingface-cli download`",
        ) from error


def config_of(network: nn.Module, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the arguments that a network was built from.

    Those of diffusers know them; for other networks, they are given.
    """
    checked_class(class_name(network))
    if given is not None:
        return dict(given)
    config = getattr(network, "config", None)
    if config is None:
        raise InputError(
            f"network {type(network).__name__}",
            expected="config=, the arguments that it was built from",
            got="none",
            do="keep them in a mapping: network = Kind(**config)",
        )
    known = inspect.signature(type(network).__init__).parameters
    return {name: _plain(value) for name, value in config.items() if name in known}


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def missing_names(network: nn.Module, names: tuple[str, ...]) -> list[str]:
    """Return the arguments that a network does not take."""
    taken = inspect.signature(network.forward).parameters
    return [name for name in names if name.partition(".")[0] not in taken]


def arguments_of(network: nn.Module) -> str:
    """Return the arguments of a network, for messages."""
    return listed(list(inspect.signature(network.forward).parameters))
