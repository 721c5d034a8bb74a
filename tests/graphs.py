"""CUDA graphs without a GPU: what is computed is recorded, and computed again in the same memory.

As on a GPU, a replay knows no Python: it repeats the same operations on the same tensors, so that
a number that was looked at, or a tensor that was not copied in, shows.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import Any
from weakref import WeakSet

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

NUMBERS = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)


class Graph:
    """Stands for ``torch.cuda.CUDAGraph``."""

    def __init__(self) -> None:
        self.operations: list[tuple[Any, Any, Any, Any]] = []
        self.sharing: WeakSet[Graph] | None = None

    def pool(self) -> WeakSet[Graph]:
        """Who shares its memory."""
        assert self.sharing is not None
        return self.sharing

    def replay(self) -> None:
        for operation, arguments, options, results in self.operations:
            again = operation(*arguments, **options)
            for old, new in zip(tensors(results), tensors(again), strict=True):
                if old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class Recording(TorchDispatchMode):
    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # torch's signature
        if func in NUMBERS:
            raise RuntimeError("operation not permitted when stream is capturing")
        results = func(*args, **(kwargs or {}))
        self.graph.operations.append((func, args, kwargs or {}, results))
        return results


def tensors(results: Any) -> list[Tensor]:
    found = results if isinstance(results, tuple | list) else [results]
    return [tensor for tensor in found if isinstance(tensor, Tensor)]


class Stream:
    """Stands for a stream, and for an event of one: there is no other, and nothing to wait for."""

    def __init__(self, device: torch.device | None = None) -> None: ...

    def wait(self) -> None: ...

    def record(self) -> None: ...


@contextmanager
def capture(
    graph: Graph, pool: WeakSet[Graph] | None, stream: Stream, *, capture_error_mode: str
) -> Generator[None]:
    """Stands for ``torch.cuda.graph``; what was computed meanwhile is not to be relied on."""
    assert capture_error_mode == "thread_local"
    if pool is not None and not pool:
        raise RuntimeError("use_count > 0 INTERNAL ASSERT FAILED: a pool that nobody has")
    graph.sharing = WeakSet() if pool is None else pool
    graph.sharing.add(graph)
    with Recording(graph):
        yield
    for _, _, _, results in graph.operations:
        for tensor in tensors(results):
            if tensor.is_floating_point() and tensor._base is None:
                tensor.fill_(torch.nan)


def make_up_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"CUDAGraph": Graph, "graph": capture, "Stream": Stream, "Event": Stream}
    for name, made_up in (made | {"device": nullcontext}).items():
        monkeypatch.setattr(torch.cuda, name, made_up)
