"""Kinds of models that can be kept in a folder, by the name that ``config.json`` has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, TypeVar

from fcfg.storage.config import ModelConfig
from fcfg.support.errors import InputError, short

ModelT = TypeVar("ModelT")
SettingT = TypeVar("SettingT", bound="TextForm")

#: Module and class of the kinds of the package; they are imported when a kind is needed.
_SHIPPED = {
    "diffusion": ("fcfg.pipeline.counterfactual", "CounterfactualPipeline"),
    "semantic": ("fcfg.pipeline.counterfactual", "CounterfactualPipeline"),
    "hvae": ("fcfg.hvae.model", "HVAEModel"),
}
#: Module of the settings of the package that are not a guidance, by their first word.
_SETTINGS_SHIPPED = {"temperature": "fcfg.hvae.setting"}


class TextForm(Protocol):
    """A setting of some kind of models, whose ``repr`` is a text form."""

    @classmethod
    def parse(cls, text: str) -> Any:
        """Read the text form."""
        ...


@dataclass(frozen=True)
class Kind:
    """A kind of models."""

    config: type[ModelConfig[Any]]  #: what a folder holds
    model: type[Any]  #: class of the models


_KINDS: dict[str, Kind] = {}
_SETTINGS: dict[str, type[TextForm]] = {}


def register_kind(**configs: type[ModelConfig[Any]]) -> Callable[[type[ModelT]], type[ModelT]]:
    """Class decorator that lets models of a class be saved, and lets :func:`fcfg.load` find them.

    The class is called as ``Model(image_model, scm, judge=judge, provenance=provenance)``.

    Args:
        **configs: Config of each ``kind`` that models of the class have.
    """

    def register(model: type[ModelT]) -> type[ModelT]:
        for name, config in configs.items():
            taken = _place(_KINDS[name].model) if name in _KINDS else _SHIPPED.get(name)
            if taken not in (None, _place(model)):  # a notebook may define a class again
                raise InputError(
                    f"kind '{name}'",
                    expected="a name that is not taken",
                    got=f"that of {'.'.join(taken)}",
                    do="choose another name",
                )
            _KINDS[name] = Kind(config, model)
        return model

    return register


def _place(model: type[Any]) -> tuple[str, str]:
    """Return the module and the name of a class."""
    return model.__module__, model.__qualname__


def find_kind(name: object, subject: str) -> Kind:
    """Return a kind; refuse one that is not registered.

    Args:
        name: Name of the kind.
        subject: Subject of the refusal.
    """
    known = dict.fromkeys((*_SHIPPED, *_KINDS))
    if not isinstance(name, str) or name not in known:
        raise InputError(
            subject,
            expected=f"a model of kind {' or '.join(known)}",
            got=short(name),
            do="import the module that registers it with fcfg.storage.register_kind",
        )
    if name in _SHIPPED:
        import_module(_SHIPPED[name][0])
    return _KINDS[name]


def register_setting(*heads: str) -> Callable[[type[SettingT]], type[SettingT]]:
    """Class decorator for the settings of a kind of models, so that experiments can name them.

    Args:
        *heads: First words of their text form, which no rule of guidance has.
    """

    def register(setting: type[SettingT]) -> type[SettingT]:
        _SETTINGS.update(dict.fromkeys(heads, setting))
        return setting

    return register


def find_setting(head: str) -> type[TextForm] | None:
    """Return the class of the settings whose text form begins with a word, if there is one.

    Args:
        head: The word.
    """
    if head in _SETTINGS_SHIPPED:
        import_module(_SETTINGS_SHIPPED[head])
    return _SETTINGS.get(head)
