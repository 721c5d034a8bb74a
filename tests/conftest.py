"""Shapes and types of the package are checked while it is tested, and only then."""

from __future__ import annotations

import os
import runpy
import signal
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import compress
from operator import not_
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.testclient import TestClient

    from fcfg import CounterfactualPipeline

# Tensors of tests are too small for threads, which wait for each other on a busy machine; before
# torch is imported, and for the processes that tests start, too.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from filelock import FileLock
from hypothesis import settings

import typecheck
from exercised import Exercised

typecheck.install()

collect_ignore = ["bare"]  # which takes away what other platforms lack, from whoever imports it
#: Tests of rivals, which go with their room.
collect_ignore_glob = [f"{name}*" for name in ("test_alignment", "test_hvae", "test_semantic")]
collect_ignore_glob += ["*_rivals*"]
if find_spec("fcfg.rivals") is not None:
    collect_ignore_glob.clear()

Shared = Callable[[str, Callable[[Path], object]], Path]

# The same examples on every machine, and no limit that a busy one could miss.
settings.register_profile("fcfg", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("fcfg")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device", default="cpu", help="where to test laws of computing: cpu or cuda"
    )
    parser.addoption(
        "--bare", action="store_true", help="take away what platforms other than Linux lack"
    )
    parser.addoption(
        "--refusals", action="store_true", help="fail where no test makes a refusal; for all tests"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Say where, before torch is imported; what a machine has otherwise makes no difference.

    A background job of a script ignores Ctrl-C, and so do the processes that it starts. What tests
    send, to themselves or to others, must arrive.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--bare"):
        bare = Path(__file__).parent / "bare"
        runpy.run_path(str(bare / "sitecustomize.py"))
        further = os.environ.get("PYTHONPATH", "").split(os.pathsep)  # for processes of tests
        os.environ["PYTHONPATH"] = os.pathsep.join([str(bare), *filter(None, further)])
        config.addinivalue_line("filterwarnings", "ignore::EncodingWarning")
        config.addinivalue_line("filterwarnings", "error::EncodingWarning:fcfg")
    os.environ["FCFG_TEST_DEVICE"] = config.getoption("--device")
    if config.getoption("--device") == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    if config.getoption("--refusals"):
        config.pluginmanager.register(Exercised())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Elsewhere than on a CPU, only what is computed there is of interest."""
    if config.getoption("--device") != "cpu":
        there = [item.get_closest_marker("anywhere") is not None for item in items]
        config.hook.pytest_deselected(items=[*compress(items, map(not_, there))])
        items[:] = compress(items, there)


@pytest.fixture(autouse=True)
def no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of xdist have COLUMNS, so that tables would be cut in parallel runs only."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(autouse=True)
def switches() -> Iterator[None]:
    """Of the whole process: what one test left behind would round in another."""
    import torch  # after the hook above

    typecheck.begin()

    def exact() -> None:
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.mkldnn.set_flags(True)  # off for good where a CPU has no bf16

    exact()
    yield
    exact()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a command that ended ignores it


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """Makes a folder that tests read only: once, whichever worker asks first."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root

    def made(name: str, make: Callable[[Path], object]) -> Path:
        folder, done = root / f"shared-{name}", root / f"shared-{name}.done"
        with FileLock(root / f"shared-{name}.lock"):
            if not done.exists():
                make(folder)
                done.touch()
        return folder

    return made


@pytest.fixture(scope="session")
def finished(shared: Shared) -> Path:
    """A training run that nobody disturbed."""
    from fcfg.training import train  # after the hook above
    from runs import tiny

    return shared("finished", lambda folder: train(tiny(), folder))


@pytest.fixture(scope="session")
def tiny_folder(shared: Shared) -> Path:
    """The folder of a tiny model, named 'tiny'."""
    from fcfg import save  # after the hook above
    from tiny import tiny_pipeline

    return shared("models", lambda folder: save(tiny_pipeline(), folder / "tiny")) / "tiny"


@pytest.fixture(scope="session")
def listening_folder(shared: Shared) -> Path:
    """The folder of a tiny model, named 'tiny', that listens to its condition."""
    from fcfg import save  # after the hook above
    from visits import listening_model

    return shared("listening", lambda folder: save(listening_model(), folder / "tiny")) / "tiny"


@pytest.fixture
def no_compiler() -> Iterator[None]:
    """All of torch but its compiler, which is not ours."""
    from awake import without_the_compiler  # after the hook above

    with without_the_compiler():
        yield


@pytest.fixture(scope="session")
def client() -> Iterator[TestClient]:
    """A client of a studio of a tiny model."""
    from studios import client_of, studio_of  # after the hook above
    from tiny import tiny_pipeline

    with client_of(studio_of(tiny_pipeline())) as client:
        yield client


@pytest.fixture(scope="module")
def pipeline() -> CounterfactualPipeline:
    """A model over the mixture world, whose noise predictions are known."""
    from worlds import mixture_pipeline  # after the hook above

    return mixture_pipeline()


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without weights for metrics; the folder where torch's hub would have them."""
    monkeypatch.delenv("FCFG_WEIGHTS", raising=False)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    checkpoints = tmp_path / "torch" / "hub" / "checkpoints"
    checkpoints.mkdir(parents=True)
    return checkpoints
