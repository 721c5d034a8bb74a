"""Portraits: a world of drawn faces in which every counterfactual is known.

All noise is explicit. A counterfactual is therefore a drawing with the same noise and other
attributes. Two variants:

``portraits``
    Binary ``smiling``, ``male`` and ``young`` without arrows. An unobserved cause makes ``male``
    and ``young`` correlated as in CelebA, at about -0.3.
``portraits-causal``
    ``age`` (20 to 80) causes ``glasses`` (binary) and ``hair`` (dark, fair, red, grey); ``sex``
    and ``smiling`` are roots.

Each attribute is drawn through a continuous *factor*, its value plus noise, so that even a perfect
classifier errs: its AUROC for a binary attribute is 0.95. Twenty further factors make the person:
skin, hair, face, background, light, pose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from fcfg.causal.attributes import AttributeSpace, Binary, Categorical, Column, Continuous, Table
from fcfg.causal.graph import CausalGraph
from fcfg.causal.intervention import Intervention, intervened
from fcfg.datasets.portraits.drawing import draw_portraits
from fcfg.support.errors import check_among, check_integer, check_is

Columns: TypeAlias = dict[str, NDArray[np.float64]]
Device: TypeAlias = torch.device | str

# Half the distance between the means of a binary factor, in units of its noise: AUROC 0.95.
_OFFSET = 1.163
_PERSON = (
    *("skin", "warmth", "face", "face_long", "eyes", "nose", "lips"),
    *("hair_light", "hair_red", "hair_length", "grey", "fringe", "parting"),
    *("background", "clothes", "light", "exposure", "zoom", "tilt", "shift"),
)
_CHUNK = 1024  # drawings per call


@dataclass(frozen=True, eq=False)
class Portraits:
    """Drawings with their attributes, factors and noise."""

    images: Float[Tensor, "batch 3 size size"] = field(repr=False)  #: in [-1, 1]
    attributes: Table = field(repr=False)  #: values that a model is trained on
    factors: Columns = field(repr=False)  #: continuous strength of each attribute in the drawing
    noise: Columns = field(repr=False)  #: exogenous noise, kept by a counterfactual
    variant: str
    size: int

    def some(self, rows: slice | NDArray[np.int64]) -> Portraits:
        """Return some of the portraits."""
        columns = {name: getattr(self, name) for name in ("attributes", "factors", "noise")}
        own = {name: {k: c[rows] for k, c in table.items()} for name, table in columns.items()}
        return replace(self, images=self.images[rows], **own)


def space(variant: str = "portraits") -> AttributeSpace:
    """Attributes of a variant."""
    return AttributeSpace(_world(variant).attributes)


def graph(variant: str = "portraits") -> CausalGraph:
    """Causal graph of a variant."""
    return CausalGraph(_world(variant).parents)


def sample(
    n: int, seed: int = 0, size: int = 32, variant: str = "portraits", device: Device = "cpu"
) -> Portraits:
    """Draw portraits; the first n do not depend on the number drawn.

    >>> sample(2, seed=7).images.shape
    torch.Size([2, 3, 32, 32])

    The seed is for all noise, see :data:`~fcfg.datasets.portraits.EVALUATION_SEED`. The result is
    on the CPU; devices that compute the pixels differ in rounding, by about 1e-6.
    """
    return _draw(_noise(n, seed, size, variant), {}, variant, size, device)


def sample_in_chunks(
    n: int, seed: int = 0, size: int = 32, variant: str = "portraits", device: Device = "cpu"
) -> Iterator[Portraits]:
    """Draw the same portraits as :func:`sample`, with the same arguments, 1024 at a time.

    >>> [len(some.images) for some in sample_in_chunks(1500, size=8)]
    [1024, 476]
    """
    noise = _noise(n, seed, size, variant)
    for i in range(0, n, _CHUNK):
        chunk = {name: column[i : i + _CHUNK] for name, column in noise.items()}
        yield _draw(chunk, {}, variant, size, device)


def _noise(n: int, seed: int, size: int, variant: str) -> Columns:
    check_integer("portraits, n", n, 1, 10**8, do="1000 make a good test")
    check_integer("portraits, seed", seed, 0, 2**63 - 1, do="0 is the default")
    check_integer("portraits, size", size, 8, 1024, do="32 is the default")
    names = [*_world(variant).noise, *_PERSON]
    rows = np.random.default_rng(seed).standard_normal((n, len(names)))
    return {name: rows[:, i] for i, name in enumerate(names)}


def counterfactual(
    record: Portraits, do: Mapping[str, Intervention], device: Device = "cpu"
) -> Portraits:
    """Draw the true counterfactual: the same noise under an intervention.

    Args:
        record: Portraits from :func:`sample`.
        do: Intervention on every target: a value, a column, a function of the factual column, or
            a string; see :mod:`fcfg.causal.intervention`.
        device: Device that computes the pixels; the result is on the CPU.
    """
    check_is("intervention", do, Mapping, "a mapping from names to values")
    attributes = space(record.variant)
    attributes.check_known(do, "intervention")
    targets: Table = {
        name: intervened(attributes[name], value, record.attributes[name])
        for name, value in do.items()
    }
    return _draw(record.noise, targets, record.variant, record.size, device)


@dataclass(frozen=True)
class _World:
    """Attributes, their structural assignments, and the factors that are drawn."""

    attributes: tuple[Binary | Categorical | Continuous, ...]
    parents: dict[str, tuple[str, ...]]
    noise: tuple[str, ...]  # of attributes and factors, each standard normal
    assign: dict[str, Callable[[Columns, Table], Column]]  # causes before effects
    show: Callable[[Columns, Table], tuple[Columns, Columns]]  # factors, and inputs of drawing


def _world(variant: str) -> _World:
    check_among("portraits, variant", variant, _WORLDS)
    return _WORLDS[variant]


def _draw(noise: Columns, do: Table, variant: str, size: int, device: Device = "cpu") -> Portraits:
    world = _world(variant)
    table: Table = {}
    for name, assignment in world.assign.items():
        table[name] = do[name] if name in do else assignment(noise, table)
    table = {attribute.name: table[attribute.name] for attribute in world.attributes}
    factors, shown = world.show(noise, table)
    person = {name: noise[name] for name in _PERSON}
    columns = {n: torch.from_numpy(c).float().to(device) for n, c in (person | shown).items()}
    images = [
        draw_portraits({name: c[i : i + _CHUNK] for name, c in columns.items()}, size).cpu()
        for i in range(0, len(noise["skin"]), _CHUNK)
    ]
    return Portraits(torch.cat(images), table, factors, noise, variant, size)


def _binary_factors(names: Iterable[str], noise: Columns, table: Table) -> Columns:
    return {name: _OFFSET * (2 * table[name] - 1) + noise[f"show_{name}"] for name in names}


def _coin(name: str) -> Callable[[Columns, Table], Column]:
    return lambda noise, table: (noise[f"cause_{name}"] > 0).astype(np.int64)


def _young(noise: Columns, table: Table) -> Column:
    """Shares a cause with male; there is no arrow from male itself."""
    together = -0.454 * noise["cause_male"] + np.sqrt(1 - 0.454**2) * noise["cause_young"]
    return (together > 0).astype(np.int64)


def _show_portraits(noise: Columns, table: Table) -> tuple[Columns, Columns]:
    factors = _binary_factors(("smiling", "male", "young"), noise, table)
    shown = {
        "fade": 0.25 * noise["grey"] - factors["young"],
        "grey": np.full_like(noise["grey"], -9.0),
        "glasses": np.full_like(noise["grey"], -4.0),
    }
    return factors, factors | shown


def _age(noise: Columns, table: Table) -> Column:
    return 20 + 60 * torch.special.ndtr(torch.from_numpy(noise["cause_age"])).numpy()


def _level(name: str, logits: list[NDArray[np.float64]], noise: Columns) -> Column:
    """Sample a level by the Gumbel-max trick, with Gumbel noise from standard normal noise."""
    normal = [noise[f"cause_{name}_{level}"] for level in range(len(logits))]
    gumbel = [-torch.special.log_ndtr(torch.from_numpy(z)).neg().log().numpy() for z in normal]
    return (np.stack(logits, axis=1) + np.stack(gumbel, axis=1)).argmax(axis=1)


def _glasses(noise: Columns, table: Table) -> Column:
    age = table["age"]
    return _level("glasses", [np.zeros_like(age), (age - 50) / 10], noise)


def _hair(noise: Columns, table: Table) -> Column:
    age = table["age"]
    return _level("hair", [0 * age + 0.6, 0 * age + 0.3, 0 * age - 0.6, (age - 55) / 6], noise)


# Lightness, redness and greyness of dark, fair, red and grey hair.
_HAIR = np.array([[-1.6, -1.6, -2.0], [1.6, -1.0, -2.0], [-0.2, 2.0, -2.0], [0.0, -1.6, 3.0]])


def _show_causal(noise: Columns, table: Table) -> tuple[Columns, Columns]:
    factors = _binary_factors(("glasses", "sex", "smiling"), noise, table)
    factors["age"] = (table["age"] - 50) / 17.3 + 0.25 * noise["show_age"]
    light, red, grey = _HAIR[table["hair"]].T
    factors["hair"] = light + 0.3 * noise["show_hair"]
    shown = {
        "smiling": factors["smiling"],
        "male": factors["sex"],
        "young": -1.6 * factors["age"],
        "glasses": factors["glasses"],
        "hair_light": factors["hair"],
        "hair_red": red + 0.3 * noise["hair_red"],
        "grey": grey + 0.3 * noise["grey"],
        "fade": np.full_like(grey, -9.0),
    }
    return factors, shown


_WORLDS = {
    "portraits": _World(
        attributes=(Binary("smiling"), Binary("male"), Binary("young")),
        parents={"smiling": (), "male": (), "young": ()},
        noise=tuple(f"{k}_{a}" for k in ("cause", "show") for a in ("smiling", "male", "young")),
        assign={"smiling": _coin("smiling"), "male": _coin("male"), "young": _young},
        show=_show_portraits,
    ),
    "portraits-causal": _World(
        attributes=(
            Continuous("age", 20, 80),
            Binary("glasses"),
            Categorical("hair", ("dark", "fair", "red", "grey")),
            Binary("sex"),
            Binary("smiling"),
        ),
        parents={"age": (), "glasses": ("age",), "hair": ("age",), "sex": (), "smiling": ()},
        noise=(
            "cause_age",
            *(f"cause_glasses_{level}" for level in range(2)),
            *(f"cause_hair_{level}" for level in range(4)),
            "cause_sex",
            "cause_smiling",
            *(f"show_{name}" for name in ("age", "glasses", "hair", "sex", "smiling")),
        ),
        assign={
            "age": _age,
            "sex": _coin("sex"),
            "smiling": _coin("smiling"),
            "glasses": _glasses,
            "hair": _hair,
        },
        show=_show_causal,
    ),
}
