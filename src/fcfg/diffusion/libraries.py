"""Networks of diffusers and MONAI by the names of their classes; nothing else is built by name."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from fcfg.support.errors import InputError, optional

_HOMES = {"diffusers": "diffusers", "monai": "monai.networks.nets"}  # modules, by library


def class_name(network: nn.Module) -> str:
    """Return library and class of a network, such as 'diffusers.UNet2DModel'."""
    library, kind = type(network).__module__.partition(".")[0], type(network).__name__
    return f"{library}.{kind}"


def checked_class(name: str) -> type[nn.Module]:
    """Return the class of a network by its name; refuse all that is of another place."""
    library, _, kind = name.partition(".")
    home = _HOMES.get(library)
    module = None if home is None else optional(home, f"network {name}", library)
    found = getattr(module, kind, None)
    if not (inspect.isclass(found) and issubclass(found, nn.Module)):
        expected, do = "a class of diffusers or MONAI", f"name a network of {' or '.join(_HOMES)}"
        raise InputError("network", expected=expected, got=name, do=do)
    return found


def build_network(name: str, config: Mapping[str, Any]) -> nn.Module:
    """Return a network without its weights, from what :func:`config_of` returned."""
    kind = checked_class(name)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="Initializing zero-element tensors")
            return kind(**config)
    except Exception as error:  # classes raise many kinds for arguments that do not fit
        raise InputError(
            f"network {name}",
            expected="arguments of its class",
            got=" ".join(str(error).split()),
            do="correct its configuration",
        ) from error


def read_network(
    name: str, config: Mapping[str, Any], source: str, revision: str | None, subfolder: str
) -> nn.Module:
    """Return a network with its weights, from a folder or the local cache of a hub.

    Nothing is downloaded. A folder of MONAI's has one file of safetensors, and the arguments of
    the class in a ``config.json``, or none where ``config`` says them.
    """
    kind: Any = checked_class(name)
    if name.startswith("monai."):
        return _read_folder(name, config, Path(source, subfolder))
    try:
        return kind.from_pretrained(
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


def _read_folder(name: str, config: Mapping[str, Any], folder: Path) -> nn.Module:
    """Return a network from a folder with ``config.json`` and a file of safetensors."""
    files, own = sorted(folder.glob("*.safetensors")), folder / "config.json"
    try:
        found = json.loads(own.read_bytes()) if own.is_file() else config
        network: Any = build_network(name, found)
        network.load_state_dict(load_file(files[0]) if len(files) == 1 else {})
    except (RuntimeError, ValueError, SafetensorError) as error:  # of torch, JSON, safetensors
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"network {name}",
            expected=f"config.json and one file of safetensors with its weights, in {folder}",
            got=f"{len(files)} such files" if len(files) != 1 else f"{files[0].name}: others",
            do="write them with safetensors.torch.save_file(network.state_dict(), ...)",
        ) from error
    network.config = dict(found)  # as networks of diffusers know theirs
    return network


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


def check_config(network: nn.Module, config: Mapping[str, Any]) -> None:
    """Refuse arguments that do not build a network with weights of the same shapes."""
    name = class_name(network)
    with torch.device("meta"):
        built = build_network(name, config)
    own, other = ({n: w.shape for n, w in m.state_dict().items()} for m in (network, built))
    if own != other:
        expected, do = "the arguments it was built from", "keep them: network = Kind(**config)"
        raise InputError(f"config of {name}", expected=expected, got="those of another", do=do)


def check_labels(network: nn.Module, labels: int) -> None:
    """Refuse labels of classes that a network has no row for, in any of its tables."""
    rows = [each.num_embeddings for each in network.modules() if isinstance(each, nn.Embedding)]
    if rows and labels > max(rows):
        raise InputError(
            f"network {class_name(network)}",
            expected=f"{labels} classes, the null class included, as the conditioner names them",
            got=f"a table of {max(rows)}",
            do="give Lookup.classes the null class and the first class that it was trained with",
        )


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def check_saved_whole(network: nn.Module) -> None:
    """Refuse adapters beside the weights: the class that a folder names has none."""
    if any(".base_layer." in name for name, _ in network.named_parameters()):
        raise InputError(
            f"network {class_name(network)}",
            expected="weights of its class alone, to be saved",
            got="a LoRA beside them",
            do="call pipeline.fuse_lora() and pipeline.unload_lora_weights(), then save",
        )
