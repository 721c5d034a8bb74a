"""Levels that are numbers: what the package made is read back as it was made, else no guess."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import fcfg
from evaluations import asked, evaluation
from face_folder import write_table
from fcfg import Categorical, CounterfactualPipeline
from fcfg.bench.workload import random_table
from fcfg.datasets.base import Examples
from fcfg.datasets.folder import FolderData
from fcfg.evaluation import choose_subset
from fcfg.evaluation.subset import draw_targets
from fcfg.generation import generate
from fcfg.training import TrainingConfig, train
from refusal import refused
from runs import TINY

DIGIT = Categorical("digit", ["1", "2", "3", "4"])
COUNT = 48


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures whose digits depend on whether they are bold."""
    folder, rng = tmp_path_factory.mktemp("digits"), np.random.default_rng(0)
    names = [f"{number:02}.png" for number in range(COUNT)]
    for name in names:
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(folder / name)
    bold, digit = [n % 2 for n in range(COUNT)], [1 + n // 2 % 4 for n in range(COUNT)]
    parts = ["test"] * 24 + ["train"] * 16 + ["val"] * 8
    write_table(folder, {"file_name": names, "bold": bold, "digit": digit, "part": parts})
    return folder


@pytest.fixture(scope="module")
def model(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> CounterfactualPipeline:
    """What training on them gives, a sheet of counterfactuals on its way included."""
    data = {"format": "folder", "path": str(folder), "size": 8, "split": "part"}
    kinds = {"bold": {"kind": "binary"}, "digit": DIGIT.to_config()}
    config = TINY | {"data": data, "attributes": kinds, "graph": {"bold": [], "digit": ["bold"]}}
    config |= {"model": {"batch": 8, "steps": 2, "network": {}}, "scm": {"steps": 2}}
    config |= {"judge": {"width": 4, "batch": 8, "steps": 2}, "run": {"sheets": 1}}
    out = tmp_path_factory.mktemp("run") / "digits"
    return fcfg.load(train(TrainingConfig.model_validate(config), out))


@pytest.fixture(scope="module")
def examples(model: CounterfactualPipeline, folder: Path) -> Examples:
    return FolderData(path=folder, size=8, split="part").load(model.space)["test"]


def test_levels_are_never_guessed_and_columns_stay_columns() -> None:
    for values in ([1, 2, 3], 3, [3.0], np.array([0, 1]), torch.tensor([1])):
        refused("attribute 'digit'", "strings among '1', '2', '3', '4'").by(DIGIT.parse, values)
    for levels in (["1", "0"], ["0", "2", "4"], ["0", "1.5"], ["low", "3"]):  # one is enough
        refused("attribute 'x'", "or its position").by(Categorical("x", levels).parse, [0])
    for levels in (["0", "1", "2"], ["dark", "fair", "grey"]):  # it cannot be another level
        attribute = Categorical("x", levels)
        assert attribute.labels(attribute.parse([2, 0])) == [levels[2], levels[0]]
    codes = DIGIT.parse(["4", "1", "3"])
    made = codes[1:], codes[[2, 0]], (codes + np.array([1, 1, 1])) % 4, np.repeat(codes, 2)
    for column, names in zip(made, ("13", "34", "124", "441133"), strict=True):
        assert DIGIT.labels(DIGIT.parse(column)) == list(names)
    assert DIGIT.labels(DIGIT.parse(codes.copy())) == list("413")
    for lost in (codes == 0, np.concatenate([codes, codes]), pickle.loads(pickle.dumps(codes))):
        refused("attribute 'digit'", "or its position").by(DIGIT.parse, lost)
    refused("attribute 'digit'", "code 0 to 3", "4.0 in row 0").by(DIGIT.parse, codes + 1)
    with refused("attribute 'digit'", "codes of the levels '1', '2'", "of 'a', 'b'"):
        DIGIT.parse(Categorical("letter", ["a", "b"]).parse(["a"]))


def asked_again(
    pipeline: CounterfactualPipeline, examples: Examples, **question: Any
) -> list[str]:
    images = torch.from_numpy(examples.images.astype(np.float32)) / 127.5 - 1
    pair = pipeline.counterfactual(images, examples.attributes, sampling=2, **question)
    again = pipeline.counterfactual(pair.images, pair.attributes, {"bold": 1}, sampling=2)
    assert again.abduction.attributes["digit"].tolist() == pair.attributes["digit"].tolist()
    return DIGIT.labels(pair.attributes["digit"])


def test_a_pipeline_reads_its_own_columns_as_it_wrote_them(model, examples: Examples) -> None:
    factual = DIGIT.labels(examples.attributes["digit"])
    assert factual[:8] == list("11223344")  # as in the table
    table = random_table(model.space, 20)  # of a measurement of speed
    assert model.space.parse(table)["digit"].tolist() == table["digit"].tolist()
    assert asked_again(model, examples, do={}) == factual
    assert set(asked_again(model, examples, do={"digit": "3"})) == {"3"}
    following = asked_again(model, examples, do={"digit": lambda digit: (digit + 1) % 4})
    assert following == [DIGIT.levels[int(name) % 4] for name in factual]
    asked_again(model, examples, do={"bold": 1})  # recomputes the digit


def test_what_a_judge_reads_can_be_asked_about(model, folder: Path, tmp_path: Path) -> None:
    files = sorted(folder.glob("0*.png"))[:3]
    out = {"sampling": 2, "batch_size": 64}
    read = generate(model, files, do={"digit": "4"}, out=tmp_path / "judge", **out)
    pixels = np.stack([np.asarray(Image.open(file)) for file in files]).transpose(0, 3, 1, 2)
    seen = model.judge.read(torch.from_numpy(pixels).float() / 127.5 - 1).attributes
    assert [result.factual["digit"] for result in read] == DIGIT.labels(seen["digit"])
    given = generate(model, files, seen, {"digit": "4"}, out=tmp_path / "given", **out)
    table = folder / "metadata.csv"
    listed = generate(model, files, table, {"digit": "4"}, out=tmp_path / "table", **out)
    assert [result.factual for result in given] == [result.factual for result in read]
    assert [result.factual["digit"] for result in listed] == ["1", "1", "2"]
    assert {result.counterfactual["digit"] for result in [*read, *given, *listed]} == {"4"}


def test_an_evaluation_sets_other_levels_and_says_which(model, tmp_path: Path) -> None:
    experiment = asked(do=("digit",), images=8)
    subset = choose_subset(model, experiment)
    result = evaluation(tmp_path / "run", experiment, model, subset=subset).run()
    wanted = draw_targets(model.space, subset.attributes, ["digit"], subset.names, 0)["digit"]
    wanted = dict(zip(subset.names, DIGIT.labels(wanted), strict=True))
    factual = dict(zip(subset.names, DIGIT.labels(subset.attributes["digit"]), strict=True))
    rows = [row for row in result.rows.values() if row["do"] == "digit"]
    assert {row["image"] for row in rows} == set(subset.names)
    for row in rows:
        assert row["target"]["digit"] == wanted[row["image"]] != factual[row["image"]]
