"""The paper's tables as named experiments: a data set, a slash, a kind of sweep.

>>> find_experiment("celeba-hq/inv").guidance[:3]
('none', 'cfg:2.5', 'fcfg:affected=2.5,invariant=1.0')

A kind alone is built from the attributes of a model.

>>> find_experiment("inv", graph=CausalGraph({"age": [], "sex": []})).do
('age', 'sex')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import combinations, product
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from fcfg.causal.graph import CausalGraph
from fcfg.evaluation.experiment import Experiment, parts_of, targets_of
from fcfg.guidance import Guidance
from fcfg.model import AnyModel
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.support.config_files import looks_like_a_file, read_yaml, validate
from fcfg.support.errors import InputError, quoted
from fcfg.support.hashing import digest_of

_WEIGHTS = (1.2, 1.5, 1.7, 2.0, 2.5, 3.0)  # of the paper's sweeps, beside 1
_TWO_AT_ONCE = ((1.0, 1.0), (1.0, 2.5), (2.5, 1.0), (2.5, 2.0), (2.5, 2.5), (2.5, 3.0))
_THREE_AT_ONCE = (*product((1.0, 2.5), repeat=3), (2.5, 2.5, 2.0), (2.5, 2.5, 3.0))


class _Family(BaseModel, frozen=True, extra="forbid"):
    """The experiments on one data set."""

    do: tuple[str, ...]  #: attributes that are intervened on, one at a time
    images: int = 1000
    unguided: int = 1  #: number of lower weights for which the invariant group has weight 1
    together: bool = False  #: whether there are interventions on several attributes
    balance: tuple[str, ...] | None = None  #: attributes to balance; None means all discrete ones
    further: tuple[str, ...] = ()  #: attributes of the model that are not intervened on
    continuous: str = "permuted"  #: values of continuous targets


_FILE = Path(__file__).with_suffix(".yaml")
_PRESETS = read_yaml(_FILE, _FILE.name, expected="the presets", do="install fcfg again")
_FAMILIES = {name: _Family.model_validate(data) for name, data in _PRESETS["data"].items()}


def _each(family: _Family, names: Sequence[str], weights: Sequence[float]) -> str:
    """Return a guidance with one group for each attribute, with weight 1 for other attributes."""
    chosen = dict(zip(names, weights, strict=False))
    every = (*family.do, *family.further)
    return "fcfg:" + ",".join(f"{name}={chosen.get(name, 1.0)}" for name in every)


def _kinds(family: _Family) -> dict[str, dict[str, Any]]:
    do, plain = family.do, [f"cfg:{weight}" for weight in _WEIGHTS]
    held = [1.0] * family.unguided + [1.2] * (len(_WEIGHTS) - family.unguided)
    weights = zip(_WEIGHTS, held, strict=True)
    pairs = {
        "+".join(pair): [_each(family, pair, weights) for weights in _TWO_AT_ONCE]
        for pair in combinations(do, 2)
    }
    groups = [_each(family, do, weights) for weights in _THREE_AT_ONCE]
    own: dict[str, dict[str, Any]] = {
        "aff": {"guidance": [*plain, *(f"fcfg:affected={a},invariant={i}" for a, i in weights)]},
        "pairs": {"do": list(pairs), "also": pairs},
        "triple": {"do": ["+".join(do)], "guidance": ["cfg:2.5", *groups]},
        "cost": {"do": do[:1]},
    }
    return {kind: fields | own.get(kind, {}) for kind, fields in _PRESETS["kinds"].items()}


_KINDS = tuple(_PRESETS["kinds"])
_TOGETHER = {"pairs": 2, "triple": 3}  # attributes that are set at once
_ANY_MODEL = ("baselines", "default")  # kinds that fit every kind of model
#: Kinds that are built from the attributes of any model.
OWN = tuple(kind for kind in _KINDS if kind != "demo")


def experiments(graph: CausalGraph | None = None, *, groups: bool = True) -> tuple[str, ...]:
    """Return the names of the experiments in the package, or of those that fit a model.

    The model has this ``graph``, and guidance with several ``groups`` if its traits say so.
    """
    named = tuple(
        f"{name}/{kind}"
        for name, family in _FAMILIES.items()
        for kind in _KINDS
        if (family.together or kind not in _TOGETHER) and (name == "portraits" or kind in OWN)
    )
    if graph is None:
        return named
    fitting = tuple(name for name in (*OWN, *named) if _fits(name, graph))
    return tuple(name for name in fitting if groups or name.rpartition("/")[2] in _ANY_MODEL)


def asks_the_model(name: str) -> bool:
    """Return whether an experiment depends on the model."""
    return name.rpartition("/")[2] in (*_ANY_MODEL, "factorial")


def _fits(name: str, graph: CausalGraph) -> bool:
    data = name.rpartition("/")[0]
    if data and not set(_FAMILIES[data].do) <= set(graph.nodes):
        return False
    try:
        for do, text in find_experiment(name, graph=graph).questions:
            Guidance.parse(parts_of(text)[0]).partition(graph, targets_of(do))
    except InputError:
        return False
    return True


def find_experiment(
    source: str, *, graph: CausalGraph | None = None, model: AnyModel | None = None, **changes: Any
) -> Experiment:
    """Return a named experiment, one built from a model's attributes, or one from a YAML file.

    Args:
        source: Name such as 'portraits/core'; a kind alone, such as 'core'; or the path of a YAML
            file with ``do``, ``guidance`` and other fields of an
            :class:`~fcfg.evaluation.experiment.Experiment`.
        graph: Causal graph of the model, which a kind alone needs.
        model: The model, whose usual settings and default 'baselines' asks for, 'default' and
            'demo' the latter alone, and 'factorial' its compared methods; without one, those of a
            diffusion model, and none.
        changes: Fields to change; None keeps a field.
    """
    if source in OWN or source in experiments():
        name, _, kind = source.rpartition("/")
        family = _FAMILIES[name] if name else _own_family(kind, graph)
        values: dict[str, Any] = {"name": source, "do": family.do, "images": family.images}
        values |= {"balance": family.balance, "continuous": family.continuous}
        values |= _kinds(family)[kind]
        values |= {} if model is None else _asked(source, model, values["do"], changes)
    else:
        values = {"name": Path(source).stem} | _read(source)
    changes = {key: value for key, value in changes.items() if value is not None}
    return validate(Experiment, values | changes, f"experiment {source}")


def _asked(
    source: str, model: AnyModel, dos: Sequence[str], changes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what an experiment takes from a model; refuse one that does not fit it."""
    data, _, kind = source.rpartition("/")
    if not (model.traits.groups or changes.get("guidance") or kind in _ANY_MODEL):
        fitting = [f"{data}/{own}" if data else own for own in _ANY_MODEL]
        raise InputError(
            f"experiment '{source}'",
            expected=f"one that fits a model of kind '{model.kind}': {quoted(fitting)}",
            got=f"'{kind}', which compares guidance with several groups",
            do=f"evaluate '{fitting[0]}', or a YAML file with settings of this model",
        )
    if kind == "factorial":
        return _compared(source, model, dos)
    if kind not in (*_ANY_MODEL, "demo"):
        return {}
    plans = {do: model.plan([do]) for do in dos}
    if kind == "demo":
        return {"also": {do: [f"{p.setting!r} @ {p.sampling}"] for do, p in plans.items()}}
    also = {"also": {do: [repr(plan.setting)] for do, plan in plans.items()}}
    if kind == "baselines":
        return also | dict(model.traits.compared or {})
    sampling = plans[dos[0]].sampling  # none for models without steps
    return also | ({} if sampling is None else {"sampling": str(sampling)})


def _compared(source: str, model: AnyModel, dos: Sequence[str]) -> dict[str, Any]:
    """Return the methods of a model at calibrated, published and all measured weights."""
    known = model.methods if isinstance(model, CounterfactualPipeline) else None
    if known is None:
        raise InputError(
            f"experiment '{source}'",
            expected="a model whose methods were compared",
            got="none",
            do="run 'fcfg calibrate MODEL --methods all'",
        )
    methods: dict[str, dict[str, Any]] = {}
    for name, method in known.methods.items():
        at = f" @ {method.sampling}"
        for do in (do for do in dos if do in method.weights):
            weights = sorted({*known.measured, method.weights[do].weight})
            methods.setdefault(name, {})[do] = {
                "calibrated": f"{method.guidance_for(do)!r}{at}",
                "published": method.published and method.published + at,
                "weights": [f"{method.guidance_for(do, weight)!r}{at}" for weight in weights],
            }
    asked = [do for do in dos if any(do in own for own in methods.values())]
    judge = "" if model.judge is None else digest_of(model.judge)
    return {"do": asked, "methods": methods, "calibrated_by": judge}


def _own_family(kind: str, graph: CausalGraph | None) -> _Family:
    """Return the experiments on the attributes of a model; images are not balanced."""
    if graph is None:
        raise InputError(
            f"experiment '{kind}'",
            expected="a model, from whose attributes it is built",
            got="none",
            do=f"write 'fcfg evaluate MODEL {kind}', or a data set before it: 'portraits/{kind}'",
        )
    names, least = graph.nodes, _TOGETHER.get(kind, 1)
    do = names[:3] if kind in _TOGETHER else names
    if kind == "inv":  # which needs an invariant group
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
    return _Family(do=do, balance=(), further=further, continuous="quantiles")


def _read(source: str) -> dict[str, Any]:
    subject = f"experiment '{source}'"
    expected = "a name that 'fcfg evaluate --list' shows, or a YAML file"
    if not looks_like_a_file(source):
        close = " or ".join(map(repr, get_close_matches(source, (*OWN, *experiments()), n=3)))
        raise InputError(
            subject,
            expected=expected,
            got="neither",
            do=f"did you mean {close}?"
            if close
            else "see 'fcfg evaluate --list', or --list MODEL for those that fit a model",
        )
    do = "correct it; see 'fcfg evaluate --show portraits/core'"
    return read_yaml(Path(source), subject, expected=expected, do=do)
