"""What can be wrong with the labels of a folder, found all at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fcfg.causal.attributes import AbstractAttribute, AttributeSpace, Categorical, Continuous
from fcfg.datasets.columns import is_missing, legal_values, missing_column, read_column
from fcfg.datasets.examples import SPLITS
from fcfg.datasets.folder import METADATA, FolderData, column_names, leaves_folder
from fcfg.datasets.listing import leaking
from fcfg.datasets.pixels import SUFFIXES
from fcfg.datasets.splitting import drawn_splits
from fcfg.support.errors import InputError

Severity: TypeAlias = Literal["error", "warning", "info"]
Labels: TypeAlias = Mapping[str, Sequence[str]]

_SHOWN = 10  # names of a finding
_RARE = 10  # fewer examples than these say little of a level
_BLOCK = 2**16  # rows that are looked at together
MOST_LABELS = 60  #: rows and columns of the correlations


@dataclass(frozen=True)
class Finding:
    """One thing that was found, with the first of its files or values.

    An error stops training from beginning; a warning does not, but its result may disappoint.
    """

    severity: Severity
    what: str
    count: int = 1
    names: tuple[str, ...] = ()  #: the first ten


class Findings:
    """A growing list of findings."""

    def __init__(self) -> None:
        self.all: list[Finding] = []

    def add(self, severity: Severity, what: str, names: Sequence[str]) -> None:
        """Add what holds of some names; nothing where it holds of none."""
        if names:
            self.all.append(Finding(severity, what, len(names), tuple(names[:_SHOWN])))

    def attempt(self, work: Callable[[], list[str]]) -> list[str] | None:
        """Do what may be refused, and make a finding of the refusal."""
        try:
            return work()
        except InputError as error:
            self.all.append(Finding("error", str(error)))
            return None


def check_files(root: Path, names: Sequence[str], findings: Findings) -> None:
    """Files that leave the folder, occur twice, do not exist, or are not listed."""
    outside = [name for name in names if leaves_folder(name)]
    findings.add("error", "paths that leave the folder", outside)
    doubled = [name for name, count in Counter(names).items() if count > 1]
    findings.add("error", "files listed more than once", doubled)
    inside = [name for name in dict.fromkeys(names) if not leaves_folder(name)]
    absent = [name for name in inside if not (root / name).is_file()]
    findings.add("error", "files that do not exist", absent)
    found = sorted(
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.suffix.lower() in SUFFIXES
        and not any(part.startswith(".") for part in path.relative_to(root).parts)
    )
    listed = {Path(name).as_posix() for name in inside}
    unlisted = [name for name in found if name not in listed]
    findings.add("warning", f"images that {METADATA} does not list", unlisted)


def check_splits(config: FolderData, table: Labels, findings: Findings) -> list[str] | None:
    """Splits that are illegal, empty or leak; gives the split of every row, where there is one."""
    names = table["file_name"]
    for column in (config.split, config.group):
        if column is not None and column not in table:
            findings.add("error", str(missing_column(METADATA, column, table)), [column])
    groups = table.get(config.group or "")
    if groups is not None:
        nobody = [n for n, group in zip(names, groups, strict=True) if is_missing(group)]
        findings.add("error", f"no value for group '{config.group}'", nobody)
    if config.split is None:
        return findings.attempt(
            lambda: drawn_splits(groups or names, config.fractions, config.split_seed)
        )
    if config.split not in table:
        return None
    splits = list(table[config.split])
    illegal = sorted({split for split in splits if split not in SPLITS})
    findings.add("error", f"splits other than {', '.join(SPLITS)}", illegal)
    findings.add(
        "error", "splits without images", [s for s in ("train", "val") if s not in splits]
    )
    if groups is not None:
        findings.add("error", "groups in more than one split", leaking(groups, splits))
    return splits


def check_attributes(
    config: FolderData, table: Labels, space: AttributeSpace, findings: Findings
) -> NDArray[np.bool_]:
    """Values that are missing, illegal, rare or always the same; tells which rows are whole."""
    names = table["file_name"]
    whole = np.ones(len(names), dtype=bool)
    for attribute in space:
        column = column_names(config, (attribute.name,))[attribute.name]
        if column not in table:
            findings.add("error", str(missing_column(METADATA, column, table)), [column])
            whole[:] = False
            continue
        reading = read_column(attribute, table[column])
        label = f"attribute '{attribute.name}'"
        findings.add("error", f"{label}: no value", [names[row] for row in reading.missing])
        wrong = [f"{names[row]}: {table[column][row]}" for row in reading.illegal]
        findings.add("error", f"{label}: not {legal_values(attribute)}", wrong)
        whole[reading.missing + reading.illegal] = False
        kept = np.delete(reading.column, reading.missing + reading.illegal)
        _check_levels(attribute, kept.tolist(), findings)
    return whole


def _check_levels(attribute: AbstractAttribute, values: list[float], findings: Findings) -> None:
    label = f"attribute '{attribute.name}'"
    if len(set(values)) == 1:
        findings.add("warning", f"{label}: always the same value", [f"{values[0]:g}"])
    elif not isinstance(attribute, Continuous):
        levels = attribute.levels if isinstance(attribute, Categorical) else ("0", "1")
        counts = Counter(values)
        rare = [
            f"{level}: {counts[code]}" for code, level in enumerate(levels) if counts[code] < _RARE
        ]
        findings.add("warning", f"{label}: levels with fewer than {_RARE} images", rare)


def correlations(
    config: FolderData, table: Labels, space: AttributeSpace, whole: NDArray[np.bool_]
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Pearson's correlation of the first attributes over the rows that are whole.

    A categorical attribute stands for as many numbers as it has levels, each 0 or 1. What never
    varies has no correlation: nan. Attributes follow each other as long as there are at most
    :data:`MOST_LABELS` numbers, so that memory stays small, and a picture can be looked at.

    Returns:
        Labels, and a matrix of as many rows and columns.
    """
    fitting = np.cumsum(space.widths) <= MOST_LABELS
    chosen = [attribute for attribute, fits in zip(space, fitting, strict=True) if fits]
    names = column_names(config, tuple(attribute.name for attribute in chosen))
    columns = {n: read_column(space[n], table[c]).column[whole] for n, c in names.items()}
    labels = [
        f"{attribute.name}: {level}" if level else attribute.name
        for attribute in chosen
        for level in (attribute.levels if isinstance(attribute, Categorical) else ("",))
    ]

    def blocks() -> Iterator[NDArray[np.float64]]:
        for first in range(0, int(whole.sum()), _BLOCK):
            rows = slice(first, first + _BLOCK)
            yield np.concatenate([a.encode(columns[a.name][rows]) for a in chosen], axis=1)

    if not chosen:
        return (), np.zeros((0, 0))
    mean = sum(block.sum(axis=0) for block in blocks()) / whole.sum()
    products = sum((block - mean).T @ (block - mean) for block in blocks())
    spread = np.sqrt(np.diag(products))
    spread[spread < 1e-12] = np.nan
    return tuple(labels), products / np.outer(spread, spread)
