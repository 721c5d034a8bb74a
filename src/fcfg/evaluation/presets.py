"""The paper's tables as named experiments: a data set, a slash, a kind of sweep.

>>> find_experiment("celeba-hq/inv").guidance[:3]
('none', 'cfg:2.5', 'fcfg:affected=2.5,invariant=1.0')

A kind by itself is built from the attributes of a model.

>>> find_experiment("inv", graph=CausalGraph({"age": [], "sex": []})).do
('age', 'sex')
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import combinations, product
from pathlib import Path
from typing import Any

from fcfg.causal.graph import CausalGraph
from fcfg.evaluation.experiment import Experiment
from fcfg.guidance import Guidance
from fcfg.support.config_errors import validate
from fcfg.support.config_files import looks_like_a_file, read_yaml
from fcfg.support.errors import InputError, quoted

_WEIGHTS = (1.2, 1.5, 1.7, 2.0, 2.5, 3.0)  # of the paper's sweeps, beside 1


@dataclass(frozen=True)
class _Family:
    """What the paper, or we, ask of one data set."""

    do: tuple[str, ...]  #: attributes that are intervened on, one at a time
    images: int = 1000
    unguided: int = 1  #: for how many of the lower weights the invariant group has weight 1
    together: bool = False  #: whether several are intervened on at a time, too
    balance: tuple[str, ...] | None = None  #: of the images; None balances all that is discrete
    further: tuple[str, ...] = ()  #: attributes of the model that are not intervened on
    continuous: str = "permuted"  #: values that continuous attributes are set to


_FAMILIES = {
    "celeba-hq": _Family(("smiling", "male", "young"), together=True),
    "embed": _Family(("density", "circle"), unguided=4),
    "mimic-cxr": _Family(("sex", "race", "finding"), images=1500, unguided=2),
    "nih-cxr14": _Family(("sex", "view", "age", "effusion"), balance=("sex", "view")),
    "portraits": _Family(("smiling", "male", "young"), together=True),
    "portraits-causal": _Family(("age", "glasses", "hair", "sex", "smiling")),
}


def _pair(rule: str, affected: float, invariant: float) -> str:
    return f"{rule}:affected={affected},invariant={invariant}"


def _attribute_wise(family: _Family, names: Sequence[str], weights: Sequence[float]) -> str:
    chosen = dict(zip(names, weights, strict=True))
    every = (*family.do, *family.further)
    return "fcfg:" + ",".join(f"{name}={chosen.get(name, 1.0)}" for name in every)


def _core(family: _Family) -> dict[str, Any]:
    return {
        "title": "No guidance, and each rule, global and factored, at its strongest",
        "guidance": [
            *("cfg:3.0", _pair("fcfg", 3.0, 1.2)),
            *("cfg++:0.02", _pair("fcfg++", 0.02, 0.008)),
            *("apg:3.0", _pair("fapg", 3.0, 1.2)),
        ],
    }


def _aff(family: _Family) -> dict[str, Any]:
    factored = [
        _pair("fcfg", weight, 1.0 if number < family.unguided else 1.2)
        for number, weight in enumerate(_WEIGHTS)
    ]
    return {
        "title": "Weights from 1 to 3, global and for the affected group",
        "guidance": [*(f"cfg:{weight}" for weight in _WEIGHTS), *factored],
    }


def _inv(family: _Family) -> dict[str, Any]:
    weights = (1.0, 1.2, 1.5, 1.7, 2.0, 2.5)
    return {
        "title": "The weight of what should stay put, from 1 to that of the affected group",
        "guidance": ["cfg:2.5", *(_pair("fcfg", 2.5, weight) for weight in weights)],
    }


def _pairs(family: _Family) -> dict[str, Any]:
    tried = ((1.0, 1.0), (1.0, 2.5), (2.5, 1.0), (2.5, 2.0), (2.5, 2.5), (2.5, 3.0))
    also = {
        "+".join(pair): [_attribute_wise(family, pair, weights) for weights in tried]
        for pair in combinations(family.do, 2)
    }
    return {
        "title": "Two interventions at once: two groups against one group an attribute",
        "do": list(also),
        "guidance": ["cfg:2.5", _pair("fcfg", 2.5, 1.0)],
        "also": also,
    }


def _triple(family: _Family) -> dict[str, Any]:
    tried = list(product((1.0, 2.5), repeat=3))
    tried += [(2.5, 2.5, 2.0), (2.5, 2.5, 3.0)]
    return {
        "title": "All three interventions at once: one group an attribute",
        "do": ["+".join(family.do)],
        "guidance": [
            "cfg:2.5",
            *(_attribute_wise(family, family.do, weights) for weights in tried),
        ],
    }


def _cfgpp(family: _Family) -> dict[str, Any]:
    return {
        "title": "CFG++ beside CFG, global and factored",
        "guidance": [
            *("cfg:1.5", "cfg:3.0", _pair("fcfg", 1.5, 1.2), _pair("fcfg", 3.0, 1.2)),
            *("cfg++:0.01", "cfg++:0.02"),
            *(_pair("fcfg++", weight, 0.008) for weight in (0.01, 0.02)),
        ],
    }


def _apg(family: _Family) -> dict[str, Any]:
    return {
        "title": "APG beside CFG, global and factored",
        "guidance": [
            *("cfg:1.5", "cfg:3.0", _pair("fcfg", 1.5, 1.2), _pair("fcfg", 3.0, 1.2)),
            *("apg:1.5", "apg:3.0", _pair("fapg", 1.5, 1.2), _pair("fapg", 3.0, 1.2)),
        ],
    }


def _fid(family: _Family) -> dict[str, Any]:
    return {
        "title": "Fréchet distances to the factual images",
        "guidance": [
            text for weight in (2.0, 3.0) for text in (f"cfg:{weight}", _pair("fcfg", weight, 1.2))
        ],
        "reverse": False,
        "composition": False,
        "fid": True,
    }


def _cost(family: _Family) -> dict[str, Any]:
    return {
        "title": "Network rows and seconds for one counterfactual",
        "do": family.do[:1],
        "guidance": ["cfg:3.0", _pair("fcfg", 3.0, 1.2)],
        "images": 16,
        "reverse": False,
        "composition": False,
    }


def _demo(family: _Family) -> dict[str, Any]:
    return {
        "title": "What global and factored guidance do to what should stay put",
        "guidance": ["cfg:3.0", _pair("fcfg", 3.0, 1.2)],
        "also": {family.do[0]: ["cfg++:0.02", _pair("fcfg++", 0.02, 0.008)]},
        "images": 16,
        "steps": 10,
        "reverse": False,
        "composition": False,
    }


_KINDS: dict[str, Callable[[_Family], dict[str, Any]]] = {
    "core": _core,
    "aff": _aff,
    "inv": _inv,
    "pairs": _pairs,
    "triple": _triple,
    "cfgpp": _cfgpp,
    "apg": _apg,
    "fid": _fid,
    "cost": _cost,
    "demo": _demo,
}
_TOGETHER, _ONLY_DRAWN = {"pairs": 2, "triple": 3}, ("demo",)  # targets that are set at once
#: Kinds that are built from the attributes of any model.
OWN = tuple(kind for kind in _KINDS if kind not in _ONLY_DRAWN)


def experiments(graph: CausalGraph | None = None) -> tuple[str, ...]:
    """Names of the experiments that come with the package; of a model, those that fit it.

    Args:
        graph: Causal graph of a model.
    """
    named = tuple(
        f"{name}/{kind}"
        for name, family in _FAMILIES.items()
        for kind in _KINDS
        if (family.together or kind not in _TOGETHER)
        and (name == "portraits" or kind not in _ONLY_DRAWN)
    )
    return named if graph is None else tuple(n for n in (*OWN, *named) if _fits(n, graph))


def _fits(name: str, graph: CausalGraph) -> bool:
    data = name.rpartition("/")[0]
    if data and not set(_FAMILIES[data].do) <= set(graph.nodes):
        return False
    try:
        for do, text in find_experiment(name, graph=graph).questions:
            Guidance.parse(text).partition(graph, do.split("+") if do else ())
    except InputError:
        return False
    return True


def find_experiment(
    source: str, *, graph: CausalGraph | None = None, **changes: Any
) -> Experiment:
    """A named experiment, one that is built from a model's attributes, or one from a YAML file.

    Args:
        source: Such as 'portraits/core'; or a kind alone, such as 'core'; or the path of a YAML
            file with ``do``, ``guidance`` and whatever else an
            :class:`~fcfg.evaluation.experiment.Experiment` has.
        graph: Causal graph of the model, which a kind alone needs.
        changes: Fields to set otherwise; None leaves them as they are.
    """
    if source in OWN or source in experiments():
        name, _, kind = source.rpartition("/")
        family = _FAMILIES[name] if name else _own_family(kind, graph)
        values = {"name": source, "do": family.do, "images": family.images}
        values |= {"balance": family.balance, "continuous": family.continuous}
        values |= _KINDS[kind](family)
    else:
        values = {"name": Path(source).stem} | _read(source)
    values |= {key: value for key, value in changes.items() if value is not None}
    return validate(Experiment, values, f"experiment {source}")


def _own_family(kind: str, graph: CausalGraph | None) -> _Family:
    """What a kind asks of a model: of its attributes, and of the images as they come."""
    if graph is None:
        raise InputError(
            f"experiment '{kind}'",
            expected="a model, from whose attributes it is built",
            got="none",
            do=f"write 'fcfg evaluate MODEL {kind}', or a data set before it: 'portraits/{kind}'",
        )
    names, least = graph.nodes, _TOGETHER.get(kind, 1)
    do = names[:3] if kind in _TOGETHER else names
    if kind == "inv":  # elsewhere its weight is of nothing
        do = tuple(name for name in do if graph.affected([name]) < set(names))
    if len(do) < least:
        raise InputError(
            f"experiment '{kind}'",
            expected=f"a model of at least {least} attributes"
            if kind in _TOGETHER
            else "a model with an attribute that leaves another one as it is",
            got=quoted(names),
            do="choose another kind: 'fcfg evaluate --list MODEL' shows those that fit",
        )
    further = tuple(name for name in names if name not in do)
    return _Family(do, balance=(), further=further, continuous="quantiles")


def _read(source: str) -> dict[str, Any]:
    subject = f"experiment '{source}'"
    expected = "a name that 'fcfg evaluate --list' shows, or a YAML file"
    if not looks_like_a_file(source):
        close = get_close_matches(source, (*OWN, *experiments()), n=3)
        raise InputError(
            subject,
            expected=expected,
            got="neither",
            do=f"did you mean {' or '.join(map(repr, close))}?"
            if close
            else "see 'fcfg evaluate --list', or --list MODEL for those that fit a model",
        )
    advice = "mend it; see 'fcfg evaluate --show portraits/core'"
    return read_yaml(Path(source), subject, expected=expected, do=advice)
