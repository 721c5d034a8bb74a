"""What a stranger meets first: imports, the README, the project's own files."""

from __future__ import annotations

import ast
import contextlib
import json
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path

import pytest
import yaml

import check_house
import fcfg
from fcfg.cli import main
from fcfg.diffusion import schedule
from fcfg.training.diffusion import Schedule

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def imported_by(statement: str) -> set[str]:
    """Top-level packages in a fresh interpreter after a statement."""
    code = f"import sys; {statement}; print(*{{name.split('.')[0] for name in sys.modules}})"
    words = [sys.executable, "-c", code]
    return set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())


TYPED = {"torch", "pydantic", "zuko", "safetensors", "PIL", "jaxtyping"}
CAUSAL = (
    "import fcfg; g = fcfg.CausalGraph({'a': [], 'b': ['a']}); g.affected({'a'});"
    "fcfg.Partition.by_intervention(g, {'a'}); fcfg.AttributeSpace([fcfg.Binary('a')])"
)


def test_nothing_heavy_is_imported_before_it_is_used_nor_for_a_mistake() -> None:
    """A causal question needs no torch, and zuko only who builds a flow."""
    assert not imported_by("import fcfg") & (TYPED | {"numpy", "networkx"})
    assert not imported_by(CAUSAL) & TYPED
    every = "import fcfg; [getattr(fcfg, name) for name in fcfg.__all__]"
    assert "zuko" not in imported_by(every)
    wrong = ("nonsense=3", "model.network.base=0", "data.size=big", "model.stepps=3", "x")
    words = [["train", "portraits", "--set", each] for each in wrong]
    code = f"from fcfg.cli import main; assert [main(each) for each in {words}] == [2] * 5"
    loaded = imported_by(code)
    assert "pydantic" in loaded
    assert not loaded & {"torch", "zuko", "accelerate"}
    fields = Schedule.model_fields  # whose words are those of the diffusion, without importing it
    assert fields["kind"].annotation == schedule.Kind
    assert fields["parameterisation"].annotation == schedule.Parameterisation


def test_public_names_are_those_declared_and_come_from_their_home() -> None:
    source = Path(fcfg.__file__).read_text("utf-8")
    assert re.findall(r"^    from .* as (\w+)$", source, re.MULTILINE) == [*fcfg._HOME]
    assert set(dir(fcfg)) >= {*fcfg.__all__, *fcfg._ROOMS}
    for name, home in fcfg._HOME.items():
        assert getattr(fcfg, name) is getattr(import_module(f"fcfg.{home}"), name)
        assert getattr(fcfg, name).__doc__
    for name in fcfg._ROOMS:
        assert fcfg.__getattr__(name) is import_module(f"fcfg.{name}")
    with pytest.raises(AttributeError, match="no attribute 'smile'"):
        _ = fcfg.smile


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


#: Runs the code of every file in a folder of its own, in a fork of one process that knows torch,
#: its part that optimisers import, and what the pages import of other libraries.
READER = """
import ast, os, sys, fcfg.pipeline.counterfactual, torch._dynamo
texts = {folder: open(f"{folder}/page.py", encoding="utf-8").read() for folder in sys.argv[1:]}
for node in ast.walk(ast.parse("\\n".join(texts.values()))):
    if isinstance(node, ast.Import | ast.ImportFrom) and "fcfg" not in ast.unparse(node):
        exec(ast.unparse(node))
for folder, text in texts.items():
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0, folder
        continue
    os.chdir(folder)
    os.dup2(os.open("out.txt", os.O_WRONLY | os.O_CREAT), 1)
    exec(text, {"__name__": "__main__"})
    sys.stdout.flush()
    os._exit(0)
"""


def statements(page: str) -> list[str]:
    """The code of a page, without its comments."""
    return [ast.unparse(node) for node in ast.parse("\n".join(blocks(page, "python"))).body]


#: The README begins with the code of the front page.
ELSEWHERE = {"docs/index.md"}
PAGES = sorted(
    str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
)


@pytest.mark.parametrize("half", [0, 1])
def test_the_code_of_every_page_runs_and_prints_what_it_says(half: int, tmp_path: Path) -> None:
    """In processes of their own: a reader has no type checker at run time."""
    pages = [page for page in PAGES if blocks(page, "python") and page not in ELSEWHERE][half::2]
    folders = {page: tmp_path / Path(page).stem for page in pages}
    for page, folder in folders.items():
        folder.mkdir()
        (folder / "page.py").write_text("\n".join(blocks(page, "python")))
    words = [sys.executable, "-W", "error", "-c", READER, *map(str, folders.values())]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    out = {page: (folder / "out.txt").read_text() for page, folder in folders.items()}
    for page in {"docs/tour.md", "docs/metrics.md"} & set(pages):
        assert out[page] == blocks(page, "text")[0]
    if "docs/howto.md" in pages:
        assert "['black', 'black', 'black', 'black']" in out["docs/howto.md"]
        assert "100%" in out["docs/howto.md"]
        assert len(list(folders["docs/howto.md"].glob("*.png"))) == 3


def test_the_readme_is_short_and_opens_with_a_picture_and_the_code_of_the_front_page() -> None:
    front = statements("docs/index.md")
    assert front
    assert statements("README.md")[: len(front)] == front
    page = (ROOT / "README.md").read_text()
    assert list(check_house.long_readme(ROOT)) == []
    picture = re.search(r"!\[[^]]+\]\(([^)]+)\)", page)
    assert re.match(r"# Tour\n\n!\[", (ROOT / "docs/tour.md").read_text())
    assert picture
    assert page.index(picture[0]) < page.index("\n## ")
    assert (ROOT / picture[1]).stat().st_size < 300_000


def test_the_first_screens_say_what_the_default_is_and_explain_their_words() -> None:
    for page in ("README.md", "docs/index.md"):
        screen = (ROOT / page).read_text().partition("\n## ")[0]
        for word in ("The default is another", "FlowEdit", "not calibrated"):
            assert word in screen, (page, word)
    related = (ROOT / "docs/related.md").read_text()
    for name in ("FlowEdit", "edit-friendly", "LEDITS++", "SDEdit", "ReNoise", "null-text"):
        assert f"[{name}" in related
    assert "Guidance.fcfg(" in " ".join(statements("README.md"))
    results = (ROOT / "README.md").read_text().partition("\n## Results")[2].partition("\n## ")[0]
    table, below = results.split("<!-- end -->")
    heads = re.findall(r"[\w ]+", table[table.index("| do |") :].splitlines()[0])
    terms = " ".join(re.findall(r"\*\*(.+?)\*\*", below)).lower()
    known = {"do", "answer"}
    for head in filter(None, map(str.strip, heads)):
        assert head in known or head.removeprefix("error ") in terms, head
    assert not re.search("network rows|reversal|anchored contrast", table)


def test_the_docs_name_every_page_room_and_file() -> None:
    index = (ROOT / "docs/index.md").read_text()
    linked = sorted(re.findall(r"\]\(([\w-]+)\.md\)", index))
    assert linked == sorted(p.stem for p in ROOT.glob("docs/*.md") if p.stem != "index")
    toctrees = re.findall(r"```{toctree}\n(.*?)```", index, re.DOTALL)
    assert all(":hidden:" in tree for tree in toctrees)
    listed = [line for tree in toctrees for line in tree.splitlines() if re.match(r"\w", line)]
    assert sorted(re.findall(r"[\w-]+", line)[-1] for line in listed) == linked
    assert "\nchoosing\n" in next(tree for tree in toctrees if ":caption: Start" in tree)
    assert len(re.findall(r"!\[[^]]+\]\(", index)) >= 5
    for page in PAGES:
        for name in re.findall(r"`((?:[\w-]+/)+[\w-]+\.py)", (ROOT / page).read_text()):
            assert (ROOT / name).exists() or (ROOT / "src/fcfg" / name).exists(), (page, name)
    text, source = (ROOT / "docs/tour.md").read_text(), ROOT / "src/fcfg"
    for path in source.rglob("*.py"):
        room, *rest = path.relative_to(source).parts
        name = "/".join((room, *rest))
        if room.startswith("__") or rest == ["__init__.py"] or room == "version.py":
            continue
        is_method = room in ("causal", "diffusion", "guidance") and "networks" not in rest
        assert (f"`{name}`" if is_method or not rest else f"`{room}/") in text, name
    listed = re.findall(r"^   (fcfg\S*)$", (ROOT / "docs/api.md").read_text(), re.MULTILINE)
    rooms = [name for name in fcfg._ROOMS if hasattr(import_module(f"fcfg.{name}"), "__all__")]
    assert {"fcfg", *(f"fcfg.{name}" for name in rooms)} <= {*listed, "fcfg.datasets"}


def commands(page: str) -> list[str]:
    """Return the commands of a page that use the folders of shapes, in order."""
    lines = "".join(blocks(page, "sh")).splitlines()
    return [line for line in lines if "shapes" in line or " new " in line]


#: What makes the commands short enough for a test; nothing else is changed.
SHORTER = {
    "data example shapes": "--count 60",
    "train": "--set model.network.base=8 --set model.network.blocks=1 --set judge.width=4 "
    "--set run.sheets=0 --set model.steps=4 --set judge.steps=4 --set scm.steps=20",
    "generate": "--sampling 2 --device cpu",
    "evaluate runs": "--images 4 --sampling 2 --device cpu",
}


def test_the_way_from_a_folder_to_a_report_can_be_gone(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    told = commands("docs/own-data.md")
    assert set(commands("README.md")) <= set(told)
    for command in told:
        more = next((extra for start, extra in SHORTER.items() if f"fcfg {start}" in command), "")
        assert main(shlex.split(f"{command} {more}")[1:]) == 0, command
    said = capsys.readouterr().out
    assert "do(radius)" in said
    assert len(list(Path("counterfactuals/shapes/radius=2.5").glob("*-counterfactual.png"))) == 6
    assert Path("runs/evaluate/shapes/core/report/report.html").exists()
    config = yaml.safe_load(Path("runs/shapes/training/config.yaml").read_text(encoding="utf-8"))
    assert config["graph"] == {"radius": [], "brightness": ["radius"], "square": []}


def test_workflows_and_forms_are_yaml_and_run_targets_that_make_knows() -> None:
    known = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    files = [*ROOT.glob(".github/**/*.yml"), ROOT / ".readthedocs.yaml"]
    files += [ROOT / ".pre-commit-config.yaml"]
    assert len(files) == 6
    for file in files:
        text = file.read_text("utf-8")
        assert yaml.safe_load(text)
        for words in re.findall(r"(?:run:|-) make ([a-z- ]+?)(?: [A-Z]|$)", text, re.MULTILINE):
            assert set(words.split()) <= {*known}, file


def test_the_readme_of_the_wheel_leads_to_the_repository(tmp_path: Path) -> None:
    backend = pytest.importorskip("hatchling.build", reason="hatchling comes with the dev extra")
    with contextlib.chdir(ROOT):
        about = tmp_path / backend.prepare_metadata_for_build_wheel(str(tmp_path)) / "METADATA"
    links = re.findall(r"\]\((\S+?)\)", about.read_text("utf-8"))
    assert len(links) > 20
    assert all(link.startswith(("https://", "#")) for link in links), links


def pins(file: str) -> dict[str, str]:
    lines = (ROOT / file).read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_every_dependency_has_a_reason_and_its_lower_bound_is_tested() -> None:
    documented = (ROOT / "docs" / "dependencies.md").read_text()
    lowest = pins("constraints-lowest.txt")
    newest = {name.lower().replace("_", "-") for name in pins("constraints.txt")}
    for requirement in PYPROJECT["project"]["dependencies"]:
        name, bound = requirement.split(">=")
        assert f"| {name} | {bound} |" in documented
        assert name.lower().replace("_", "-") in newest
        if name != "torch":  # tested where that release is, see docs/dependencies.md
            assert lowest[name].startswith(bound)


def test_only_development_installs_what_developers_need(tmp_path: Path) -> None:
    """The packages of every extra."""
    for target in ("demo", "studio", "setup", "test", "lint", "docs"):
        words = ["make", "--dry-run", target, f"VENV={tmp_path}", "TORCH_INDEX=https://a.b/cpu"]
        plan = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert f"torch=={pins('constraints.txt')['torch']} --index-url https://a.b/cpu\n" in plan
        extra = "app" if target in ("demo", "studio") else "dev"
        assert f"/constraints.txt -e ./models -e '.[{extra}]'\n" in plan
        assert plan.count(" -e '") == 1
    extras = PYPROJECT["project"]["optional-dependencies"]
    names = {each.partition(">=")[0] for requirements in extras.values() for each in requirements}
    assert names == {*extras["dev"], "fcfg-models"}  # which lies beside the package in a clone


def test_the_recipe_of_the_container_copies_what_it_installs_and_runs_a_command(capsys) -> None:
    lines = [line.partition(" ") for line in (ROOT / "Containerfile").read_text().splitlines()]
    copied = {word for name, _, rest in lines if name == "COPY" for word in rest.split()[:-1]}
    assert copied == {"pyproject.toml", "constraints.txt", "README.md", "LICENSE", "models", "src"}
    assert all((ROOT / name).exists() for name in copied)
    said = {name: json.loads(rest) for name, _, rest in lines if name in ("ENTRYPOINT", "CMD")}
    assert said["ENTRYPOINT"] == [*PYPROJECT["project"]["scripts"]]
    options = [word for word in said["CMD"] if word.startswith("--")]
    assert main([said["CMD"][0], "--help"]) == 0
    shown = capsys.readouterr().out
    assert [option for option in options if option not in shown] == []
    ports = {rest for name, _, rest in lines if name == "EXPOSE"}
    assert {said["CMD"][said["CMD"].index("--port") + 1]} == ports


@pytest.mark.parametrize(("name", "home"), [("fcfg", ROOT), ("fcfg_models", ROOT / "models")])
def test_a_wheel_has_every_file_of_its_package_and_nothing_else(
    name: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wheels that are built here, without a network."""
    backend = pytest.importorskip("hatchling.build", reason="hatchling comes with the dev extra")
    monkeypatch.chdir(home)
    wheel = zipfile.ZipFile(tmp_path / backend.build_wheel(str(tmp_path))).namelist()
    assert f"version: {fcfg.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    changes, version = (ROOT / "CHANGELOG.md").read_text(), re.escape(fcfg.__version__)
    assert "\n## [Unreleased]\n" in changes
    headed = re.search(rf"\n## \[{version}\] - \d{{4}}-\d\d-\d\d\n", changes) is not None
    assert headed == ("dev" not in version)  # a release has its changes under its version
    about = f"{name}-{fcfg.__version__}.dist-info"
    files = [file for file in (home / "src").rglob("*") if file.is_file()]
    ours = {str(f.relative_to(home / "src")) for f in files if "__pycache__" not in f.parts}
    names = ["METADATA", "WHEEL", "RECORD", "licenses/LICENSE"]
    names += ["entry_points.txt"] if name == "fcfg" else []
    assert set(wheel) == ours | {f"{about}/{each}" for each in names}
