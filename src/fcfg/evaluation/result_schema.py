"""The schema of result files: the fields of every line, and their legal values.

Probabilities lie in [0, 1] and sum to 1 over the levels of an attribute, values of attributes lie
in their range, and two images with pixels in [-1, 1] are at most 2 apart. Other numbers do not
come from a measurement and are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

from fcfg.causal.attributes import (
    AbstractAttribute,
    AttributeSpace,
    Binary,
    Categorical,
    Continuous,
)
from fcfg.causal.graph import CausalGraph
from fcfg.support.errors import InputError, quoted, short

JSON: TypeAlias = dict[str, Any]
SCHEMA = 1
#: Fields that headers of older files lack.
OLDER: JSON = {"grid": "uniform", "continuous": "permuted"}
#: Kinds of lines, and the fields that identify a line of each kind.
KEYS = {
    "run": (),
    "real": ("image",),
    "row": ("do", "guidance", "image"),
    "distance": ("do", "guidance", "metric"),
    "minimality": ("do", "guidance"),
}
_ROUNDING = 1e-5  # files keep six digits of a number

#: Advice for a line that was changed or holds an illegal value.
RECOMPUTE = (
    "take it from a copy; or remove the line, and run the same 'fcfg evaluate' again, which "
    "computes it anew"
)
_WRITTEN = "give a file that 'fcfg evaluate' wrote"


def _different(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise ValueError("different strings")
    return names


def _summing_to_one(shares: list[float]) -> list[float]:
    if abs(sum(shares) - 1) > len(shares) * _ROUNDING:
        raise ValueError("probabilities that sum to 1")
    return shares


_Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
_Amount: TypeAlias = Annotated[_Number, Field(ge=0)]
_Positive: TypeAlias = Annotated[_Number, Field(gt=0)]
_Probability: TypeAlias = Annotated[_Number, Field(ge=0, le=1)]
_MAE: TypeAlias = Annotated[_Number, Field(ge=0, le=2 + _ROUNDING)]
_Share: TypeAlias = Annotated[_Number, Field(ge=0, le=1 + _ROUNDING)]
_Factors: TypeAlias = dict[str, _Number]
_Pair: TypeAlias = Annotated[list[str], Field(min_length=2, max_length=2)]
_WithEnds: TypeAlias = Annotated[list[_Number], Field(min_length=3, max_length=3)]
_LINE, _OBJECT = ConfigDict(strict=True), ConfigDict(strict=True, extra="forbid")


def _object(
    fields: Mapping[str, Any], config: ConfigDict = _OBJECT, **optional: Any
) -> type[BaseModel]:
    """Return the model of an object; optional fields may be null, or missing."""
    named: dict[str, Any] = {  # by alias, since names of attributes may be anything
        f"field_{number}": (kind, Field(alias=name))
        for number, (name, kind) in enumerate(fields.items())
    }
    others: dict[str, Any] = {name: (kind | None, None) for name, kind in optional.items()}
    return create_model("Object", __config__=config, **named, **others)


def _line(fields: Mapping[str, Any], **optional: Any) -> type[BaseModel]:
    """Return the model of a kind of line, which may hold further fields."""
    return _object(fields, _LINE, **optional)


def _stated(fields: Mapping[str, Any], **optional: Any) -> type[BaseModel]:
    """Return the model of a part of the header, of which optional fields may be missing."""
    own: dict[str, Any] = {name: (kind, None) for name, kind in optional.items()}
    return create_model("Part", __base__=_line(fields), **own)


_MODEL = _stated({"name": str, "digest": str}, traits=JSON, defaults=JSON, parameters=int)
_ASKED = _object({"calibrated": str, "published": str, "weights": list[str]})
_HEADER = _stated(
    {
        "experiment": str,
        "images": Annotated[list[str], AfterValidator(_different)],
        "attributes": dict[str, dict[str, Any]],
        "graph": dict[str, list[str]],
        "questions": list[_Pair],
        "model": _MODEL,
        "data": JSON,
        "steps": int,
        "solver": str,
        "seed": int,
        "metrics": dict[str, _stated({}, missing=str) | None],
        "reverse": bool,
        "commit": str | None,
        "environment": _stated({}, device=str, precision=str),
    },
    grid=str,
    continuous=str,
    cycles=int,
    methods=dict[str, dict[str, _ASKED]],
    calibrated_by=str,
    groups=_line({"of": str, "rows": list[int]}),
    threshold=_Number | None,
)
_DISTANCES = _object({"mae": _MAE, "lpips": _Amount | None})


class Schema:
    """The legal lines of a run after its header."""

    def __init__(self, space: AttributeSpace, header: JSON) -> None:
        values = _object({attribute.name: _legal_value(attribute) for attribute in space})
        scores = _object({attribute.name: _legal_score(attribute) for attribute in space})
        error = {"mae": _MAE, "missed": _Amount, "changed": _Amount}
        truth = _object({**error, "factors": _Factors, "target": values})
        read = {"image": str, "scores": scores, "factors": _Factors}
        asked = {"do": str, "guidance": str}
        count = len(header["images"])
        shares = Annotated[list[_Share | None], Field(min_length=count, max_length=count)]
        row = {
            **asked,
            **read,
            "target": values,
            "change": _DISTANCES,
            "reversal": _DISTANCES | None,
            "truth": truth | None,
            "evaluations": _Positive,
            "seconds": _Amount,
        }
        self._images = set(header["images"])
        self._questions = {tuple(question) for question in header["questions"]}
        self._kinds = {
            "real": _line({**read, "attributes": values}, unrelated=_MAE),
            "row": _line(row, repeated=_DISTANCES, fresh=_DISTANCES),
            "distance": _line(
                {**asked, "metric": str, "value": _Number, "n": _Positive},
                low=_Number,
                high=_Number,
                no_change=_WithEnds,
                real=_WithEnds,
            ),
            "minimality": _line({**asked, "values": shares}),
        }

    def key_of(self, where: str, entry: JSON) -> tuple[str, ...]:
        """Return what identifies a line among those of its kind; refuse one that is not legal."""
        kind = entry.get("kind")
        if not isinstance(kind, str) or kind not in self._kinds:
            raise not_an_entry(where, f"the kind {kind!r}")
        _check(self._kinds[kind], where, entry, RECOMPUTE)
        key = tuple(entry[name] for name in KEYS[kind])
        is_asked = kind == "real" or key[:2] in self._questions
        if not is_asked or ("image" in KEYS[kind] and entry["image"] not in self._images):
            expected, got = "no lines that its header does not ask for", f"one for {quoted(key)}"
            raise InputError(where, expected=expected, got=got, do="remove that line")
        return key


def checked_header(where: str, header: JSON) -> AttributeSpace:
    """Check a header, and return its attributes."""
    if header.get("schema") != SCHEMA:
        raise InputError(
            where,
            expected=f"schema {SCHEMA}",
            got=header.get("schema"),
            do="use the version of fcfg that wrote it",
        )
    _check(_HEADER, where, header, _WRITTEN)
    images, owners = len(header["images"]), header.get("groups", {}).get("rows", header["images"])
    if len(owners) != images:
        expected = f"one for each of {images} images"
        raise InputError(f"{where}, groups", expected=expected, got=len(owners), do=_WRITTEN)
    try:
        space = AttributeSpace.from_config(header["attributes"])
        nodes = CausalGraph(header["graph"]).nodes
    except InputError as error:
        raise error.about(f"{where}, {str(error).split(':')[0]}", error.do) from error
    if set(nodes) != set(space.names):
        expected = f"a graph of the attributes {quoted(space.names)}"
        raise InputError(f"{where}, graph", expected=expected, got=quoted(nodes), do=_WRITTEN)
    return space


def not_an_entry(where: str, got: str) -> InputError:
    """Return the refusal of a line that is not an entry."""
    return InputError(
        where,
        expected=f"a JSON object of kind {', '.join(KEYS)}, with all its fields",
        got=got,
        do="name a folder of 'fcfg evaluate', or remove this line and run it again",
    )


def _check(kind: type[BaseModel], where: str, entry: JSON, do: str) -> None:
    try:
        kind.model_validate(entry)
    except ValidationError as failure:
        error = failure.errors(include_url=False)[0]
        subject = ", ".join([where, *map(str, error["loc"])])
        if error["type"] in ("missing", "extra_forbidden"):
            expected, got = ("this field", "none") if error["type"] == "missing" else ("no", "one")
            raise InputError(subject, expected=expected, got=got, do=do) from None
        expected = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
        raise InputError(subject, expected=expected, got=short(error["input"]), do=do) from None


def _legal_score(attribute: AbstractAttribute) -> Any:
    """Return what the judge may read of an attribute."""
    if isinstance(attribute, Binary):
        return _Probability
    if not isinstance(attribute, Categorical):
        return _legal_value(attribute)
    length = Field(min_length=len(attribute.levels), max_length=len(attribute.levels))
    return Annotated[list[_Probability], length, AfterValidator(_summing_to_one)]


def _legal_value(attribute: AbstractAttribute) -> Any:
    if isinstance(attribute, Categorical):
        one_of: Any = Literal
        return one_of[tuple(attribute.levels)]
    if not isinstance(attribute, Continuous):
        return Annotated[int, Field(ge=0, le=1)]
    margin = _ROUNDING * max(abs(attribute.low), abs(attribute.high))
    return Annotated[_Number, Field(ge=attribute.low - margin, le=attribute.high + margin)]
