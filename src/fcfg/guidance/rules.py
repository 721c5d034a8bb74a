"""The rules by name, and how a rule of one's own becomes one of them."""

from __future__ import annotations

import re
from dataclasses import fields

from fcfg.guidance.apg import APG
from fcfg.guidance.cfg import CFG
from fcfg.guidance.cfgpp import CFGPlusPlus
from fcfg.guidance.rule import AbstractRule
from fcfg.support.errors import InputError, quoted, short

NONE = "none"  # the plain conditional model, which no rule guides
COMMON = ("start", "stop", "tolerance")  # options of every rule
#: The rules by name; :func:`register_rule` adds to them.
RULES: dict[str, type[AbstractRule]] = {rule.name: rule for rule in (CFG, CFGPlusPlus, APG)}


def register_rule(rule: type[AbstractRule]) -> type[AbstractRule]:
    """Give a rule of your own a text form; use it as a decorator.

    Args:
        rule: A frozen dataclass with a ``name`` and an option in each field.
    """
    name = getattr(rule, "name", None)
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9+_-]*", name):
        raise InputError(
            f"rule {rule.__name__}",
            expected="a name of small letters, digits, +, - and _",
            got=short(name),
            do="set it in the class, such as name = 'mine'",
        )
    taken = {NONE, "f" + NONE} | {f + known for known in RULES for f in ("", "f")}
    if RULES.get(name) is not rule and {name, f"f{name}"} & taken:
        raise InputError(
            f"rule {rule.__name__}",
            expected="a name of its own, also with an f before it",
            got=f"'{name}', and there are {quoted(sorted(taken))}",
            do="choose another name",
        )
    options, is_own = fields(rule), "__dataclass_fields__" in vars(rule)
    odd = [option.name for option in options if not isinstance(option.default, bool | int | float)]
    odd += [option.name for option in options if option.name in COMMON]
    if not is_own or odd:
        raise InputError(
            f"rule {rule.__name__}",
            expected=f"a frozen dataclass whose fields have numbers as defaults, none of them "
            f"called {quoted(COMMON)}",
            got=quoted(odd) if odd else "another class",
            do="put @dataclass(frozen=True) before it, and give its options defaults",
        )
    RULES[name] = rule
    return rule


def rule_options(rule: AbstractRule) -> tuple[str, ...]:
    """Names of a rule's own options: its fields."""
    return tuple(option.name for option in fields(rule))
