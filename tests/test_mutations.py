"""The mutations of studies/mutations.yaml fit the source, and each was noticed by a law."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from mutations import HERE, LATE, RESULTS, ROOT, SURVIVED, TABLE, Mutation, mutations

ALL = list(mutations(yaml.safe_load(TABLE.read_text("utf-8"))))
PLANTED = list(mutations(yaml.safe_load((HERE / "planted.yaml").read_text("utf-8"))))
SOURCE = ROOT / "src/fcfg"


def test_every_mutation_breaks_the_source_and_every_room_has_one() -> None:
    for mutation in ALL + PLANTED:
        broken = mutation.of((SOURCE / mutation.file).read_text("utf-8"))
        if mutation.file.endswith(".py"):
            compile(broken, mutation.file, "exec")
        assert all((ROOT / "tests" / name).exists() for name in mutation.tests)
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and list(path.glob("*.py"))}
    assert rooms <= {Path(mutation.file).parts[0] for mutation in ALL}
    assert len(ALL) >= 60


def test_every_mutation_was_noticed() -> None:
    known = json.loads(RESULTS.read_text("utf-8"))["noticed"]
    answers = {(m.file, m.name): known.get(m.file, {}).get(m.name, LATE) for m in ALL}
    assert [mutation for mutation, by in answers.items() if by in (SURVIVED, LATE)] == []


@pytest.mark.parametrize("fragment", ["a", "nowhere", "x = 1"])
def test_a_fragment_that_stands_elsewhere_too_is_refused(fragment: str) -> None:
    """Moved sources must not be broken in the wrong place; nor is what is as it was a mutation."""
    with pytest.raises(SystemExit, match="the fragment"):
        Mutation("a name", "a.py", fragment, "x = 1", ()).of("x = 1; a = a")
