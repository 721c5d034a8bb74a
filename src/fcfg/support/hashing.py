"""Digests of data and of networks, and seeds derived from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

LARGEST_SEED = 2**63 - 1  # the largest that torch accepts


def hex_digest(data: bytes | str, size: int = 16) -> str:
    """Return a BLAKE2b digest of ``size`` bytes, in hexadecimal.

    >>> hex_digest("age", size=4)
    'e2f38a7a'
    """
    data = data.encode() if isinstance(data, str) else data
    return hashlib.blake2b(data, digest_size=size).hexdigest()


def digest_of_values(values: Mapping[str, Any]) -> str:
    """Return the digest that a JSON file has in its own 'digest', whatever its layout.

    The order of keys counts, such as that of attributes.
    """
    rest = {key: value for key, value in values.items() if key != "digest"}
    return hashlib.sha256(json.dumps(rest).encode()).hexdigest()[:12]


def digest_of(*modules: nn.Module, half: bool = False) -> str:
    """Return a short digest of the weights of networks, rounded to float16 first if ``half``."""
    total = hashlib.sha256()
    for module in modules:
        for name, tensor in module.state_dict().items():
            total.update(f"{name} {tuple(tensor.shape)} ".encode())
            numbers = tensor.detach().cpu()
            numbers = numbers.half() if half else numbers.double()
            total.update(numbers.contiguous().numpy().tobytes())
    return total.hexdigest()[:12]


def stream_seed(*parts: int | str) -> int:
    """Derive the seed of an independent random stream; it is the same on every machine."""
    data = "/".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little") >> 1
