"""Problems with the labels of a folder, collected instead of raised."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fcfg.causal.attributes import (
    AbstractAttribute,
    AttributeSpace,
    Binary,
    Categorical,
    Continuous,
)
from fcfg.datasets.base import SPLITS, leaking_groups, repeated, split_by_group
from fcfg.datasets.columns import is_missing, legal_values, parse_column
from fcfg.datasets.folder import METADATA, FolderData, Missing, leaves_folder
from fcfg.support.csv_files import check_columns
from fcfg.support.errors import InputError
from fcfg.support.pictures import SUFFIXES

Severity: TypeAlias = Literal["error", "warning", "info"]
Labels: TypeAlias = Mapping[str, Sequence[str]]

_SHOWN = 10  # names per finding
_RARE = 10  # a level with fewer examples is rare
_MISSING: Mapping[Missing, tuple[Severity, str]] = {
    "error": ("error", "; fill it in, or leave such rows out with --missing drop"),
    "drop": ("warning", ", so left out"),
}
_BLOCK = 2**16  # rows per block of the correlations
MOST_LABELS = 60  #: largest number of rows and columns of the correlations


@dataclass(frozen=True)
class Finding:
    """A problem, with the first files or values that have it.

    Training cannot start with an error. It can start with a warning, but may give poor results.
    """

    severity: Severity
    what: str
    count: int = 1
    names: tuple[str, ...] = ()  #: the first ten


class Findings(list[Finding]):
    """A growing list of findings."""

    def add(self, severity: Severity, what: str, names: Sequence[str]) -> None:
        """Add a problem of some files or values, if there are any."""
        if names:
            self.append(Finding(severity, what, len(names), tuple(names[:_SHOWN])))

    @contextmanager
    def catching(self) -> Generator[None]:
        """Turn an ``InputError`` into a finding."""
        try:
            yield
        except InputError as error:
            self.append(Finding("error", str(error)))


def check_files(root: Path, names: Sequence[str], findings: Findings) -> None:
    """Find files that are outside of the folder, listed twice, missing, or not listed."""
    outside = [name for name in names if leaves_folder(name)]
    findings.add("error", "paths that leave the folder", outside)
    findings.add("error", "files listed more than once", repeated(names))
    inside = [name for name in dict.fromkeys(names) if not leaves_folder(name)]
    absent = [name for name in inside if not os.path.isfile(root / name)]  # a name may be too long
    findings.add("error", "files that do not exist", absent)
    known = {Path(name).as_posix() for name in inside}
    paths = [path.relative_to(root) for path in root.rglob("*")]
    unlisted = sorted(
        path.as_posix()
        for path in paths
        if path.suffix.lower() in SUFFIXES
        and not any(part.startswith(".") for part in path.parts)
        and path.as_posix() not in known
    )
    findings.add("warning", f"images that {METADATA} does not list", unlisted)


def check_splits(config: FolderData, table: Labels, findings: Findings) -> Sequence[str] | None:
    """Find invalid and empty splits, and groups in several; return the split of every row."""
    names = table["file_name"]
    for column in (config.split, config.group):
        with findings.catching():
            check_columns(METADATA, [] if column is None else [column], table)
    groups = None if config.group is None else table.get(config.group)
    if groups is not None:
        without = [name for name, group in zip(names, groups, strict=True) if is_missing(group)]
        findings.add("error", f"no value for group '{config.group}'", without)
    if config.split is None:
        with findings.catching():
            return split_by_group(groups or names, config.fractions, config.split_seed)
        return None
    splits = table.get(config.split)
    if splits is not None:
        illegal = sorted(set(splits) - set(SPLITS))
        findings.add("error", f"splits other than {', '.join(SPLITS)}", illegal)
        empty = [split for split in ("train", "val") if split not in splits]
        findings.add("error", "splits without images", empty)
        if groups is not None:
            leaking = leaking_groups(groups, splits)
            findings.add("error", "groups in more than one split", leaking)
    return splits


def check_attributes(
    config: FolderData, table: Labels, space: AttributeSpace, findings: Findings
) -> NDArray[np.bool_]:
    """Find missing, invalid, rare and constant values; return which rows are complete."""
    names = table["file_name"]
    complete = np.ones(len(names), dtype=bool)
    for attribute in space:
        column = config.column_of(attribute.name)
        if column not in table:
            with findings.catching():
                check_columns(METADATA, [column], table)
            complete[:] = False
            continue
        parsed = parse_column(attribute, table[column])
        label = f"attribute '{attribute.name}'"
        severity, advice = _MISSING[config.missing]
        missing = [names[row] for row in parsed.missing]
        findings.add(severity, f"{label}: no value{advice}", missing)
        illegal = [f"{names[row]}: {table[column][row]}" for row in parsed.illegal]
        findings.add("error", f"{label}: not {legal_values(attribute)}", illegal)
        invalid = parsed.missing + parsed.illegal
        complete[invalid] = False
        _check_levels(attribute, np.delete(parsed.column, invalid).tolist(), findings)
    return complete


def _check_levels(attribute: AbstractAttribute, values: list[float], findings: Findings) -> None:
    label = f"attribute '{attribute.name}'"
    if len(set(values)) == 1:
        findings.add("warning", f"{label}: always the same value", [f"{values[0]:g}"])
    elif not isinstance(attribute, Continuous):
        named = isinstance(attribute, Binary | Categorical) and attribute.levels
        levels = named or ("0", "1")
        counts = Counter(values)
        rare = [
            f"{level}: {counts[code]}" for code, level in enumerate(levels) if counts[code] < _RARE
        ]
        findings.add("warning", f"{label}: levels with fewer than {_RARE} images", rare)


def correlations(
    config: FolderData, table: Labels, space: AttributeSpace, complete: NDArray[np.bool_]
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Pearson correlations of the attributes over the complete rows.

    A categorical attribute counts as one 0-1 variable per level. Constant variables have the
    correlation NaN. Only the first attributes with at most :data:`MOST_LABELS` variables in total
    are included, which bounds memory and keeps the picture legible.

    Returns:
        Labels of the variables, and the square matrix of their correlations.
    """
    fitting = np.cumsum(space.widths) <= MOST_LABELS
    chosen = [attribute for attribute, fits in zip(space, fitting, strict=True) if fits]
    if not chosen:
        return (), np.zeros((0, 0))
    columns = {
        a.name: parse_column(a, table[config.column_of(a.name)]).column[complete] for a in chosen
    }
    labels = [
        f"{attribute.name}: {level}" if level else attribute.name
        for attribute in chosen
        for level in (attribute.levels if isinstance(attribute, Categorical) else ("",))
    ]

    def blocks() -> Iterator[NDArray[np.float64]]:
        for first in range(0, int(complete.sum()), _BLOCK):
            rows = slice(first, first + _BLOCK)
            yield np.concatenate([a.encode(columns[a.name][rows]) for a in chosen], axis=1)

    mean = sum(block.sum(axis=0) for block in blocks()) / complete.sum()
    products = sum((block - mean).T @ (block - mean) for block in blocks())
    spread = np.sqrt(np.diag(products))
    spread[spread < 1e-12] = np.nan
    return tuple(labels), products / np.outer(spread, spread)
