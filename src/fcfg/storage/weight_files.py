"""Files of weights in the folder of a model: named by their content, checked when read."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import torch
from safetensors import SafetensorError
from safetensors import torch as safetensors
from torch import Tensor, nn

from fcfg.support.errors import InputError
from fcfg.support.weights import check_finite

Storage: TypeAlias = Literal["float32", "float16"]
ADVICE = "check the path, or copy the folder again"
_HEADER = 4096  # bytes that a file of weights may have for each tensor, beside its numbers


def fill(module: nn.Module, folder: Path, files: Mapping[str, str], part: str) -> None:
    """Load the weights of one part, and check that they are the ones that were saved."""
    name = Path(files.get(part, "missing")).name
    tensors: Mapping[str, Tensor] = module.state_dict()
    most = _HEADER + sum(_HEADER + 8 * tensor.numel() for tensor in tensors.values())
    try:
        status = (folder / name).stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            kind = "a pipe or a device" if not stat.S_ISREG(status.st_mode) else "a larger file"
            raise refusal(folder, f"weights in {name} that fit its {part}", kind)
        data = (folder / name).read_bytes()
        if name != f"{part}-{digest(data)}.safetensors":
            raise refusal(folder, f"{name} as it was written", "other contents, or a part of it")
        tensors = safetensors.load(data)
        check_finite(f"checkpoint {folder}, {part}", tensors)
        if part != "scm":
            tensors = {key: _widened(tensor) for key, tensor in tensors.items()}
        meta = any(parameter.is_meta for parameter in module.parameters())
        module.load_state_dict(tensors, assign=meta)
    except OSError as error:
        raise refusal(folder, f"the file {name}", error.strerror) from error
    except (RuntimeError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:200]
        raise refusal(folder, f"weights in {name} that fit its {part}", reason) from error


def stored_tensors(module: nn.Module, storage: Storage) -> dict[str, Tensor]:
    """Return the weights of a module in the precision of the file."""
    target = getattr(torch, storage)
    stored: dict[str, Tensor] = {}
    for key, tensor in exact_tensors(module).items():
        if not tensor.is_floating_point():
            stored[key] = tensor
            continue
        stored[key] = tensor.to(target)
        lost = tensor.dtype == torch.float64 or not torch.isfinite(stored[key]).all()
        if lost:
            raise InputError(
                f"weights '{key}'",
                expected=f"finite numbers that fit into {storage}",
                got=f"{tensor.dtype} up to {tensor.abs().max().item():.3g}".replace("torch.", ""),
                do="convert the network to float32, or look for a training that diverged",
            )
    return stored


def exact_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return copies of the tensors of a module, tied weights included."""
    state: Mapping[str, Tensor] = module.state_dict()
    own = torch.contiguous_format
    return {key: tensor.detach().cpu().clone(memory_format=own) for key, tensor in state.items()}


def _widened(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


def digest(data: bytes) -> str:
    """Return the digest that names a file."""
    return hashlib.sha256(data).hexdigest()[:12]


def refusal(folder: Path, expected: str, got: object) -> InputError:
    """Return the refusal of a folder."""
    return InputError(f"checkpoint {folder}", expected=expected, got=got, do=ADVICE)
