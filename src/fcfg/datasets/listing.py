"""A listing: which images a data set has and what is known of them, before any is opened.

Every loader reads labels only and produces a :class:`Listing`, and one function,
:func:`fcfg.datasets.loading.load_listing`, makes splits of any. Between the two nothing knows
which data set it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fcfg.datasets.examples import SPLITS
from fcfg.support.errors import InputError, check_among, quoted

_SHOWN = 10  # names in one message


@dataclass(frozen=True)
class Source:
    """Where one image lies: a file, a file inside a zip archive, or a part of a large picture."""

    path: Path
    member: str | None = None  #: the name inside a zip archive
    box: tuple[int, int, int, int] | None = None  #: left, upper, right, lower, in a large picture


@dataclass(frozen=True, eq=False)
class Listing:
    """Images and labels of a data set; the order is the same in every field.

    Columns hold texts as the label files do; :func:`fcfg.datasets.columns.read_column` gives
    them their meaning once the attributes are known.
    """

    root: Path  #: the folder of the data set; the cache lies here unless told otherwise
    sources: tuple[Source, ...] = field(repr=False)
    names: tuple[str, ...] = field(repr=False)  #: each once
    columns: Mapping[str, Sequence[str]] = field(repr=False)  #: by the name of the attribute
    splits: tuple[str, ...] = field(repr=False)  #: 'train', 'val' or 'test'
    groups: tuple[str, ...] | None = field(default=None, repr=False)
    """Whom an image shows, where several may show the same: no group lies in two splits."""
    excluded: Mapping[str, int] = field(default_factory=dict)
    """How many rows the protocol leaves out, by the reason."""

    def __post_init__(self) -> None:
        """Refuse what no data set may have: doubles, unknown or empty splits, leakage."""
        check_unique("data", self.names)
        for split in sorted(set(self.splits)):
            check_among("data, split", split, SPLITS)
        for split in ("train", "val"):
            if split not in self.splits:
                raise InputError(
                    f"data in {self.root}",
                    expected=f"at least one example in '{split}'",
                    got=f"{dict(Counter(self.splits)) or 'none at all'}",
                    do="check the split, and what was excluded: "
                    + (str(dict(self.excluded)) if self.excluded else "nothing"),
                )
        if self.groups is not None:
            check_leakage("data", self.groups, self.splits)

    def __len__(self) -> int:
        return len(self.names)

    def by_split(self) -> Listing:
        """The same, training images first, then validation, then test; else the order is kept."""
        order = sorted(range(len(self)), key=lambda row: SPLITS.index(self.splits[row]))
        return self.take(order)

    def take(self, rows: Sequence[int]) -> Listing:
        """Some rows, in the order given."""
        return Listing(
            self.root,
            tuple(self.sources[row] for row in rows),
            tuple(self.names[row] for row in rows),
            {name: [texts[row] for row in rows] for name, texts in self.columns.items()},
            tuple(self.splits[row] for row in rows),
            None if self.groups is None else tuple(self.groups[row] for row in rows),
            self.excluded,
        )


def check_unique(subject: str, names: Sequence[str]) -> None:
    """Refuse names that occur twice.

    >>> check_unique("metadata.csv", ["a.png", "b.png", "a.png"])
    Traceback (most recent call last):
    fcfg.InputError: metadata.csv: expected every file once, got 'a.png' more than once;
    remove the doubled rows.
    """
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        raise InputError(
            subject,
            expected="every file once",
            got=f"{listed(doubled)} more than once",
            do="remove the doubled rows",
        )


def leaking(groups: Sequence[str], splits: Sequence[str]) -> list[str]:
    """Groups that lie in more than one split, in the order of their first example.

    >>> leaking(["ann", "bob", "ann"], ["train", "train", "test"])
    ['ann']
    """
    seen: dict[str, set[str]] = {}
    for group, split in zip(groups, splits, strict=True):
        seen.setdefault(group, set()).add(split)
    return [group for group, where in seen.items() if len(where) > 1]


def check_leakage(subject: str, groups: Sequence[str], splits: Sequence[str]) -> None:
    """Refuse a split that has images of the same person on both sides."""
    shared = leaking(groups, splits)
    if shared:
        raise InputError(
            f"{subject}, split",
            expected="every group in one split only",
            got=f"{listed(shared)} in several",
            do="move all images of a group into one split, or let it be drawn: leave 'split' out",
        )


def listed(names: Sequence[str], shown: int = _SHOWN) -> str:
    """Names for a message: the first ones, and how many more there are.

    >>> listed(["a", "b", "c"], shown=2)
    "'a', 'b' and 1 more"
    """
    rest = len(names) - shown
    return quoted(names[:shown]) + (f" and {rest} more" if rest > 0 else "")
