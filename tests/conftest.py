"""Shapes and types of the package are checked while it is tested, and only then."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

# Tensors of tests are too small for threads, which wait for each other on a busy machine; before
# torch is imported, and for the processes that tests start, too.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

install_import_hook("fcfg", "typecheck.checked")

# The same examples on every machine, and no limit that a busy one could miss.
settings.register_profile("fcfg", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("fcfg")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="where pipelines run: cpu or cuda")


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> str:
    import torch  # after the hook above

    torch.backends.cudnn.allow_tf32 = False  # laws in float32 need float32
    return request.config.getoption("--device")


@pytest.fixture(autouse=True)
def onednn() -> Iterator[None]:
    """Torch switches oneDNN off for good where a CPU has no bf16; other tests round with it."""
    import torch

    yield
    torch.backends.mkldnn.set_flags(True)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training run that nobody disturbed."""
    from fcfg.training import train  # after the hook above
    from runs import tiny

    return train(tiny(), tmp_path_factory.mktemp("runs") / "finished")


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without weights for metrics; the folder where torch's hub would have them."""
    monkeypatch.delenv("FCFG_WEIGHTS", raising=False)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    checkpoints = tmp_path / "torch" / "hub" / "checkpoints"
    checkpoints.mkdir(parents=True)
    return checkpoints
