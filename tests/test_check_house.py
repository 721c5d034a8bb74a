"""The rules of the house that are checked by ``make lint``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import check_house


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A small repository without problems, with the real settings."""
    (tmp_path / "src" / "fcfg").mkdir(parents=True)
    for name in ("tests", "studies", "docs"):
        (tmp_path / name).mkdir()
    named = "CHANGELOG.md", "CITATION.cff", "constraints.txt", "LICENSE", "src/fcfg/version.py"
    for name in named:
        (tmp_path / name).touch()
    shutil.copy(check_house.ROOT / "pyproject.toml", tmp_path)
    code = "```sh\n" + "word " * 900 + "\n```"
    (tmp_path / "README.md").write_text(f"{'word ' * 700}\n{code}\n")
    return tmp_path


def problems(house: Path, capsys: pytest.CaptureFixture[str], count: int) -> str:
    assert check_house.main(house) == (1 if count else 0)
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == f"{count} problems"
    return out


def test_a_tidy_house_has_no_problems_and_each_is_named(house: Path, capsys) -> None:
    (house / "src/fcfg/long.py").write_text("\n" * 400)
    (house / "docs/network.safetensors").write_bytes(bytes(500_001))
    assert problems(house, capsys, 0) == "0 problems\n"
    (house / "src/fcfg/long.py").write_text("\n" * 401)
    (house / "docs/rows.jsonl").write_bytes(bytes(500_001))
    with (house / "README.md").open("a") as file:  # words in code are not counted
        file.write("more\n")
    (house / "studies").rmdir()
    out = problems(house, capsys, 7)
    assert "src/fcfg/long.py: 401 lines, at most 400" in out
    assert "docs/rows.jsonl: 500,001 bytes, at most 500,000" in out
    assert "README.md: 701 words outside code, at most 700" in out
    assert "pyproject.toml: no studies" in out


@pytest.mark.parametrize("first", ["Of", "How", "Told", "True if"])
def test_an_argument_that_is_no_noun_phrase_is_named(house: Path, capsys, first: str) -> None:
    (house / "src/fcfg/poor.py").write_text(
        f'''class Thing:
    def put(self, x, y):
        """Put it.

        Where it goes: How is not of interest here.

        Args:
            x: A number: What follows a colon is free.
            y: {first} things, which take
                more than one line.

        Returns:
            where: What is no argument.
        """
'''
    )
    out = problems(house, capsys, 1)
    assert f"src/fcfg/poor.py:2: put, y: '{first} things, which take'; say what it is" in out


def test_every_path_in_the_settings_exists() -> None:
    assert list(check_house.missing_paths(check_house.ROOT)) == []


def test_a_method_says_what_it_does_or_inherits_it(house: Path, capsys) -> None:
    (house / "src/fcfg/poor.py").write_text(
        '''class Base:
    def told(self):
        """Tell."""

    def untold(self): return 1

    def stub(self): ...

class Own(Base[int]):
    def told(self): return 1

    def untold(self): return 2

class _Private:
    def untold(self): return 3
'''
    )
    out = problems(house, capsys, 2)
    assert "src/fcfg/poor.py:5: Base.untold: no docstring, and none of a base class" in out
    assert "src/fcfg/poor.py:12: Own.untold" in out
