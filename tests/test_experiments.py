"""Which questions are asked, of which images, and what a model is asked with."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import nn

from evaluations import CFG, FCFG, SIZE, asked, folder_model, tiny_model
from face_folder import write_table
from fcfg.causal.attributes import AttributeSpace, Binary, Categorical, Continuous
from fcfg.causal.graph import CausalGraph
from fcfg.datasets import portraits
from fcfg.datasets.base import Examples
from fcfg.evaluation import Experiment, choose_subset, experiments, find_experiment
from fcfg.evaluation.measurements import Evaluators, find_evaluators, judge_of
from fcfg.evaluation.presets import OWN
from fcfg.evaluation.provenance import collect_provenance
from fcfg.evaluation.subset import balanced_rows, draw_targets
from fcfg.guidance import Guidance
from fcfg.metrics import LPIPS, Missing
from fcfg.sampling import PRESETS
from fcfg.support.config_files import to_yaml, validate
from fcfg.support.hashing import digest_of
from refusal import all_refused, refused
from runs import NO_FOLDERS
from stored import alexnet, images, linear_layers
from trees import usual

# Questions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", experiments())
def test_every_experiment_asks_what_its_data_set_can_answer(name: str, tmp_path: Path) -> None:
    """As a user who sets nothing asks, but for the demo, which is to be quick."""
    space, graph = usual(name.split("/")[0])
    experiment, file = find_experiment(name), tmp_path / "mine.yaml"
    file.write_text(to_yaml(experiment))
    assert find_experiment(str(file)) == experiment
    assert experiment.title
    assert experiment.guidance[0] == "none"
    wanted = "dpm-2m karras 10" if name == "portraits/demo" else str(PRESETS["default"])
    assert experiment.sampling == wanted
    space.check_known(experiment.targets, "experiment")
    assert len(set(experiment.questions)) == len(experiment.questions)
    for do, text in experiment.questions:
        Guidance.parse(text).partition(graph, do.split("+") if do else ())
        assert repr(Guidance.parse(text)) == text


def test_the_core_is_what_the_issue_says() -> None:
    core = find_experiment("celeba-hq/core")
    assert core.do == ("smiling", "male", "young")
    assert core.guidance == (
        *("none", CFG, FCFG, "cfg++:0.02", "fcfg++:affected=0.02,invariant=0.008"),
        *("apg:3.0", "fapg:affected=3.0,invariant=1.2"),
    )
    assert core.questions[0] == ("", "none")
    assert len(core.questions) == 1 + 3 * 7
    assert core.reverse


def test_interventions_at_once_have_guidances_of_their_own() -> None:
    pairs = find_experiment("portraits/pairs")
    assert pairs.do == ("smiling+male", "smiling+young", "male+young")
    assert pairs.targets == ("smiling", "male", "young")
    per_pair = [[text for do, text in pairs.questions if do == pair] for pair in pairs.do]
    assert all(len(texts) == 3 + 6 for texts in per_pair)
    assert "fcfg:smiling=2.5,male=1.0,young=1.0" in per_pair[0]
    assert "portraits-causal/pairs" not in experiments()


def test_no_guidance_comes_first_and_nothing_twice() -> None:
    assert asked(guidance=("cfg:3", "cfg:3.0", "none")).guidance == ("none", CFG)
    assert asked(guidance=()).guidance == ("none",)
    assert asked(composition=False).questions[0] == ("smiling", "none")
    spaced = asked(do=(" smiling", "smiling + male"), also={"smiling +male": ["apg:2"]})
    assert spaced.do == ("smiling", "smiling+male")
    assert spaced.questions[-1] == ("smiling+male", "apg:2.0")
    assert find_experiment("portraits/core", images=None) == find_experiment("portraits/core")
    changed = find_experiment("portraits/core", images=50, reverse=False)
    assert (changed.images, changed.reverse) == (50, False)


def test_sampling_is_one_text_and_a_file_is_called_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"{ASKED}name: ours")
    assert find_experiment(str(file)).name == "ours"
    file.write_text(f"{ASKED}sampling: heun")
    found = find_experiment(str(file))
    assert (found.name, found.sampling) == ("mine", "heun karras 20")
    assert find_experiment(str(file), sampling=7).sampling == "dpm-2m karras 7"
    assert find_experiment("portraits/demo", sampling="paper").sampling == "ddim uniform 1000"


def test_an_unknown_experiment_suggests_the_nearest() -> None:
    for name, advice in (
        ("portraits/cor", "did you mean 'portraits/core' or '"),
        ("corr", "did you mean 'core'?"),
        ("something/else", "see 'fcfg evaluate --list'"),  # not 47 names
        ("mine.yaml", ""),
    ):
        with refused(name, advice):
            find_experiment(name)


ASKED = "do: [smiling]\nguidance: []\n"


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("do: [smiling", "experiment '"),
        ("seed: 1\nseed: 2", "experiment '"),
        ("- smiling", "experiment '"),
        ("do: [smiling]", "'guidance'"),
        *((f"do: [smiling]\nguidance: {text}", "guidance") for text in ("3", "null", "cfg:3")),
        ("do: [smiling]\nguidance: [cgf:3]", "guidance"),
        ("do: [smiling]\nguidnace: [cfg:3]", ""),
        (ASKED + "image: 3", "'image'"),
        (ASKED + "images: 0", "'images'"),
        (ASKED + "sampling: huen uniform 10", "solver"),
        (ASKED + "sampling: heun kerras 10", "grid"),
        (ASKED + "sampling: true", "sampling"),
        *((f"{ASKED}also: {text}", "also") for text in ("null", "['cfg:2']", "{smiling: 2}")),
        (ASKED + "also: {male: [cfg:3]}", "also"),
        *((f"do: {do}\nguidance: []", "do") for do in ([], "[a, a]", "[a+]", "[a+a]")),
        *((f"{ASKED}name: {name}", "name") for name in (*NO_FOLDERS, "a//b", "a/../b", "a/")),
    ],
)
@pytest.mark.parametrize("anchor", ["", "\nanchor: true"])
def test_a_file_that_is_no_experiment_is_refused(text, subject: str, anchor, tmp_path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text + anchor)
    with refused("" if anchor else subject):
        find_experiment(str(file))


def test_a_path_that_holds_no_text_with_an_end_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    for path in ("/dev/zero", tmp_path / "pipe.yaml", tmp_path, tmp_path / "bytes.yaml"):
        all_refused(f"experiment '{path}'", partial(find_experiment, str(path)))
    all_refused("mine", partial(validate, Experiment, "smiling", "mine"))


# A model of one's own ---------------------------------------------------------------------------

OWN_GRAPHS = {
    "one": CausalGraph({"digit": []}),
    "chain": CausalGraph({"a": [], "b": ["a"]}),
    "letters": CausalGraph({"width": [], "shade": ["width"], "letter": []}),
    "five": CausalGraph({name: [] for name in ("e", "d", "c", "b", "a")}),
}


@pytest.mark.parametrize("model", OWN_GRAPHS)
def test_what_fits_a_model_asks_what_it_can_answer(model: str, tmp_path: Path) -> None:
    graph = OWN_GRAPHS[model]
    fitting = experiments(graph)
    assert set(fitting) <= set(OWN)
    assert {"core", "aff", "cfgpp", "apg", "fid", "cost"} <= set(fitting)
    assert ("pairs" in fitting) == (len(graph.nodes) >= 2)
    assert ("triple" in fitting) == (len(graph.nodes) >= 3)
    assert ("inv" in fitting) == (model != "one")
    for kind in fitting:
        experiment = find_experiment(kind, graph=graph, images=7)
        assert (experiment.name, experiment.images, experiment.balance) == (kind, 7, ())
        assert experiment.continuous == "quantiles"
        for do, text in experiment.questions:
            Guidance.parse(text).partition(graph, do.split("+") if do else ())
        (tmp_path / "own.yaml").write_text(to_yaml(experiment))
        assert find_experiment(str(tmp_path / "own.yaml")) == experiment


def test_a_kind_asks_of_a_model_what_it_asks_of_the_papers_data() -> None:
    """The same questions, of its own attributes, in its own order."""
    graph = CausalGraph({name: [] for name in ("smiling", "male", "young")})
    for kind in OWN:
        own, named = find_experiment(kind, graph=graph), find_experiment(f"celeba-hq/{kind}")
        assert own.questions == named.questions
    every = find_experiment("core", graph=OWN_GRAPHS["five"])
    assert every.do == ("e", "d", "c", "b", "a")
    assert find_experiment("inv", graph=OWN_GRAPHS["chain"]).do == ("b",)  # a changes all
    pairs = find_experiment("pairs", graph=OWN_GRAPHS["five"])
    assert pairs.do == ("e+d", "e+c", "d+c")
    assert ("e+d", "fcfg:e=1.0,d=2.5,c=1.0,b=1.0,a=1.0") in pairs.questions


def test_a_kind_that_does_not_fit_is_refused() -> None:
    for kind, model in (("pairs", "one"), ("triple", "chain"), ("inv", "one"), ("core", "")):
        graph = OWN_GRAPHS.get(model)
        all_refused(f"experiment '{kind}'", partial(find_experiment, kind, graph=graph))


def test_named_experiments_fit_a_model_that_has_their_attributes() -> None:
    for name in ("portraits", "portraits-causal", "nih-cxr14", "morphomnist"):
        fitting = {other for other in experiments(usual(name)[1]) if "/" in other}
        assert {f"{name}/core", f"{name}/aff"} <= fitting
        assert not fitting & {"embed/core", "embed/cost", "mimic-cxr/cost"}
    larger = CausalGraph({name: [] for name in ("smiling", "male", "young", "hat")})
    assert {"celeba-hq/core", "celeba-hq/inv"} <= set(experiments(larger))
    assert "celeba-hq/pairs" not in experiments(larger)  # its weights are not for a hat


# Images -----------------------------------------------------------------------------------------


def examples(n: int = 200, seed: int = 0) -> tuple[AttributeSpace, Examples]:
    """Files with attributes of all kinds, none of whose combinations is equally frequent."""
    rng = np.random.default_rng(seed)
    space = AttributeSpace(
        [Binary("male"), Categorical("hair", ["dark", "fair", "red"]), Continuous("age", 0, 90)]
    )
    table = {
        "male": (rng.random(n) < 0.3).astype(np.int64),
        "hair": rng.choice(3, n, p=[0.6, 0.3, 0.1]),
        "age": rng.uniform(0, 90, n),
    }
    names = tuple(f"{number}.png" for number in rng.permutation(n))
    return space, Examples(np.zeros((n, 3, 8, 8), np.uint8), table, names)


def chosen(
    space: AttributeSpace, some: Examples, balance: tuple[str, ...], count: int, seed: int = 0
) -> list[str]:
    return [some.names[row] for row in balanced_rows(space, some, balance, count, seed)]


@pytest.mark.parametrize("balance", [("male",), ("hair",), ("male", "hair")])
@pytest.mark.parametrize("count", [6, 20, 10**6])
def test_every_combination_is_equally_frequent(balance: tuple[str, ...], count: int) -> None:
    space, some = examples()
    rows = balanced_rows(space, some, balance, count, seed=0)
    cells = [tuple(some.attributes[name][row] for name in balance) for row in rows]
    levels = [range(3) if name == "hair" else range(2) for name in balance]
    assert {cell: cells.count(cell) for cell in product(*levels)} == {
        cell: len(rows) // len(set(cells)) for cell in product(*levels)
    }
    assert 0 < len(rows) <= count
    assert len(set(rows.tolist())) == len(rows)
    if count < 50:  # and there are as many as there can be
        assert len(rows) > count - len(set(cells))


def test_images_depend_on_the_seed_not_on_the_order_of_files_and_fewer_are_some_of_more() -> None:
    space, some = examples()
    order = np.random.default_rng(1).permutation(len(some))
    table = {name: column[order] for name, column in some.attributes.items()}
    shuffled = Examples(some.images[order], table, tuple(some.names[row] for row in order))
    for balance in ((), ("male",), ("male", "hair")):
        names = chosen(space, some, balance, 30)
        assert chosen(space, shuffled, balance, 30) == names == sorted(names)
        assert chosen(space, some, balance, 30, seed=1) != names
        assert set(chosen(space, some, balance, 18)) < set(names) or not balance
    lonely = Examples(some.images[:1], {n: c[:1] for n, c in some.attributes.items()}, ("a",))
    all_refused(
        "images balanced over",
        lambda: balanced_rows(space, some, ("male", "hair"), 5, 0),
        lambda: balanced_rows(space, lonely, ("male",), 10, 0),
    )


def test_held_out_images_of_a_folder(tmp_path: Path) -> None:
    pipeline = folder_model(tmp_path / "faces")
    subset = choose_subset(pipeline, asked(balance=("male",), images=8))
    assert len(subset) == 8
    assert subset.attributes["male"].mean() == 0.5
    about = {"format": "folder", "split": "test", "of": 40, "balanced": ["male"]}
    assert subset.about == about
    assert subset.drawn is None
    drawn = portraits.sample(42, 7, SIZE)
    rows = [int(name.removesuffix(".png")) for name in subset.names]
    assert torch.allclose(subset.images, drawn.images[rows], atol=1 / 127)
    by_default = choose_subset(pipeline, asked(images=40)).about["balanced"]
    assert by_default == ["smiling", "male", "young"]


def test_data_may_have_moved(tmp_path: Path) -> None:
    pipeline, moved = folder_model(tmp_path / "faces"), tmp_path / "moved"
    before = choose_subset(pipeline, asked(balance=()))
    (tmp_path / "faces").rename(moved)
    with refused("data 'folder' of the model", "no folder", "--data DIR"):
        choose_subset(pipeline, asked(balance=()))
    assert choose_subset(pipeline, asked(balance=()), data=moved).names == before.names
    del pipeline.provenance["training"]["data"]["path"]
    with refused("data 'folder' of the model", "got none", "--data DIR"):
        choose_subset(pipeline, asked())


def test_where_data_lay_is_known_to_the_folder_of_the_training_alone(
    tmp_path, monkeypatch
) -> None:
    """The model has their name; a folder of that name elsewhere is another."""
    pipeline, every = folder_model(tmp_path / "faces"), asked(balance=())
    before = choose_subset(pipeline, every).names
    pipeline.provenance["training"]["data"]["path"] = "faces"
    pipeline.folder = tmp_path / "run"
    monkeypatch.chdir(tmp_path)
    with refused("data 'folder' of the model", "got none", "--data DIR"):
        choose_subset(pipeline, every)
    run = tmp_path / "run/training/config.yaml"
    run.parent.mkdir(parents=True)
    run.write_text(f"data: {{path: {tmp_path / 'faces'}, cache: {tmp_path / 'cache'}}}")
    assert choose_subset(pipeline, every).names == before
    assert list((tmp_path / "cache").iterdir())
    for garbage, got in {"{": "expected YAML", "data: 3": "of the model: expected"}.items():
        run.write_text(garbage)
        with refused("", got, "--data DIR"):
            choose_subset(pipeline, every)
        assert choose_subset(pipeline, every, data=tmp_path / "faces").names == before


def test_images_that_were_trained_on_are_not_evaluated(tmp_path: Path) -> None:
    pipeline = folder_model(tmp_path / "faces", 4)
    names = [f"{number:03}.png" for number in range(6)]
    table = {name: [0, 1, 0, 1, 0, 1] for name in ("smiling", "male", "young")}
    parts = {"part": ["train"] * 4 + ["val"] * 2}
    write_table(tmp_path / "faces", {"file_name": names} | parts | table)
    with refused("data", "a test split", "train, val", "data.fractions"):
        choose_subset(pipeline, asked(balance=()))


def test_an_experiment_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    pipeline, drawn = folder_model(tmp_path / "faces", 4), tiny_model()
    for subject, model, experiment in (
        ("experiment 'tiny'", pipeline, asked(do=("glasses",))),
        ("experiment 'tiny', balance", pipeline, asked(balance=("beard",))),
        ("experiment 'tiny'", drawn, asked(balance=("male",))),
    ):
        all_refused(subject, partial(choose_subset, model, experiment))
    all_refused("--data", partial(choose_subset, drawn, asked(), data=tmp_path))
    pipeline.provenance = {}
    all_refused("model", partial(choose_subset, pipeline, asked()))
    # a model of some attributes of a drawn world
    drawn.provenance = {"training": {"data": {"format": "portraits-causal", "size": SIZE}}}
    all_refused("experiment 'tiny'", partial(choose_subset, drawn, asked()))


def test_drawings_are_those_kept_for_evaluation() -> None:
    subset = choose_subset(tiny_model(), asked(images=3, seed=2))
    seed = portraits.EVALUATION_SEED + 2
    assert subset.names == tuple(f"{seed}-0000000{number}.png" for number in range(3))
    assert torch.equal(subset.images, portraits.sample(3, seed, SIZE).images)
    assert subset.about == {"format": "portraits", "split": "evaluation", "seed": seed}


# Values to set ----------------------------------------------------------------------------------


@given(st.integers(2, 40), st.integers(0, 2**31))
def test_values_to_set(n: int, seed: int) -> None:
    space, some = examples(n, seed % 7)
    wanted = draw_targets(space, some.attributes, space.names, some.names, seed)
    factual = some.attributes
    assert (wanted["male"] == 1 - factual["male"]).all()
    assert (wanted["hair"] != factual["hair"]).all()
    assert set(wanted["hair"]) <= {0, 1, 2}
    assert sorted(wanted["age"]) == sorted(factual["age"])
    # A level is drawn for its image, whatever else is there.
    first = {name: column[:1] for name, column in factual.items()}
    alone = draw_targets(space, first, ["hair"], some.names[:1], seed)
    assert alone["hair"] == wanted["hair"][:1]
    assert list(alone) == ["hair"]


@given(st.lists(st.floats(0, 90), min_size=2, max_size=40).filter(lambda ages: len({*ages}) > 1))
@example([61.0] * 20 + [62.0])
def test_quantiles_are_values_that_occur_far_from_the_factual_ones(ages: list[float]) -> None:
    space = AttributeSpace([Continuous("age", 0, 90)])
    factual, names = np.array(ages), [str(row) for row in range(len(ages))]
    wanted = draw_targets(space, {"age": factual}, ["age"], names, 0, "quantiles")["age"]
    low, high = np.quantile(factual, [0.1, 0.9], method="nearest")
    if low == high:
        low, high = factual.min(), factual.max()
    assert set(wanted) <= {low, high} <= set(factual)
    assert (np.abs(wanted - factual) >= (high - low) / 2).all()
    again = draw_targets(space, {"age": factual}, ["age"], names, 1, "quantiles")["age"]
    assert (wanted == again).all()  # nothing is drawn


@pytest.mark.parametrize("continuous", ["permuted", "quantiles"])
def test_a_continuous_target_needs_another_value(continuous: str) -> None:
    space, same = AttributeSpace([Continuous("age", 0, 90)]), {"age": np.array([61.5, 61.5])}
    with refused("images, 'age'"):
        draw_targets(space, same, ["age"], ["a", "b"], 0, continuous)


def test_levels_are_drawn_evenly_and_from_the_seed() -> None:
    space, some = examples(600)
    one, other = (
        draw_targets(space, some.attributes, ["hair", "age"], some.names, seed) for seed in (0, 1)
    )
    further = (one["hair"] - some.attributes["hair"]) % 3
    assert 240 < (further == 1).sum() < 360
    assert all((one[name] != other[name]).any() for name in ("hair", "age"))


# Evaluators and provenance -----------------------------------------------------------------------


def test_networks_that_compute_the_same_have_one_digest() -> None:
    one, same = nn.Linear(2, 2), nn.Linear(2, 2)
    same.load_state_dict(one.state_dict())
    assert digest_of(one) == digest_of(same) == digest_of(same.double())
    assert re.fullmatch("[0-9a-f]{12}", digest_of(one))
    same.weight.data[0, 0] += 1e-6
    assert digest_of(one) != digest_of(same)
    assert digest_of(one, one) != digest_of(one)
    wide, high = nn.Linear(2, 3, bias=False), nn.Linear(3, 2, bias=False)
    high.weight.data = wide.weight.data.reshape(2, 3)  # the same numbers, for another network
    assert digest_of(wide) != digest_of(high)


def test_small_images_have_no_lpips_and_the_column_says_so(tmp_path: Path) -> None:
    (tmp_path / "ok.png").write_bytes(b"no weights")
    pipeline = tiny_model()
    file = tmp_path / "ok.png"  # which is read even where it is not used
    all_refused("LPIPS weights", partial(find_evaluators, pipeline, file, size=31))
    pipeline.judge = None
    all_refused("model", partial(judge_of, pipeline))
    evaluators = find_evaluators(tiny_model(), size=31)
    said = "no LPIPS: it takes images of at least 32 by 32 pixels"
    assert evaluators.about["lpips"] == {"missing": said}
    assert "inception" not in evaluators.about
    pair = torch.zeros(2, 3, 8, 8), torch.full((2, 3, 8, 8), 0.5)
    assert evaluators.distances(*pair) == [{"mae": 0.5, "lpips": None}] * 2


def test_weights_that_are_found_measure(nowhere: Path, tmp_path: Path) -> None:
    missing = find_evaluators(tiny_model(), fid=True).about
    assert all("FCFG_WEIGHTS" in missing[name]["missing"] for name in ("lpips", "inception"))
    assert (missing["mae"], missing["judge"]["width"]) == ({"range": "[-1, 1]"}, 4)
    torch.save(alexnet() | linear_layers(), tmp_path / "lpips_alex_full.pt")
    features = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(features).save(str(tmp_path / "inception_fid.pt"))
    found = find_evaluators(tiny_model(), tmp_path, tmp_path)
    assert found.about["lpips"]["network"] == "AlexNet v0.1"
    assert found.about["inception"]["weights"] == "inception_fid.pt"
    x, y = images(3), images(3, seed=1)
    lpips = [pair["lpips"] for pair in found.distances(x, y)]
    assert lpips == pytest.approx(LPIPS(alexnet() | linear_layers())(x, y).tolist())
    reading = found.judge.read(x)
    features = found.features(x, reading)
    assert features["judge"] is reading.features
    assert features["inception"].shape == (3, 3)
    plain = Evaluators(found.judge, Missing("LPIPS", "nothing"))
    assert list(plain.features(x, reading)) == ["judge"]


def test_provenance_names_the_commit_and_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["evaluate", "/somewhere/faces", "a b", "--out=/somewhere/x", "--shard", "0/2"]
    monkeypatch.setattr(sys, "argv", ["fcfg", *words])
    provenance = collect_provenance("cpu", "tf32", commit="abc")
    assert provenance["command"] == "fcfg evaluate faces 'a b' --out=x --shard 0/2"
    assert provenance["commit"] == "abc"
    assert provenance["environment"] == {
        "device": "CPU",
        "torch": torch.__version__,
        "precision": "float32",  # a CPU has no other
        "compiled": False,
    }
    assert collect_provenance("cpu", "bf16", compiled=True)["environment"]["precision"] == "bf16"


def test_only_a_repository_that_keeps_the_code_is_asked_for_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installed inside somebody else's repository, the code has no commit."""
    source = Path(sys.modules["fcfg.evaluation.provenance"].__file__ or "")
    command = ["git", "ls-files", "--error-unmatch", source.name]
    kept = subprocess.run(command, cwd=source.parent, capture_output=True).returncode == 0
    assert bool(collect_provenance("cpu", "float32")["commit"]) == kept
    # nor where there is no repository, nor git
    for name, value in (("GIT_DIR", str(tmp_path)), ("PATH", os.devnull)):
        monkeypatch.setenv(name, value)
        assert collect_provenance("cpu", "float32")["commit"] is None
