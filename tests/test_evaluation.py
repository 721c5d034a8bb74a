"""Rows are the same however a run is cut: into shards, blocks, or pieces by a signal."""

from __future__ import annotations

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from safetensors.torch import save as to_bytes

from evaluations import (
    CFG,
    SIZE,
    answers,
    asked,
    counted_rows,
    evaluation,
    flat,
    folder_model,
    shared_model,
    tiny_model,
)
from fcfg.datasets import portraits
from fcfg.evaluation import Result, experiments, find_experiment, read_results
from fcfg.evaluation.subset import draw_targets
from fcfg.guidance import Guidance
from fcfg.metrics import frechet_distance, image_errors, image_mae
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.support.files import single_writer
from kills import printed_elsewhere
from refusal import all_refused, refused

NAMES = tuple(f"1000000-0000000{number}.png" for number in range(6))
SAMPLING = "ddim uniform 2"  # that of the experiment


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A run that nobody disturbed."""
    return evaluation(tmp_path_factory.mktemp("whole") / "run", pictures=2).run()


def alike(one: object, other: object, within: float) -> bool:
    """Whether JSON is the same, but for a tolerance of its numbers."""
    a, b = flat(one), flat(other)
    return a.keys() == b.keys() and all(
        abs(x - b[key]) <= within * (1 + abs(x)) if isinstance(x, float) else x == b[key]
        for key, x in a.items()
    )


def same(one: Result, other: Result, *, within: float = 0.0) -> bool:
    """Whether two runs have the same rows, but for their time; in whatever order."""
    a, b = (answers(run) | run.real for run in (one, other))
    return a.keys() == b.keys() and all(alike(a[key], b[key], within) for key in a)


def file_of(result: Result) -> Path:
    return result.folder / "results-0-of-1.jsonl"


def copied(result: Result, folder: Path) -> Path:
    """A copy of its folder."""
    return shutil.copytree(result.folder, folder / "run")


def distances_of(*results: Result) -> list[list[float]]:
    """Distances of every run, the smallest first."""
    return [sorted(entry["value"] for entry in result.distances.values()) for result in results]


# What a run holds -------------------------------------------------------------------------------


def test_every_question_is_answered_once_and_the_header_says_how(whole) -> None:
    header, pipeline, questions = whole.header, shared_model(), asked().questions
    assert tuple(header["images"]) == NAMES == tuple(whole.real)
    assert [tuple(question) for question in header["questions"]] == list(questions)
    assert set(answers(whole)) == {(*question, name) for question in questions for name in NAMES}
    assert (len(whole.rows), whole.missing) == (7 * 6, 0)
    wanted = {"threshold": 0.05, "steps": 2, "solver": "DDIM()", "grid": "uniform", "block": 6}
    wanted |= {"attributes": pipeline.space.to_config(), "shard": [0, 1], "reverse": True}
    wanted |= {"graph": {"smiling": [], "male": [], "young": []}}
    wanted |= {"data": {"format": "portraits", "split": "evaluation", "seed": 1000000}}
    assert header.items() >= wanted.items()
    size = sum(parameter.numel() for parameter in pipeline.denoiser.parameters())
    known = {"parameters": size, "provenance": pipeline.provenance}
    assert header["model"].items() >= known.items()
    assert set(header["metrics"]) == {"mae", "judge", "lpips"}


def test_rows_and_distances_are_what_the_pipeline_says(whole) -> None:
    pipeline, judge = shared_model(), shared_model().judge
    factual = portraits.sample(6, portraits.EVALUATION_SEED, SIZE)
    do = {"smiling": 1 - factual.attributes["smiling"]}
    pair = pipeline.counterfactual(
        factual.images, factual.attributes, do, guidance=Guidance.parse(CFG), sampling=SAMPLING
    )
    back, seen = pipeline.reverse(pair), judge.read(pair.images)
    truth = portraits.counterfactual(factual, do)
    errors = image_errors(pair.images, truth.images, factual.images, threshold=0.05)
    true_factors = judge.read(truth.images).factors
    for i, name in enumerate(NAMES):
        row = answers(whole)[("smiling", CFG, name)]
        assert row["target"] == {k: int(c[i]) for k, c in pair.attributes.items()}
        expected = {
            "scores": {k: c[i] for k, c in seen.scores.items()},
            "factors": {k: c[i] for k, c in seen.factors.items()},
            "change": {"mae": image_mae(pair.images, factual.images)[i], "lpips": None},
            "reversal": {"mae": image_mae(back.images, factual.images)[i], "lpips": None},
            "truth": {
                "mae": errors.mae[i],
                "missed": errors.missed[i],
                "changed": errors.changed[i],
                "factors": {k: c[i] for k, c in true_factors.items()},
                "target": {k: int(c[i]) for k, c in truth.attributes.items()},
            },
        }
        assert alike({key: row[key] for key in expected}, expected, 1e-5)
        assert (row["kind"], row["evaluations"]) == ("row", pair.evaluations)
    found = {key[:2]: e for key, e in whole.distances.items()}
    assert set(found) == set(asked(composition=False).questions)
    entry, features = found["smiling", CFG], judge.read(factual.images).features
    assert entry["value"] == pytest.approx(frechet_distance(seen.features, features), rel=1e-3)
    assert (entry["metric"], entry["n"]) == ("FD-judge", 6)


def test_unrelated_images_are_those_half_a_run_away(whole, tmp_path: Path) -> None:
    """Whatever shard or block they are in."""
    images = portraits.sample(6, portraits.EVALUATION_SEED, SIZE).images
    apart = image_mae(images, images.roll(3, dims=0))
    assert [whole.real[name]["unrelated"] for name in NAMES] == pytest.approx(apart, rel=1e-5)
    shard = evaluation(tmp_path, asked(guidance=()), shard=(1, 4)).run()
    assert {name: whole.real[name] for name in shard.real} == shard.real
    alone = evaluation(tmp_path / "one", asked(images=1), pictures=8).run()
    assert alone.real[NAMES[0]]["unrelated"] is None
    assert (len(alone.rows), alone.missing, alone.distances) == (7, 0, {})


def pictures_of(folder: Path, images: tuple[str, ...] = NAMES[:2]) -> dict[str, torch.Tensor]:
    """Pixels of all pictures of a run, by what the index says they are."""
    index = json.loads((folder / "pictures/index.json").read_text())
    assert index["images"] == list(images)
    paths = {"factual": index["factual"]}
    for entry in index["rows"]:
        paths[f"{entry['do']} {entry['guidance']}"] = entry["counterfactual"] + entry["reversed"]
    paths |= {f"truth {entry['do']}": entry["counterfactual"] for entry in index["truth"]}
    assert len({path for some in paths.values() for path in some}) == sum(map(len, paths.values()))
    return {
        name: torch.stack([torch.from_numpy(np.array(Image.open(folder / p))) for p in some])
        for name, some in paths.items()
    }


def test_pictures_are_indexed(whole) -> None:
    """Two of each; a question has its counterfactuals, and then its reversals."""
    found = pictures_of(whole.folder)
    wanted = dict.fromkeys(("factual", "truth smiling", "truth smiling+male"), 2)
    wanted |= {f"{do} {text}": 4 for do, text in asked(composition=False).questions}
    assert {k: x.shape for k, x in found.items()} == {
        k: (n, SIZE, SIZE, 3) for k, n in wanted.items()
    }
    shown = portraits.sample(2, portraits.EVALUATION_SEED, SIZE).images[1]
    pixels = found["factual"][1].permute(2, 0, 1) / 127.5 - 1
    assert torch.allclose(pixels, shown, atol=1 / 127)


def test_nothing_is_reversed_or_shown_where_nobody_asks(tmp_path: Path) -> None:
    quick = asked(reverse=False, composition=False, do=("smiling",), guidance=(), images=2)
    with counted_rows() as rows:
        result = evaluation(tmp_path, quick).run()
    assert {row["reversal"] for row in result.rows.values()} == {None}
    assert sum(rows) == 2 * 2 * (1 + 1)  # images, steps, there and back
    assert not (tmp_path / "pictures").exists()


def test_where_noise_is_drawn_the_way_back_is_asked_with_fresh_noise_too(tmp_path: Path) -> None:
    """However the run is cut; and not twice where noise is inferred, or nothing is reversed."""
    drawn = "contrast:1.5;anchor=true;drawn_noise=true"
    both = asked(do=("smiling",), guidance=(CFG, drawn), images=4)
    pipeline, faces = shared_model(), portraits.sample(4, portraits.EVALUATION_SEED, SIZE)
    result = evaluation(tmp_path / "run", both).run()
    parts = [evaluation(tmp_path / "cut", both, shard=(k, 2), block=1).run() for k in range(2)]
    assert same(result, parts[-1], within=1e-5)
    having = {key[:2] for key, row in result.rows.items() if row.get("fresh")}
    assert having == {("smiling", drawn)}
    do, how = {"smiling": 1 - faces.attributes["smiling"]}, {"sampling": SAMPLING}
    pair = pipeline.counterfactual(
        faces.images, faces.attributes, do, guidance=Guidance.parse(drawn), **how
    )
    keys = [f"fresh {key}" for key in pair.abduction.keys]
    for name, back in (("reversal", {}), ("fresh", {"keys": keys})):
        errors = image_mae(pipeline.reverse(pair, **back).images, faces.images)
        found = [row[name]["mae"] for key, row in result.rows.items() if key[1] == drawn]
        assert found == pytest.approx(errors.tolist(), rel=1e-5)
    quick = both.model_copy(update={"reverse": False})
    rows = evaluation(tmp_path / "quick", quick).run().rows.values()
    assert not any("fresh" in row for row in rows)


# Data of all kinds ------------------------------------------------------------------------------


def test_a_run_knows_which_images_are_of_one_person_and_its_shards_need_not(tmp_path) -> None:
    model = folder_model(tmp_path / "faces", 12, each=3)
    few = asked(balance=(), images=6, do=("smiling",), guidance=(), composition=False)
    result = evaluation(tmp_path / "run", few, model).run()
    images, groups = result.header["images"], result.header["groups"]
    people = [int(name[:3]) // 3 for name in images]
    assert groups == {
        "of": "groups",
        "rows": [list(dict.fromkeys(people)).index(p) for p in people],
    }
    assert "groups" not in evaluation(tmp_path / "other", few).header
    older = evaluation(tmp_path / "older", few, model)
    parts = [replace(older, shard=(k, 2)) for k in range(2)]
    plain = replace(parts[0], subset=replace(older.subset, groups=None))
    assert plain.run().missing == 3
    assert parts[1].run().missing == parts[0].run().missing == 0


def test_a_folder_of_images_has_no_truth(tmp_path: Path) -> None:
    model = folder_model(tmp_path / "faces", 12)
    run = evaluation(tmp_path / "run", asked(balance=("male",), images=4), model, pictures=1)
    result = run.run()
    assert len(result.rows) == 4 * 7
    assert {row["truth"] for row in result.rows.values()} == {None}
    assert str(tmp_path) not in json.dumps(result.header)  # where files lay is nobody's concern
    assert result.header["model"]["provenance"]["training"]["data"]["path"] == "faces"
    assert result.header["threshold"] is None
    assert len(result.distances) == 6
    assert json.loads((tmp_path / "run/pictures/index.json").read_text())["truth"] == []


@pytest.mark.parametrize("continuous", ["permuted", "quantiles"])
def test_attributes_of_all_kinds_and_their_effects(tmp_path: Path, continuous: str) -> None:
    model = tiny_model("portraits-causal")
    experiment = asked(do=("age", "hair", "sex"), guidance=(), images=5, continuous=continuous)
    result = evaluation(tmp_path, experiment, model).run()
    factual = portraits.sample(5, portraits.EVALUATION_SEED, SIZE, "portraits-causal")
    names, seed = NAMES[:5], 0
    wanted = draw_targets(
        model.space, factual.attributes, ["age", "hair"], names, seed, continuous
    )
    levels = ("dark", "fair", "red", "grey")
    rows = answers(result)
    for i, name in enumerate(NAMES[:5]):
        real = result.real[name]["attributes"]
        aged, dyed = (rows[(do, "none", name)] for do in ("age", "hair"))
        assert real["hair"] == levels[factual.attributes["hair"][i]]
        assert dyed["target"] == real | {"hair": levels[wanted["hair"][i]]}
        assert dyed["target"]["hair"] != real["hair"]
        assert aged["target"]["age"] == pytest.approx(wanted["age"][i], rel=1e-5)
        assert aged["target"]["sex"] == real["sex"]  # no effect of age
        assert len(aged["scores"]["hair"]) == 4
        assert sum(aged["scores"]["hair"]) == pytest.approx(1, abs=1e-5)
        truth = portraits.counterfactual(factual, {"age": wanted["age"]})
        assert aged["truth"]["target"]["hair"] == levels[truth.attributes["hair"][i]]
    assert rows[("age", "none", NAMES[0])]["truth"]["factors"].keys() == factual.factors.keys()


# Cut in pieces ----------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 4])
def test_blocks_change_nothing(whole, tmp_path: Path, block: int) -> None:
    other = evaluation(tmp_path, block=block, batch_size=7).run()
    assert same(other, whole, within=1e-3)
    one, another = distances_of(other, whole)
    assert one == pytest.approx(another, rel=0.02, abs=1e-4)


@pytest.mark.parametrize("count", [2, 4])
def test_shards_merge(whole, tmp_path: Path, count: int) -> None:
    order = list(range(count))[::-1]
    for number in order:
        result = evaluation(tmp_path, shard=(number, count), pictures=2).run()
        assert bool(result.missing) == bool(result.distances == {}) == (number != order[-1])
    assert same(result, whole, within=1e-3)
    assert len(list(tmp_path.glob("*.jsonl"))) == count
    lines = [line for file in tmp_path.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert sum('"kind": "distance"' in line for line in lines) == len(result.distances) == 6
    index = json.loads((tmp_path / "pictures/index.json").read_text())
    assert index["images"] == [NAMES[0], NAMES[count]]  # the first shard's
    (tmp_path / "all.jsonl").write_text("\n".join(lines) + "\n")  # or in one file
    assert same(read_results(tmp_path / "all.jsonl"), result)


def test_shards_that_end_at_once_write_distances_once(tmp_path: Path) -> None:
    runs = [evaluation(tmp_path, pipeline=tiny_model(), shard=(number, 2)) for number in range(2)]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda run: run.run(), runs))
    text = "".join(file.read_text() for file in tmp_path.glob("*.jsonl"))
    assert text.count('"kind": "distance"') == 6


def test_a_shard_does_not_stumble_over_what_another_one_is_writing(whole, tmp_path: Path) -> None:
    other = tmp_path / "results-1-of-2.jsonl"
    other.write_text('{"kind": "run", "sch')  # it is about to begin
    result = evaluation(tmp_path, shard=(0, 2)).run()
    assert result.missing == 21
    with refused("results-1-of-2", "whole lines"):
        read_results(tmp_path)
    last = evaluation(tmp_path, shard=(1, 2))
    last.run()
    text = other.read_text()
    other.write_text(text[:-400])  # it was killed at the end
    assert evaluation(tmp_path, shard=(0, 2)).run().missing == 0
    assert same(last.run(), whole, within=1e-3)


# Stopped and resumed ----------------------------------------------------------------------------


@pytest.mark.promise("An evaluation that is killed goes on, and ends with the same rows")
def test_a_file_that_ends_anywhere_is_continued(whole, tmp_path: Path) -> None:
    """Wherever the power failed, the same rows are there in the end."""
    text = file_of(whole).read_bytes()
    rng = np.random.default_rng(0)
    header, half = text.find(b"\n") + 1, len(text) // 2
    cuts = [0, 10, header, half, len(text) - 1, *rng.integers(header, len(text), 2)]
    for number, cut in enumerate(map(int, cuts)):
        out = tmp_path / str(number)
        out.mkdir()
        (out / "results-0-of-1.jsonl").write_bytes(text[:cut])
        assert same(evaluation(out).run(), whole), cut
        assert len(read_results(out).rows) == 42


@pytest.mark.promise("An evaluation that is killed goes on, and ends with the same rows")
def test_a_run_killed_at_random_ends_with_the_same_rows(tmp_path: Path) -> None:
    """Really killed, wherever it is then, and started again in the same folder."""
    kills, missing = printed_elsewhere("evaluations", "killed_evaluation", tmp_path / "killed")
    assert (int(kills) >= 3, missing) == (True, "0"), kills
    undisturbed = evaluation(tmp_path / "undisturbed", block=2).run()
    killed = read_results(tmp_path / "killed")
    assert same(killed, undisturbed)
    one, another = distances_of(killed, undisturbed)
    assert one == another


@pytest.mark.parametrize(
    "guidance", [CFG, "contrast:1.5;anchor=true;drawn_noise=true"], ids=["plain", "drawn"]
)
def test_a_shard_keeps_the_pictures_of_the_whole(tmp_path: Path, guidance: str) -> None:
    """In float64, where the number of images at once rounds no pixel differently."""
    pipeline, experiment = tiny_model(), asked(guidance=(guidance,), images=4)
    for parameter in pipeline.denoiser.double().network.parameters():
        parameter.data *= 30  # so that answers depend on the noise
    one = evaluation(tmp_path / "one", experiment, pipeline, pictures=4).run()
    for number in range(2):
        run = evaluation(tmp_path / "two", experiment, pipeline, pictures=2, shard=(number, 2))
        two = run.run()
    assert same(one, two, within=1e-5)
    whole = pictures_of(tmp_path / "one", NAMES[:4])
    part = pictures_of(tmp_path / "two", NAMES[:4:2])  # the first shard's
    assert part.keys() == whole.keys()
    for name, pixels in part.items():  # four answers, then four reversals
        assert torch.equal(pixels, whole[name][::2])
    assert not torch.equal(part[f"smiling {experiment.guidance[-1]}"][:2], part["factual"])


@pytest.mark.parametrize(
    ("gone", "asked_again"), [("all", True), ("some", True), ("index", False)]
)
def test_pictures_that_are_gone_are_made_again(whole, tmp_path, gone: str, asked_again) -> None:
    """Those of a block, under the questions that lack some; an index that is broken, too."""
    before, run = pictures_of(whole.folder), copied(whole, tmp_path)
    index = json.loads((run / "pictures/index.json").read_text())
    row = next(e for e in index["rows"] if (e["do"], e["guidance"]) == ("smiling", CFG))
    some = (row["reversed"][1], index["factual"][0], index["truth"][1]["counterfactual"][1])
    for path in some if gone == "some" else ():
        (run / path).unlink()
    (run / "pictures/index.json").write_text("{")
    if gone == "all":
        shutil.rmtree(run / "pictures")
    shares: list[float] = []
    with counted_rows() as rows:
        again = evaluation(run, pictures=2).run(shares.append)
    assert gone != "some" or sum(rows) == 6 * 2 * (1 + 2 + (1 + 2))  # images, steps; there, back
    assert (bool(rows), shares[0] < 1, shares[-1]) == (asked_again, asked_again, 1)
    after = pictures_of(run)
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in after)
    assert file_of(again).read_bytes() == file_of(whole).read_bytes()
    with counted_rows() as rows:  # and then they are there
        evaluation(run, pictures=2).run()
    assert rows == []
    evaluation(run, pictures=0).run()  # whoever wants none leaves them alone
    assert pictures_of(run).keys() == before.keys()


ROWS = {"rows": torch.arange(6)}
FOREIGN = {
    "half": None,
    "nothing": b"",
    "text": b"features",
    "no rows": to_bytes({"judge": torch.zeros(6, 4)}),
    "other names": to_bytes(ROWS | {"pixels": torch.zeros(6, 4)}),
    "other shape": to_bytes(ROWS | {"judge": torch.zeros(6)}),
    "other images": to_bytes(ROWS | {"judge": torch.zeros(5, 4)}),
    "no numbers": to_bytes(ROWS | {"judge": torch.zeros(6, 4, dtype=torch.int64)}),
}


@pytest.mark.parametrize("spoil", FOREIGN)
def test_features_that_are_broken_are_computed_again(whole, tmp_path: Path, spoil: str) -> None:
    run = copied(whole, tmp_path)
    for file in sorted((run / "features").glob("*/*"))[:3]:
        data = file.read_bytes()
        file.write_bytes(data[: len(data) // 2] if spoil == "half" else FOREIGN[spoil])
    lines = file_of(whole).read_text().splitlines(keepends=True)
    kept = [line for line in lines if '"kind": "distance"' not in line]
    (run / "results-0-of-1.jsonl").write_text("".join(kept))
    result = evaluation(run).run()
    one, another = distances_of(result, whole)
    assert one == pytest.approx(another, rel=1e-4)
    assert same(result, whole)


def test_broken_features_of_another_shard_are_one_line(tmp_path: Path) -> None:
    first, second = (evaluation(tmp_path, shard=(n, 2)) for n in range(2))
    first.run()
    theirs = sorted((tmp_path / "features").glob("*/*"))[0]
    theirs.write_bytes(b"half")
    with refused(f"features {theirs}", "a block of images", "computes it again"):
        second.run()
    first.run()
    assert len(second.run().distances) == 6


def test_progress_grows_and_ends_at_one(tmp_path: Path) -> None:
    run = evaluation(tmp_path, asked(sampling="ddim uniform 3"), block=4)
    shares: list[float] = []
    run.run(shares.append)
    assert shares == sorted(shares)
    assert (shares[0] < 0.01, shares[-1], len(set(shares)) > 30) == (True, 1.0, True)
    assert np.diff(shares).max() < 0.1  # the time that is left can be told from it
    file = tmp_path / "results-0-of-1.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[: len(lines) // 2]))
    resumed: list[float] = []
    run.run(resumed.append)
    assert resumed == sorted(resumed)
    assert 0.2 < resumed[0] < resumed[-1] == 1


# The noise behind images ------------------------------------------------------------------------


def test_noise_is_kept_for_a_model_and_an_environment(tmp_path: Path) -> None:
    """What else it depends on is told by the tests of the store; a reversal infers anew."""
    quick, cache = asked(images=2, guidance=(), do=("smiling",)), tmp_path / "noise"

    def spent(name: str, pipeline=None, **changes: Any) -> int:
        with counted_rows(pipeline) as rows:
            evaluation(tmp_path / name, quick, pipeline, cache=cache, **changes).run()
        return sum(rows)

    for name, changes in (
        ("first", {}),
        ("environment", {"provenance": {"environment": {"precision": "bf16"}}}),
        ("model", {"pipeline": another_model()}),
    ):
        assert spent(name, **changes) == spent(f"{name} again", **changes) + 2 * 2
    assert len(list(cache.rglob("*.safetensors"))) == 2 * 3


# Refusals ---------------------------------------------------------------------------------------


def another_model() -> CounterfactualPipeline:
    other = tiny_model()
    next(other.denoiser.parameters()).data += 1e-3
    return other


def test_another_run_in_the_same_folder_is_refused_before_any_work(tmp_path: Path) -> None:
    small = asked(images=2)
    evaluation(tmp_path, small).run()
    slow, other = asked(images=2, sampling="ddim uniform 3"), another_model()
    with counted_rows() as rows:
        for run, *fragments in (
            (evaluation(tmp_path, asked(images=3)), "images"),
            (evaluation(tmp_path, slow), "steps: 2", "steps: 3"),
            (evaluation(tmp_path, small, other), "model", "digest"),
            (evaluation(tmp_path, small, shard=(0, 2)), "results-0-of-1.jsonl"),
        ):
            with refused(f"results {tmp_path}", *fragments):
                run.run()
        (tmp_path / "results-0-of-1.jsonl").rename(tmp_path / "results-1-of-2.jsonl")
        with refused("results-1-of-2.jsonl", "one run"):
            evaluation(tmp_path, asked(images=3), shard=(0, 2)).run()
    assert rows == []


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    run = evaluation(tmp_path, asked(images=2))
    with single_writer(tmp_path, ".results-0-of-1.lock"), refused(f"run {tmp_path}"):
        run.run()
    assert not list(tmp_path.glob("*.jsonl"))
    evaluation(tmp_path, asked(images=2), provenance={"version": "2"}).run()


def test_what_would_fail_after_hours_is_refused_at_once(tmp_path: Path) -> None:
    for subject, options in (
        ("shard, count", {"shard": (0, 7)}),
        ("shard, number", {"shard": (2, 2)}),
        ("shard, count", {"shard": (0, 0)}),
        ("batch size", {"batch_size": 2}),
    ):
        all_refused(subject, partial(evaluation, tmp_path, **options))


@pytest.mark.parametrize(
    ("good", "subject"),
    [(0, "model"), (2, "do() under none"), (8, "the way back of do(smiling) under none")],
)
def test_a_network_that_answers_nan_is_refused_and_what_is_finished_kept(
    tmp_path: Path, good: int, subject: str
) -> None:
    """From some call on."""
    model, calls = tiny_model(), count(1)
    model.denoiser.network.register_forward_hook(
        lambda network, given, output: output if next(calls) <= good else output * torch.nan
    )
    run = evaluation(tmp_path / "run", asked(images=2), model, cache=tmp_path / "noise")
    with refused(subject, "finite"):
        run.run()
    assert len(read_results(tmp_path / "run").rows) == (2 if good == 8 else 0)
    assert len(list((tmp_path / "noise").rglob("*.safetensors"))) == (2 if good else 0)


# Beginning anew ---------------------------------------------------------------------------------


def test_a_run_is_discarded_whole_and_nothing_else(tmp_path: Path) -> None:
    before = evaluation(tmp_path, asked(images=5), block=2, pictures=1)
    assert not before.folder.is_finished()
    before.folder.discard()  # there is nothing
    (tmp_path / "results-0-of-1.jsonl").write_text('{"kind": "r')  # killed at its first line
    assert not before.folder.is_finished()
    before.run()
    assert before.folder.is_finished()
    (tmp_path / "features" / "own.safetensors").write_text("mine")
    run = evaluation(tmp_path, asked(images=3), block=2, pictures=1)
    with refused("results", "one run", "--out"):
        run.folder.is_finished()
    with refused("results", "an evaluation of 'tiny'", "got an evaluation of 'other'", "--out"):
        evaluation(tmp_path, asked(name="other")).folder.discard()
    run.folder.discard()
    assert [path.name for path in tmp_path.rglob("[!.]*")] == ["features", "own.safetensors"]
    assert len(run.run().distances) == 6  # of its own features alone
    (tmp_path / "features" / "own.safetensors").unlink()
    run.folder.discard()
    assert not list(tmp_path.rglob("[!.]*"))


# The page of the documentation ------------------------------------------------------------------

PAGE = (Path(__file__).parents[1] / "docs" / "evaluate.md").read_text()


def test_every_field_of_a_result_file_is_documented(whole) -> None:
    (*_, row), (distance, *_) = whole.rows.values(), whole.distances.values()
    entries = [whole.header, whole.real[NAMES[0]], row, distance]
    entries += [
        {"kind": "run", "cycles": 10, "groups": None},
        {"kind": "row", "repeated": None, "fresh": None},
    ]
    entries += whole.minimality.values()
    schema = PAGE.split("## Result files")[1]
    for entry in entries:
        section = schema.split(f"**`{entry['kind']}`**")[1].split("\n**`")[0]
        for name in set(entry) - {"kind"}:
            assert f"`{name}`" in section, (entry["kind"], name)
    for name in (*row["truth"], *whole.header["model"], *whole.header["metrics"]):
        assert f"`{name}`" in schema


def test_every_kind_of_experiment_is_documented_and_the_file_is_one(tmp_path: Path) -> None:
    for name in experiments():
        data, kind = name.split("/")
        assert f"`{data}`" in PAGE
        assert f"`{kind}`" in PAGE or f"`{name}`" in PAGE
    (text, *_) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "mine.yaml").write_text(text)
    mine = find_experiment(str(tmp_path / "mine.yaml"))
    assert set(yaml.safe_load(text)) == set(type(mine).model_fields)
    assert len(mine.questions) == 1 + 4 + 5


def test_blocks_are_of_about_one_size(tmp_path: Path) -> None:
    """So that a compiled network is seldom asked for rows that fill it up."""
    for block, wanted in ((None, 6), (4, 3), (6, 6), (1, 1)):
        assert evaluation(tmp_path, block=block).block_size == wanted
