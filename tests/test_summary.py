"""What rows amount to, against computations that know nothing of the package."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata
from sklearn.metrics import mean_absolute_error, roc_auc_score

from evaluations import answers, asked, evaluation, tiny_model
from fake_results import make_results
from fcfg.evaluation import Result, Summary, read_results, summarise
from fcfg.evaluation import result_files as files_module
from fcfg.evaluation.result_files import JSON
from refusal import refused

CFG, FCFG = "cfg:3.0", "fcfg:affected=3.0,invariant=1.2"

SETTINGS = ("none", CFG, FCFG)


def summarised(folder: Path) -> tuple[Result, Summary]:
    result = read_results(folder)
    return result, summarise(result, resamples=400)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Summary]:
    folder = tmp_path_factory.mktemp("drawn")
    return summarised(make_results(folder, lpips=True, pictures=0, settings=SETTINGS))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Summary]:
    folder = tmp_path_factory.mktemp("mixed")
    dos = ("race", "age", "finding")
    make_results(folder, mixed=True, truth=False, pictures=0, dos=dos, settings=("none", CFG))
    return summarised(folder)


_rows = cache(answers)


def column(result: Result, do: str, guidance: str, get: Callable[[JSON], object]) -> np.ndarray:
    """A number of every image under one question."""
    rows = _rows(result)
    return np.array([get(rows[(do, guidance, image)]) for image in result.header["images"]])


# Numbers ----------------------------------------------------------------------------------------


def test_effectiveness_is_that_of_scikit_learn(drawn: tuple[Result, Summary]) -> None:
    result, summary = drawn
    for (do, guidance), cell in summary.cells.items():
        for name in ("smiling", "male", "young"):
            scores = column(result, do, guidance, lambda row: row["scores"][name])  # noqa: B023
            wanted = column(result, do, guidance, lambda row: row["target"][name])  # noqa: B023
            area = 100 * roc_auc_score(wanted, scores)
            assert cell.effectiveness[name].value == pytest.approx(area)
            plain = summary.cells[(do, "none")].effectiveness[name].value
            assert cell.delta[name].value == pytest.approx(area - plain)
            assert cell.delta_real[name].value == pytest.approx(area - summary.real[name].value)
    labels = [result.real[image]["attributes"]["male"] for image in result.header["images"]]
    scores = [result.real[image]["scores"]["male"] for image in result.header["images"]]
    assert summary.real["male"].value == pytest.approx(100 * roc_auc_score(labels, scores))


def test_shift_is_the_mean_toward_the_value_asked_for(drawn: tuple[Result, Summary]) -> None:
    result, summary = drawn
    for (do, guidance), cell in summary.cells.items():
        for name in ("smiling", "male", "young"):
            seen, before = (
                column(result, do, text, lambda row: row["scores"][name])  # noqa: B023
                for text in (guidance, "none")
            )
            wanted = column(result, do, guidance, lambda row: row["target"][name])  # noqa: B023
            shift = ((2 * wanted - 1) * (seen - before)).mean()
            assert cell.shift[name].value == pytest.approx(shift, abs=1e-12)
            if guidance == "none":
                assert (cell.shift[name].value, cell.delta[name].value) == (0, 0)
                assert (cell.shift[name].low, cell.shift[name].high) == (0, 0)


def test_factor_error_is_in_standard_deviations_of_the_factual_factor(
    drawn: tuple[Result, Summary],
) -> None:
    result, summary = drawn
    cell = summary.cells[("smiling", CFG)]
    factual = [result.real[image]["factors"]["male"] for image in result.header["images"]]
    read, true, wanted = (
        column(result, "smiling", CFG, get)
        for get in (
            lambda row: row["factors"]["male"],
            lambda row: row["truth"]["factors"]["male"],
            lambda row: row["truth"]["target"]["male"],
        )
    )
    expected = ((2 * wanted - 1) * (read - true)).mean() / np.std(factual)
    assert cell.factor_error["male"].value == pytest.approx(expected)
    assert cell.drift is cell.factor_error
    assert cell.factor_error["male"].excludes_zero


@pytest.mark.parametrize("part", ["change", "reversal"])
@pytest.mark.parametrize("name", ["mae", "lpips"])
def test_distances_are_means(drawn: tuple[Result, Summary], part: str, name: str) -> None:
    result, summary = drawn
    estimate = getattr(summary.cells[("male", FCFG)], f"{part}_{name}")
    values = column(result, "male", FCFG, lambda row: row[part][name])
    assert estimate.value == pytest.approx(values.mean())
    half = (estimate.high - estimate.low) / 2
    assert half == pytest.approx(1.96 * values.std() / np.sqrt(len(values)), rel=0.15)


def test_truth_and_cost(drawn: tuple[Result, Summary]) -> None:
    result, summary = drawn
    cell = summary.cells[("young", CFG)]
    missed, changed, error = (
        column(result, "young", CFG, lambda row: row["truth"][key])  # noqa: B023
        for key in ("missed", "changed", "mae")
    )
    assert cell.truth_changed is not None
    assert cell.truth_changed.value == pytest.approx(missed.sum() / changed.sum())
    assert cell.truth_mae is not None
    assert cell.truth_mae.value == pytest.approx(error.mean())
    rows = [r for r in result.rows if (r["do"], r["guidance"]) == ("young", CFG)]
    assert cell.evaluations == pytest.approx(np.mean([row["evaluations"] for row in rows]))
    assert cell.seconds == pytest.approx(np.mean([row["seconds"] for row in rows]))
    value = next(
        e["value"] for e in result.distances if (e["do"], e["guidance"]) == ("young", CFG)
    )
    assert (cell.fd_judge, cell.fid) == (value, None)


def test_attributes_of_other_kinds(mixed: tuple[Result, Summary]) -> None:
    result, summary = mixed
    levels = result.header["attributes"]["race"]["levels"]
    cell = summary.cells[("race", CFG)]
    scores, before = (
        column(result, "race", text, lambda row: row["scores"]["race"]) for text in (CFG, "none")
    )
    wanted = column(result, "race", CFG, lambda row: levels.index(row["target"]["race"]))
    areas = [roc_auc_score(wanted == k, scores[:, k]) for k in range(3)]
    assert cell.effectiveness["race"].value == pytest.approx(100 * np.mean(areas))
    rows = np.arange(len(wanted))
    shift = (scores[rows, wanted] - before[rows, wanted]).mean()
    assert cell.shift["race"].value == pytest.approx(shift)
    ages = column(result, "race", CFG, lambda row: row["scores"]["age"])
    asked_for = column(result, "race", CFG, lambda row: row["target"]["age"])
    assert cell.effectiveness["age"].value == pytest.approx(mean_absolute_error(asked_for, ages))
    assert (cell.factor_error, cell.truth_mae, cell.truth_changed) == ({}, None, None)
    assert cell.drift is cell.shift


def test_the_shift_of_a_continuous_attribute_is_in_its_standard_deviations(
    mixed: tuple[Result, Summary],
) -> None:
    result, summary = mixed
    factual = np.array(
        [result.real[image]["attributes"]["age"] for image in result.header["images"]]
    )
    seen, before = (
        column(result, "age", text, lambda row: row["scores"]["age"]) for text in (CFG, "none")
    )
    wanted = column(result, "age", CFG, lambda row: row["target"]["age"])
    expected = (np.sign(wanted - factual.mean()) * (seen - before)).mean() / factual.std()
    assert summary.cells[("age", CFG)].shift["age"].value == pytest.approx(expected)


def test_targets_move_from_what_the_judge_reads_in_the_factual_image(
    mixed: tuple[Result, Summary], drawn: tuple[Result, Summary]
) -> None:
    result, summary = mixed
    images = result.header["images"]
    wanted, seen = (
        column(result, "age", CFG, lambda row: row[key]["age"])  # noqa: B023
        for key in ("target", "scores")
    )
    factual, before = (
        np.array([result.real[image][key]["age"] for image in images])
        for key in ("attributes", "scores")
    )
    cell = summary.cells[("age", CFG)]
    toward = (np.sign(wanted - factual) * (seen - before)).mean() / factual.std()
    assert cell.moved["age"].value == pytest.approx(toward)
    assert cell.values["age"] == tuple(sorted(set(wanted)))
    race = summary.cells[("race", CFG)]
    levels = result.header["attributes"]["race"]["levels"]
    asked_for = column(result, "race", CFG, lambda row: levels.index(row["target"]["race"]))
    after = column(result, "race", CFG, lambda row: row["scores"]["race"])
    first = np.array([result.real[image]["scores"]["race"] for image in images])
    rows = np.arange(len(images))
    gain = (after[rows, asked_for] - first[rows, asked_for]).mean()
    assert race.moved["race"].value == pytest.approx(gain)
    assert race.values == {"race": ("asian", "black", "white")}
    assert set(race.moved) == {"race"}
    smiling = drawn[1].cells[("smiling", "none")]
    assert smiling.moved["smiling"].low > 0.3
    assert smiling.values == {"smiling": (0, 1)}


def test_what_the_judge_reads_goes_with_what_was_asked_for(
    mixed: tuple[Result, Summary],
) -> None:
    result, summary = mixed
    for name in ("sex", "age"):
        seen, wanted = (
            column(result, "race", CFG, lambda row: row[key][name])  # noqa: B023
            for key in ("scores", "target")
        )
        expected = np.corrcoef(rankdata(seen), wanted)[0, 1]
        assert summary.cells[("race", CFG)].correlation[name].value == pytest.approx(expected)
    assert all(estimate.low > 0.5 for estimate in summary.real_correlation.values())


def test_unrelated_images_are_as_far_apart_as_the_run_says(tmp_path: Path) -> None:
    folder = make_results(tmp_path / "new", 8, pictures=0, dos=("smiling",), unrelated=0.4)
    _, summary = summarised(folder)
    assert summary.unrelated is not None
    assert summary.unrelated.value == pytest.approx(0.4)
    _, older = summarised(make_results(tmp_path / "old", 8, pictures=0, dos=("smiling",)))
    assert older.unrelated is None


# Which cells ------------------------------------------------------------------------------------


def test_groups_follow_the_graph(drawn: tuple[Result, Summary], tmp_path: Path) -> None:
    _, summary = drawn
    assert summary.dos == ("smiling", "male", "young")
    assert summary.settings[:3] == ("none", CFG, FCFG)
    assert summary.composition is not None
    assert ("", "none") not in summary.cells
    cell = summary.cells[("male", CFG)]
    assert (cell.targets, cell.affected, cell.invariant) == (
        ("male",),
        ("male",),
        ("smiling", "young"),
    )
    graph = {"smiling": [], "male": ["young"], "young": []}
    folder = make_results(tmp_path, 20, pictures=0, header={"graph": graph})
    arrow = summarise(read_results(folder))
    assert arrow.cells[("young", CFG)].affected == ("male", "young")
    assert arrow.cells[("young", CFG)].invariant == ("smiling",)


def test_swapped_settings_swap_cells(drawn: tuple[Result, Summary], tmp_path: Path) -> None:
    _, summary = drawn
    folder = make_results(tmp_path, swapped=True, pictures=0, dos=("smiling",), settings=SETTINGS)
    _, other = summarised(folder)
    for name in ("male", "young"):
        before = [summary.cells[("smiling", text)].drift[name] for text in (CFG, FCFG)]
        after = [other.cells[("smiling", text)].drift[name] for text in (CFG, FCFG)]
        assert (before[0] - before[1]).low > 0
        assert (after[1] - after[0]).low > 0


def test_few_images_have_no_area(tmp_path: Path) -> None:
    few, enough = (
        summarised(
            make_results(
                tmp_path / str(n), n, pictures=0, dos=("smiling",), settings=("none", CFG)
            )
        )[1]
        for n in (199, 200)
    )
    assert few.real == {}
    cell = few.cells[("smiling", CFG)]
    assert (cell.effectiveness, cell.delta, cell.delta_real) == ({}, {}, {})
    assert set(cell.shift) == {"smiling", "male", "young"}
    assert set(enough.real) == {"smiling", "male", "young"}


def test_a_run_of_all_kinds_of_attributes_can_be_summarised(tmp_path: Path) -> None:
    model = tiny_model("portraits-causal")
    experiment = asked(do=("age", "hair"), guidance=(CFG,), images=4)
    summary = summarise(evaluation(tmp_path, experiment, model).run())
    cell = summary.cells[("age", CFG)]
    assert cell.affected == ("age", "glasses", "hair")
    assert set(cell.factor_error) == {"glasses", "sex", "smiling"}  # the others have no direction
    assert set(cell.effectiveness) == {"age"}
    assert cell.truth_changed is not None


def test_one_image_can_be_summarised(tmp_path: Path) -> None:
    summary = summarise(evaluation(tmp_path, asked(images=1)).run())
    cell = summary.cells[("smiling", CFG)]
    assert cell.change_mae is not None
    assert cell.change_mae.low == cell.change_mae.high == cell.change_mae.value
    assert cell.fd_judge is None
    assert np.isfinite([e.value for e in cell.factor_error.values()]).all()


# Refusals ---------------------------------------------------------------------------------------


def edited(folder: Path, edit: Callable[[list[JSON]], list[JSON]]) -> Path:
    """A small run whose lines were edited."""
    make_results(folder, 4, pictures=0, dos=("smiling",), settings=("none", CFG))
    file = folder / "results-0-of-1.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(line) + "\n" for line in edit(lines)))
    return folder


def test_runs_without_all_their_rows_are_refused(tmp_path: Path) -> None:
    empty = edited(tmp_path / "empty", lambda lines: lines[:1])
    with refused("results of 'portraits/core'", "an empty run", "fcfg evaluate"):
        summarise(read_results(empty))
    half = edited(
        tmp_path / "half",
        lambda lines: [line for i, line in enumerate(lines) if i % 3 or line["kind"] != "row"],
    )
    with refused("results of 'portraits/core'", "12 rows", "the shards that are missing"):
        summarise(read_results(half))
    blind = edited(tmp_path / "blind", lambda lines: [lines[0], *lines[2:]])
    with refused("results of 'portraits/core'", "4 real images", "12 and 3"):
        summarise(read_results(blind))


@pytest.mark.parametrize(
    ("edit", "fragments"),
    [
        (lambda lines: lines[1:], ("a header in its first line",)),
        (lambda lines: [lines[0] | {"schema": 2}, *lines[1:]], ("schema 1", "got 2")),
        (lambda lines: [{"kind": "run", "schema": 1}], ("a header with", "'questions'")),
        (lambda lines: [*lines, {"kind": "row"}], ("a row without 'do', 'guidance'",)),
        (lambda lines: [*lines, {"kind": "rows"}], ("kind run, real, row, distance",)),
        (lambda lines: [*lines, ["row"]], ("a JSON object",)),
        (lambda lines: [*lines, lines[-2]], ("every row once", "a second one for 'smiling'")),
        (lambda lines: [*lines, lines[-2] | {"do": "male"}], ("one for 'male'", "that line")),
        (lambda lines: [*lines, lines[-2] | {"image": "x"}], ("none that its header",)),
        (lambda lines: [*lines, lines[-2] | {"image": ["x"]}], (", image: expected a string",)),
        (lambda lines: [*lines, lines[1]], ("every row once", "a second one for '1000000-")),
        (lambda lines: [*lines, lines[1] | {"image": "x"}], ("one for 'x'",)),
        (lambda lines: [*lines, lines[-1] | {"do": "male"}], ("one for 'male', 'cfg:3.0'",)),
        (lambda lines: [*lines, {"kind": ["row"]}], ("kind run, real, row, distance",)),
        (lambda lines: [*lines, {"do": "male"}], ("an object without a kind",)),
        (
            lambda lines: [lines[0] | {"images": "abc"}],
            (", images: expected a list of different strings",),
        ),
        (
            lambda lines: [lines[0] | {"images": ["a", "a"]}],
            (", images: expected a list of different strings",),
        ),
        (
            lambda lines: [lines[0] | {"questions": [["male"]]}],
            (", questions: expected a list of pairs of strings",),
        ),
        (
            lambda lines: [lines[0] | {"attributes": {"a": 1}}],
            (", attributes: expected an object of objects",),
        ),
        (
            lambda lines: [lines[0] | {"attributes": {"a": {"kind": "x"}}}],
            ("attribute 'a', kind",),
        ),
        (
            lambda lines: [lines[0] | {"graph": {"male": []}}],
            (", graph: expected a graph of", "got 'male'"),
        ),
        (lambda lines: [*lines, lines[0] | {"seed": 7}], ("one run (seed: 0)", "seed: 7")),
    ],
)
def test_lines_that_do_not_belong_are_refused(
    tmp_path: Path, edit: Callable[[list[JSON]], list[JSON]], fragments: tuple[str, ...]
) -> None:
    with refused("result", *fragments):
        read_results(edited(tmp_path, edit))


LONG = "a title that says much " * 5


@pytest.mark.parametrize(
    ("key", "edit", "fragments"),
    [
        ("model", lambda model: model | {"digest": 2}, ("(model.digest: 1)", "(model.digest: 2)")),
        ("model", lambda model: model | {"x": None}, ('"digest": 1})', '1, "x": null})')),
        ("images", lambda names: [*names[:3], "new"], ('(images.3: "1', '(images.3: "new")')),
        ("images", lambda names: names[:3], ("(length of images: 4)", "(length of images: 3)")),
        ("title", lambda title: title[:-3] + "new", ("(title: ...", "much old", "much new")),
    ],
    ids=["a part", "a part that is null", "an item", "fewer items", "the end of a text"],
)
def test_another_run_is_told_by_where_it_differs(
    tmp_path: Path, key: str, edit: Callable[[Any], Any], fragments: tuple[str, ...]
) -> None:
    def with_another(lines: list[JSON]) -> list[JSON]:
        first = lines[0] | {"title": f"{LONG}old"}
        first["model"] = {"name": "m", "about": LONG, "digest": 1}
        return [first, first | {key: edit(first[key])}]

    with refused("results", *fragments, "choose another --out"):
        read_results(edited(tmp_path, with_another))


@pytest.mark.parametrize(
    ("data", "fragment"),
    [(b"", "an empty file"), (b"\xff\n", "a JSON object"), (b"{", "half written")],
)
def test_what_is_no_result_file_is_refused(tmp_path: Path, data: bytes, fragment: str) -> None:
    file = tmp_path / "results.jsonl"
    file.write_bytes(data)
    with refused(f"result file {file}", fragment):
        read_results(file)


WRONG = {
    "a score of 99": (lambda row: {"scores": row["scores"] | {"sex": 99}}, "a probability"),
    "below 0": (lambda row: {"scores": row["scores"] | {"sex": -0.1}}, "a probability"),
    "a text": (lambda row: {"scores": row["scores"] | {"sex": "0.5"}}, "a probability"),
    "true": (lambda row: {"scores": row["scores"] | {"sex": True}}, "a probability"),
    "levels": (lambda row: {"scores": row["scores"] | {"race": [0.5, 0.1, 0.1]}}, "sum to 1"),
    "two levels": (lambda row: {"scores": row["scores"] | {"race": [0.5, 0.5]}}, "3 probab"),
    "an age of 99": (lambda row: {"scores": row["scores"] | {"age": 99}}, "from 20 to 90"),
    "no age": (lambda row: {"scores": {"sex": 0.5}}, "an object with sex, race, age"),
    "no scores": (lambda row: {"scores": None}, "an object with sex, race, age"),
    "half a sex": (lambda row: {"target": row["target"] | {"sex": 0.5}}, "0 or 1"),
    "a race": (lambda row: {"target": row["target"] | {"race": "red"}}, "asian, black, white"),
    "a race's code": (lambda row: {"target": row["target"] | {"race": 1}}, "asian, black, wh"),
    "a factor": (lambda row: {"factors": {"sex": None}}, "finite numbers"),
    "too far": (lambda row: {"change": row["change"] | {"mae": 2.1}}, "from 0 to 2"),
    "no distance": (lambda row: {"change": {"mae": 0.1}}, "an object with mae, lpips"),
    "less than none": (lambda row: {"reversal": {"mae": -0.1, "lpips": None}}, "from 0 to 2"),
    "an LPIPS": (lambda row: {"reversal": {"mae": 0.1, "lpips": -1}}, "at least 0"),
    "no truth": (lambda row: {"truth": {"mae": 0.1}}, "an object with mae, missed, changed"),
    "a truth": (lambda row: {"truth": dict.fromkeys(TRUTH, -1)}, "from 0 to 2"),
    "no work": (lambda row: {"evaluations": 0}, "above 0"),
    "time": (lambda row: {"seconds": -0.5}, "at least 0"),
    "infinity": (lambda row: {"seconds": 1e400}, "a JSON object"),
}
TRUTH = ("mae", "missed", "changed", "factors", "target")


@pytest.mark.parametrize("name", WRONG)
def test_numbers_that_cannot_be_are_refused(tmp_path: Path, name: str) -> None:
    change, fragment = WRONG[name]
    make_results(tmp_path, 2, mixed=True, pictures=0, dos=("age",), settings=("none",))
    file = tmp_path / "results-0-of-1.jsonl"
    *lines, last, distance = map(json.loads, file.read_text().splitlines())
    for entry in (last | change(last), distance):
        with file.open("w") as out:
            out.writelines(json.dumps(line) + "\n" for line in (*lines, entry))
        if entry is distance:
            read_results(tmp_path)
        else:
            with refused(f"{file}, line {len(lines) + 1}", fragment):
                read_results(tmp_path)
    (tmp_path / "results-0-of-1.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in (*lines, last, distance | {"n": 0}))
    )
    with refused("n", "a number above 0", "got int 0"):
        read_results(tmp_path)


def test_every_real_image_has_legal_numbers(tmp_path: Path) -> None:
    def of_real(**change: object) -> Callable[[list[JSON]], list[JSON]]:
        return lambda lines: [lines[0], lines[1] | change, *lines[2:]]

    for number, change in enumerate(
        ({"unrelated": 3}, {"attributes": {}}, {"scores": {}}, {"factors": [1]})
    ):
        with refused(", line 2, ", "expected"):
            read_results(edited(tmp_path / str(number), of_real(**change)))
    read_results(edited(tmp_path / "legal", of_real(unrelated=0.3)))


def test_a_line_that_was_changed_is_noticed(tmp_path: Path) -> None:
    """Any line, any number; older files, without digests, are read."""
    evaluation(tmp_path, asked(images=2, guidance=(), do=("smiling",))).run()
    file = tmp_path / "results-0-of-1.jsonl"
    whole = file.read_text()
    read_results(tmp_path)
    lines = whole.splitlines(keepends=True)
    for number, old, new in (
        (0, '"steps": 2', '"steps": 3'),
        (1, '"male": 0', '"male": 1'),
        (4, '"evaluations": 4', '"evaluations": 6'),
        (4, '"check": "', '"check": "0'),
        (-1, '"n": 2', '"n": 3'),
    ):
        changed = lines[number].replace(old, new)
        assert changed != lines[number], number
        file.write_text("".join(changed if line is lines[number] else line for line in lines))
        with refused(f"{file}, line ", "has a digest", "something else", "from a copy"):
            read_results(tmp_path)
    bare = [{k: v for k, v in json.loads(line).items() if k != "check"} for line in lines]
    file.write_text(lines[0] + "".join(json.dumps(line) + "\n" for line in bare[1:]))
    with refused(f"{file}, line 2", "a line without one"):
        read_results(tmp_path)
    file.write_text("".join(json.dumps(line) + "\n" for line in bare))
    assert len(read_results(tmp_path).rows) == 4
    file.write_text("".join(json.dumps(line) + "\n" for line in bare[:4]) + "".join(lines[4:]))
    assert len(read_results(tmp_path).rows) == 4  # a run that went on with this version
    spaced = [json.dumps(json.loads(line), separators=(",", ":")) + "\n" for line in lines]
    file.write_text("".join(spaced))  # as other programs write JSON
    assert len(read_results(tmp_path).rows) == 4


@pytest.mark.parametrize(
    "line", ["[" * 100_000, '{"kind": ' + '{"a": ' * 100_000, "1" * 5_000, '{"kind": NaN}']
)
def test_lines_that_no_reader_should_follow_are_refused(tmp_path: Path, line: str) -> None:
    file = make_results(tmp_path, 2, pictures=0) / "results-0-of-1.jsonl"
    with file.open("a") as out:
        out.write(line + "\n")
    with refused(f"{file}, line ", "a JSON object", "remove this line and run it again"):
        read_results(tmp_path)


BOMBS = {
    "zeros": (b"", b"\0" * 2**20, "lines of at most 32 MiB"),
    "spaces in a header": (b'{"kind": "run", "a": "', b" " * 2**20, "lines of at most 32 MiB"),
    "empty lines": (b"", b"\n" * 2**20, "a JSON object"),
    "the same row": (None, None, "a second one for"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_file_that_unpacks_to_much_is_refused_in_little_memory(
    tmp_path: Path, bomb: str
) -> None:
    start, piece, fragment = BOMBS[bomb]
    if start is None or piece is None:
        made = make_results(tmp_path, 2, pictures=0) / "results-0-of-1.jsonl"
        start, last = made.read_bytes(), made.read_bytes().splitlines(keepends=True)[-2]
        piece = last * (2**20 // len(last))
    file = tmp_path / "results.jsonl.gz"
    with gzip.open(file, "wb", compresslevel=1) as out:
        out.write(start)
        for _ in range(200):
            out.write(piece)
    assert file.stat().st_size < 2**22
    tracemalloc.start()
    try:
        with refused(f"result file {file}", fragment):
            read_results(file)
        assert tracemalloc.get_traced_memory()[1] < 150 * 2**20  # of 200 MiB
    finally:
        tracemalloc.stop()


def test_a_file_longer_than_any_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make_results(tmp_path, 2, pictures=0) / "results-0-of-1.jsonl"
    monkeypatch.setattr(files_module, "MOST", file.stat().st_size)
    read_results(file)
    monkeypatch.setattr(files_module, "MOST", file.stat().st_size - 1)
    with refused(f"result file {file}", "GiB in all", "got more"):
        read_results(file)


def test_what_has_no_end_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    for path, got in (
        (Path("/dev/zero"), "a device or a pipe"),
        (tmp_path / "pipe.jsonl", "a device or a pipe"),
        (tmp_path, "a folder"),  # the first file in it is one
    ):
        with refused("result file", "a regular file", got):
            read_results(path)
    run = tmp_path / "run"
    run.mkdir()
    (run / "results-0-of-1.jsonl").symlink_to("/dev/zero")
    with refused("result file", "a regular file", "a device or a pipe"):
        evaluation(run, asked(images=2)).run()


def test_packed_files_say_the_same(tmp_path: Path) -> None:
    folder = make_results(tmp_path / "plain", n=4)
    plain = read_results(folder)
    file = folder / "results-0-of-1.jsonl"
    packed = tmp_path / "packed" / f"{file.name}.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(file.read_bytes()))
    for there in (packed, packed.parent):
        found = read_results(there)
        assert (found.header, found.rows, found.real) == (plain.header, plain.rows, plain.real)


@pytest.mark.parametrize(
    "spoil", [lambda data: data[:-20], lambda data: b"{}", lambda data: data[:-30] + b"\xff" * 30]
)
def test_a_spoilt_packed_file_is_refused(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    whole = make_results(tmp_path, n=4, pictures=0) / "results-0-of-1.jsonl"
    file = tmp_path / "results.jsonl.gz"
    file.write_bytes(spoil(gzip.compress(whole.read_bytes())))
    with refused(f"result file {file}", "gzip", "pack it again"):
        read_results(file)


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with refused(f"results {tmp_path}", "(*.jsonl, *.jsonl.gz)", "fcfg evaluate MODEL EXPERIMENT"):
        read_results(tmp_path)
    with refused("nothing.jsonl", "got none"):
        read_results(tmp_path / "nothing.jsonl")
    (tmp_path / "begun.jsonl").write_text("{")
    with refused(f"results {tmp_path}", "got none"):
        read_results(tmp_path, unfinished=True)


def test_no_distance_of_few_images(tmp_path: Path) -> None:
    for n, given in ((199, False), (200, True)):
        summary = summarise(read_results(make_results(tmp_path / str(n), n=n, pictures=0)))
        assert all((cell.fd_judge is not None) == given for cell in summary.cells.values())
