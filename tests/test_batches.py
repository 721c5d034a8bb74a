"""What-ifs as functions of batches: the answers of the model, wherever a batch is asked."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fcfg
from fcfg.integrations.batches import Ask
from refusal import refused


@pytest.fixture(scope="module")
def columns(tiny_folder: Path) -> dict[str, list[Any]]:
    rng = np.random.default_rng(0)
    model = fcfg.load(tiny_folder)
    size = model.size or 8
    images = [rng.integers(0, 256, (size, size, model.channels), np.uint8) for _ in range(5)]
    read = model.read(images)
    return {"image": images, **{name: list(column) for name, column in read.attributes.items()}}


def part(columns: dict[str, list[Any]], *rows: int) -> dict[str, list[Any]]:
    return {name: [column[row] for row in rows] for name, column in columns.items()}


def question(tiny_folder: Path) -> Ask:
    name = next(iter(fcfg.load(tiny_folder).space.names))
    return Ask(str(tiny_folder), {name: "flip"}, options={"sampling": "2"})


def test_answers_are_those_of_the_model(tiny_folder: Path, columns) -> None:
    ask, model = question(tiny_folder), fcfg.load(tiny_folder)
    said = ask(columns)
    attributes = {name: columns[name] for name in model.space.names}
    pair = model.counterfactual(columns["image"], attributes, ask.do, sampling="2", progress=False)
    for array, picture in zip(said["counterfactual"], fcfg.to_pictures(pair.images), strict=True):
        assert np.array_equal(array, np.asarray(picture))
    for name in model.space.names:
        assert said[name] == columns[name]
        assert said[f"counterfactual_{name}"] == list(pair.attributes[name])
    unlabelled = ask({"image": columns["image"]})  # the judge reads them
    assert all(map(np.array_equal, unlabelled["counterfactual"], said["counterfactual"]))


def test_how_rows_are_batched_changes_an_answer_by_rounding_at_most(tiny_folder, columns) -> None:
    ask = question(tiny_folder)
    whole = ask(columns)["counterfactual"]
    parts = [*ask(part(columns, 3))["counterfactual"], *ask(part(columns, 1, 0))["counterfactual"]]
    for array, row in zip(parts, (3, 1, 0), strict=True):
        assert np.abs(array.astype(int) - whole[row]).max() <= 1


def test_workers_get_the_question_and_not_the_weights(tiny_folder: Path, columns) -> None:
    ask, batch = question(tiny_folder), part(columns, 2)
    sent = pickle.dumps((ask, batch))
    assert len(sent) < 4000
    code = (
        "import pickle, sys; ask, batch = pickle.load(sys.stdin.buffer);"
        "sys.stdout.buffer.write(pickle.dumps(ask(batch)['counterfactual']))"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, input=sent, capture_output=True, check=True)
    assert np.array_equal(pickle.loads(done.stdout), ask(batch)["counterfactual"])


def test_a_batch_without_pictures_or_with_half_of_the_attributes_is_refused(
    tiny_folder: Path, columns
) -> None:
    ask, names = question(tiny_folder), [name for name in columns if name != "image"]
    with refused("column", "picture", "image"):
        Ask(ask.model, ask.do, image="picture")(columns)
    half = {name: column for name, column in columns.items() if name != names[0]}
    with refused("batch", names[0]):
        ask(half)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of other people's libraries
def test_ray_gives_the_answers_of_one_process_byte_for_byte(
    tiny_folder: Path, columns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its workers compute with one thread, as tests do."""
    pytest.importorskip("ray.data", reason="ray is not installed: pip install 'ray[data]'")
    for name, value in {"USAGE_STATS_ENABLED": "0", "AUTH_MODE": "disabled"}.items():
        monkeypatch.setenv(f"RAY_{name}", value)
    import ray

    ask, rows = question(tiny_folder), range(len(columns["image"]))
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=300 * 2**20)
    try:
        items = [{"row": row, **{n: c[row] for n, c in columns.items()}} for row in rows]
        data = ray.data.from_items(items, override_num_blocks=len(items))
        found = data.map_batches(ask, batch_size=1).take_all()
    finally:
        ray.shutdown()
    assert sorted(answer["row"] for answer in found) == list(rows)
    for answer in found:
        here = ask(part(columns, answer["row"]))
        assert np.array_equal(answer["counterfactual"], here["counterfactual"][0])
        for name in fcfg.load(tiny_folder).space.names:
            assert answer[f"counterfactual_{name}"] == here[f"counterfactual_{name}"][0]
