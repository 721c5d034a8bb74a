"""What is in the wheel: the package with its data, and nothing else."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import fcfg

ROOT = Path(__file__).parents[1]
ROOMS = {
    *("bench", "calibration", "causal", "cli", "datasets", "diagnosis", "diffusion"),
    *("evaluation", "generation", "guidance", "metrics", "pipeline", "reports", "sampling"),
    *(
        "storage",
        "studio",
        "support",
        "training",
        "trust",
        "model",
        "rivals",
        "integrations",
        "answers",
    ),
}
MODULES = {
    *("__init__.py", "__main__.py", "judge.py", "sheet.py", "version.py"),
    "py.typed",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of all files of a wheel that is built here, without a network."""
    backend = pytest.importorskip("hatchling.build", reason="hatchling comes with the dev extra")
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        name = backend.build_wheel(str(folder))
    return set(zipfile.ZipFile(folder / name).namelist())


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel: set[str]) -> None:
    about = f"fcfg-{fcfg.__version__}.dist-info"
    files = [file for file in (ROOT / "src").rglob("*") if file.is_file()]
    ours = {str(f.relative_to(ROOT / "src")) for f in files if "__pycache__" not in f.parts}
    names = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    assert wheel == ours | {f"{about}/{name}" for name in names}


def test_the_wheel_has_these_rooms(wheel: set[str]) -> None:
    parts = [Path(name).parts for name in wheel if name.startswith("fcfg/")]
    assert {part[1] for part in parts if len(part) > 2} == ROOMS
    assert {part[1] for part in parts if len(part) == 2} == MODULES


def test_the_wheel_has_the_data_that_the_package_reads(wheel: set[str]) -> None:
    models = "fcfg/pipeline/models"
    for pattern, least in {
        f"{models}/*/config.json": 2,
        f"{models}/*/*.safetensors": 8,
        "fcfg/training/presets/*.yaml": 7,
        "fcfg/rivals/presets/*.yaml": 9,
        "fcfg/reports/paper.json": 1,
        "fcfg/reports/*.css": 1,
    }.items():
        assert len([name for name in wheel if Path(name).match(pattern)]) >= least, pattern


def test_nothing_that_users_do_not_run_is_in_the_wheel(wheel: set[str]) -> None:
    tops = {Path(name).parts[0] for name in wheel}
    assert tops == {"fcfg", f"fcfg-{fcfg.__version__}.dist-info"}
    assert not {"tests", "tools", "docs", "benchmarks"} & {p for n in wheel for p in Path(n).parts}
