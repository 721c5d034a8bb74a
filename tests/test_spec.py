from __future__ import annotations

from dataclasses import fields

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fcfg import CausalGraph, Guidance, NoiseSchedule, Partition
from fcfg.guidance import APG, CFG, CFGPlusPlus
from fcfg.guidance.rule import Options
from refusal import refused

GRAPH = CausalGraph({"age": [], "finding": ["age"], "sex": []})
SCHEDULE = NoiseSchedule()
GRID = (1000, 750, 500, 250, 0)

numbers = st.floats(0, 1)  # legal for every rule
names = st.text("abcé _-()1", min_size=1).filter(lambda name: name == name.strip())


RULES = ["cfg", "cfgpp", "apg", "fcfg", "fcfgpp", "fapg"]
OPTIONS = {"start": st.floats(0, 0.45), "stop": st.floats(0.5, 1), "raw": st.booleans()}
OPTIONS |= {"eta": numbers, "momentum": st.floats(-0.9, 0.9), "radius": st.floats(0.1)}
options = st.fixed_dictionaries({}, optional=OPTIONS)


@given(st.sampled_from(RULES), numbers, st.dictionaries(names, numbers, min_size=1), options)
def test_the_text_form_parses_back(rule: str, weight: float, weights: dict, options: dict) -> None:
    make = getattr(Guidance, rule)
    made = make(**weights) if rule.startswith("f") else make(weight)
    own = {"start", "stop"} | (set() if rule.endswith("cfg") else {"raw"})
    own |= {"eta", "momentum", "radius"} if "apg" in rule else set()
    guidance = made.replace(**{name: value for name, value in options.items() if name in own})
    again = Guidance.parse(repr(guidance))
    assert again == guidance
    assert hash(again) == hash(guidance)


def test_the_text_form_is_what_the_architecture_says() -> None:
    far = Guidance.fapg(smiling=2.5, male=2.0).replace(eta=0.5, radius=float("inf"), stop=0.9)
    for text, guidance in {
        "none": Guidance.none(),
        "none;anchor=true": Guidance.none().replace(anchor=True),
        "contrast:1.5;anchor=true": Guidance.contrast(1.5).replace(anchor=True),
        "cfg:3.0": Guidance.cfg(np.float64(3)),
        "fcfg:affected=3.0,invariant=1.2": Guidance.fcfg(affected=3.0, invariant=1.2),
        "cfg++:0.02": Guidance.cfgpp(0.02),
        "fcfg++:affected=0.02,invariant=0.008": Guidance.fcfgpp(affected=0.02, invariant=0.008),
        "cfg++:0.5;raw=true": Guidance.cfgpp(0.5).replace(raw=True),
        "cfg:2.0;tolerance=0.005": Guidance.cfg(2).replace(tolerance=0.005),
        "apg:3.0": Guidance.apg(3.0),
        "fapg:smiling=2.5,male=2.0;stop=0.9;eta=0.5;radius=inf": far,
    }.items():
        assert repr(guidance) == text
        assert Guidance.parse(text) == guidance
    expected = Guidance.fcfg(affected=3.0, invariant=1.2).replace(start=0.5)  # spaces are read
    assert Guidance.parse(" fcfg : affected = 3, invariant=1.2 ; start=0.5 ") == expected
    assert Guidance.parse(" none ") == Guidance.none()
    assert Guidance.cfg(2).replace(tolerance=0) == Guidance.cfg(2)


def test_the_options_of_apg_are_the_papers_and_type_checkers_know_all() -> None:
    assert Guidance.apg(2.0).rule == APG(eta=0.0, momentum=-0.75, radius=2.5)
    declared = {each.name for made in (Guidance, CFG, APG, CFGPlusPlus) for each in fields(made)}
    assert declared - {"rule", "factored", "weights"} == set(Options.__annotations__)


def test_what_means_nothing_is_refused() -> None:
    for weight in (-1e7, np.nan, np.inf, True, "3", 10**400):
        refused("weight of 'all'").by(Guidance.cfg, weight)
    refused("weight of 'all'").by(Guidance.cfgpp, 1.5)
    refused("weight of 'affected'").by(Guidance.fcfgpp, affected=-0.1)
    refused("name").by(Guidance.fcfg, **{"a,b": 1})
    refused("guidance").by(Guidance, "foo", False, ())
    refused("guidance").by(Guidance, None, False, (("all", 3),))
    nameless = "cfgpp:0.02", "fcfgpp:a=0.02", "fcfg:a=1,a=2", "fcfg:a=x", "fcfg:3"
    for text in (3, *nameless, "cfg:affected=3", "cfg:3;start", "none:3"):
        refused("guidance").by(Guidance.parse, text)
    for text in ("cgf:3", "", "cfg"):
        refused(f"guidance '{text}'").by(Guidance.parse, text)
    refused("guidance cfg").by(Guidance.fcfg)
    refused("guidance none").by(Guidance.none().replace, start=0.5)
    refused("guidance apg").by(Guidance.apg(1).replace, raduis=1)
    for name, value in {"eta": 2, "momentum": -1, "radius": 0}.items():
        refused(f"option {name}").by(Guidance.apg(1).replace, **{name: value})
    refused("option start").by(Guidance, CFG(), False, (), start=0.9, stop=0.1)
    cfg = Guidance.cfg(2).replace
    refused("guidance cfg").by(cfg, eta=0.5)
    for interval in ({"start": 1.0}, {"start": 0.5, "stop": 0.5}):
        refused("option start").by(cfg, **interval)
    refused("option stop").by(cfg, stop=0)
    for tolerance in (-0.1, np.nan, "much", True):
        refused("option tolerance").by(cfg, tolerance=tolerance)
    refused("option tolerance").by(cfg, tolerance=0.01, anchor=True)
    refused("option drawn_noise").by(Guidance.parse, "cfg:2;drawn_noise=true")
    refused("option drawn_noise").by(cfg, anchor=True, drawn_noise=2)
    refused("option raw").by(Guidance.parse, "cfg++:0.1;raw=7")


def test_names_of_groups_choose_the_partition_and_must_match() -> None:
    def groups(guidance: Guidance) -> Partition:
        return guidance.partition(GRAPH, ["age"])

    assert groups(Guidance.none()) == Partition.single(GRAPH)
    assert groups(Guidance.cfg(3)) == Partition.single(GRAPH)
    two = Guidance.fcfg(affected=3, invariant=1)
    assert groups(two) == Partition.by_intervention(GRAPH, ["age"])
    assert groups(Guidance.fcfg(sex=1, age=2, finding=3)) == Partition.by_attribute(GRAPH)
    given = Partition({"a": ["age", "sex"], "b": ["finding"]})
    assert Guidance.fcfg(a=1, b=2).partition(GRAPH, ["age"], given) == given
    whole, part = Partition({"a": ["age", "sex"], "b": ["finding"]}), Partition({"a": ["age"]})
    for text, groups, wrong in (
        ("affected=3", None, "'invariant'"),
        ("age=3,sex=1", None, "'finding'"),
        ("age=3,sex=1,finding=1,hat=1", None, "'hat'"),
        ("affected=3,invariant=1,age=1", None, "'age'"),
        ("a=3,b=1", None, "partition="),
        ("a=3", whole, "'b'"),
    ):
        with refused("guidance fcfg", wrong):
            Guidance.parse(f"fcfg:{text}").partition(GRAPH, ["age"], groups)
    for guidance, groups in ((Guidance.cfg(3), whole), (Guidance.fcfg(a=3), part)):
        refused("partition").by(guidance.partition, GRAPH, ["age"], groups)


def test_groups_without_effect_are_left_out_and_start_and_stop_are_shares_of_the_way() -> None:
    everything = Partition.by_intervention(GRAPH, ["age", "sex"])  # invariant is empty
    table = Guidance.fcfg(affected=3, invariant=1.2).table(everything, GRID, SCHEDULE)
    assert table.groups == ("affected",)
    guidance = Guidance.fcfg(age=3, sex=0, finding=lambda u: float(u > 0.6))
    table = guidance.table(Partition.by_attribute(GRAPH), GRID, SCHEDULE)
    assert table.groups == ("age", "finding")
    assert table.weights.tolist() == [[3, 0], [3, 0], [3, 0], [3, 1]]
    assert Guidance.cfg(0).table(Partition.single(GRAPH), GRID, SCHEDULE).groups == ()
    one, guidance = Partition.single(GRAPH), Guidance.cfg(2).replace(start=0.25, stop=0.75)
    assert guidance.table(one, GRID, SCHEDULE).guided == (False, True, True, False)
    fine = guidance.table(one, range(1000, -1, -1), SCHEDULE).guided
    assert [share for share, on in enumerate(fine) if on] == list(range(250, 750))
    assert Guidance.none().table(one, GRID, SCHEDULE).guided == (False,) * 4
    with refused("guidance cfg:2.0;start=0.9", "at least one step"):
        Guidance.cfg(2).replace(start=0.9).table(one, GRID, SCHEDULE)


def test_weights_may_be_functions_of_the_way_and_lambda_is_scaled_to_the_grid() -> None:
    def ramp(share: float) -> float:
        return 4 * share

    guidance = Guidance.fcfg(affected=ramp, invariant=1)
    table = guidance.table(Partition.by_intervention(GRAPH, ["age"]), GRID, SCHEDULE)
    assert table.weights[:, 0].tolist() == [0, 1, 2, 3]
    assert repr(guidance) == "fcfg:affected=<ramp>,invariant=1.0"
    with refused("weight of 'all'", "a number", "function"):
        Guidance.cfg(lambda share: ramp).table(Partition.single(GRAPH), GRID, SCHEDULE)
    with refused("weight of 'all'", "λ from 0 to 1", "2.0"):
        Guidance.cfgpp(ramp).table(Partition.single(GRAPH), GRID, SCHEDULE)
    one = Partition.single(GRAPH)
    unit = Guidance.cfgpp(0.5).table(one, range(1000, -1, -1), SCHEDULE).weights
    assert unit.tolist() == [[0.5]] * 1000
    assert Guidance.cfgpp(0.5).table(one, GRID, SCHEDULE).weights.max() > 1
    raw = Guidance.cfgpp(0.5).replace(raw=True).table(one, GRID, SCHEDULE).weights
    assert raw.tolist() == [[0.5]] * 4
