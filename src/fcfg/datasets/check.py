"""Check a folder of images before training, and collect everything that is wrong with it.

Loading raises what it meets first; this check makes the same tests, and further ones, and reports
all that they find.
"""

from __future__ import annotations

import shlex
import warnings
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray

from fcfg.causal.attributes import AbstractAttribute, AttributeSpace, Column, Continuous
from fcfg.datasets.base import (
    SPLITS,
    Case,
    OnProgress,
    existing_folder,
    name_faults,
    silent,
    split_faults,
)
from fcfg.datasets.columns import parse_column
from fcfg.datasets.folder import METADATA, FolderData, Labels, read_metadata
from fcfg.datasets.guesses import guess_attribute
from fcfg.datasets.pixels import read_all
from fcfg.support.errors import InputError, quoted
from fcfg.support.hashing import hex_digest
from fcfg.support.pictures import NIFTI, SUFFIXES, Cube, Pixels
from fcfg.support.tables import check_columns

Severity: TypeAlias = Literal["error", "warning", "info"]
Kinds: TypeAlias = "Counter[tuple[tuple[int, ...], str]]"  # sizes and modes in the files

_RARE = 10  # a level with fewer examples is rare
_SAMPLE = 8  # images of each split in the sample
_MOST_LABELS = 60  # largest number of rows and columns of the correlations


@dataclass(frozen=True)
class Finding:
    """A problem, with the files or values that have it.

    Training cannot start with an error. It can start with a warning, but may give poor results.
    """

    severity: Severity
    what: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class FolderReport:
    """Result of checking a folder."""

    path: Path
    findings: tuple[Finding, ...]
    images: int = 0  #: number of rows of the table that are not left out
    space: AttributeSpace | None = None  #: attributes, given or guessed from the columns
    splits: dict[str, int] = field(default_factory=dict)  #: number of rows by split
    labels: tuple[str, ...] = ()  #: labels of the correlations
    correlations: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)), repr=False)
    sample: dict[str, UInt8[np.ndarray, "example channel *size"]] = field(
        default_factory=dict, repr=False
    )
    """A few images of each split, the same number of each."""
    grey: bool = False  #: whether all images are grey
    side: int | None = None  #: shortest side of any image; None if no image could be read
    reasons: dict[str, str] = field(default_factory=dict)  #: reason for each guess, by column
    dimensions: int = 2  #: 3 if the images are volumes

    @property
    def ok(self) -> bool:
        """Whether training could begin."""
        return not any(finding.severity == "error" for finding in self.findings)


class _Findings(list[Finding]):
    """A growing list of findings."""

    def add(self, severity: Severity, what: str, names: Iterable[str]) -> None:
        """Add a problem of some files or values, if there are any."""
        if found := tuple(names):
            self.append(Finding(severity, what, found))

    def faults(self, faults: Iterable[InputError]) -> None:
        self.extend(Finding("error", fault.sentence) for fault in faults)

    @contextmanager
    def catching(self) -> Generator[None]:
        """Turn an ``InputError``, and those found together with it, into findings."""
        try:
            yield
        except InputError as error:
            self.faults((error, *error.others))


def check_folder(
    path: Path,
    config: FolderData | None = None,
    space: AttributeSpace | None = None,
    on_progress: OnProgress = silent,
) -> FolderReport:
    """Check every label and every image of a folder, to be loaded with some options.

    Without a ``space``, attributes are guessed from the columns.
    """
    root = existing_folder(path)
    config = (config or FolderData()).model_copy(update={"path": root})
    findings, table, reasons = _Findings(), dict[str, list[str]](), dict[str, str]()
    with findings.catching():
        table = read_metadata(root)
        if not table["file_name"]:
            findings.append(Finding("error", f"{METADATA} lists no image"))
    if not table.get("file_name"):
        return FolderReport(root, tuple(findings))
    if all(name.lower().endswith(NIFTI) for name in table["file_name"]):
        own = {"channels": 1, "dimensions": 3} | config.model_dump(exclude_unset=True)
        config = config.model_copy(update=own)
    suffixes = NIFTI if config.dimensions == 3 else SUFFIXES
    paths = [p.relative_to(root) for p in root.rglob("*") if p.name.lower().endswith(suffixes)]
    shown = {path.as_posix() for path in paths if not any(p.startswith(".") for p in path.parts)}
    unlisted = shown - {Path(name).as_posix() for name in table["file_name"]}
    findings.add("warning", f"images that {METADATA} does not list", sorted(unlisted))
    if space is None:
        space, reasons = _guess_space(config, table, findings)
    if space is None:
        findings.add("error", f"{METADATA} has no column that looks like an attribute", table)
    wanted = [] if space is None else [config.column_of(name) for name in space.names]
    with findings.catching():
        check_columns(METADATA, [*wanted, *config.special], table)
    known = [each for each in space or () if config.column_of(each.name) in table]
    if not set(config.special) <= set(table):
        config = config.model_copy(update={"split": None, "group": None})
    found = list(config.labelled(root, table, known))
    for reason in dict.fromkeys(case.reason for case in found if case.reason):
        gone = [case.name for case in found if case.reason == reason]
        findings.add("warning", f"left out, since there is {reason}", gone)
    cases: Sequence[Case] = [case for case in found if not case.reason]
    labels, correlations = _check_attributes(known, cases, findings)
    findings.faults(name_faults(root, cases))
    with findings.catching():
        cases = config.with_splits(cases)
        findings.faults(split_faults(root, cases, {}))
    sample, kinds = _check_images(config.pixels, cases, findings, on_progress)
    counts = Counter(case.split for case in cases)
    return FolderReport(
        root,
        tuple(findings),
        images=len(cases),
        space=space,
        splits={split: counts[split] for split in SPLITS if counts[split]},
        labels=labels,
        correlations=correlations,
        sample=sample,
        grey=bool(kinds) and all(mode[0] in "1LIF" for _, mode in kinds),
        side=min((min(size) for size, _ in kinds), default=None),
        reasons=reasons,
        dimensions=config.dimensions,
    )


def _guess_space(
    config: FolderData, table: Labels, findings: _Findings
) -> tuple[AttributeSpace | None, dict[str, str]]:
    """Guess the attributes, with reasons; columns that are not attributes become findings."""
    others = ("file_name", config.split, config.group)
    guesses = {n: guess_attribute(n, texts) for n, texts in table.items() if n not in others}
    asked = [] if config.group else [name for name, guess in guesses.items() if guess.question]
    findings.add(
        "warning",
        "columns that may name a patient or person; if so, images of one must not be in two "
        f"splits: check again with --group {shlex.quote(next(iter(asked), ''))}",
        [f"{name} ({guesses[name].question})" for name in asked],
    )
    ignored = {n: g for n, g in guesses.items() if g.attribute is None and n not in asked}
    findings.add(
        "info",
        "columns that do not look like attributes",
        [f"{name} ({guess.why})" for name, guess in ignored.items() if guess.legal_name],
    )
    findings.add(
        "warning",
        "ignored columns, since no attribute may have their names; rename them, or use "
        "data.rename",
        [f"{name} ({guess.why})" for name, guess in ignored.items() if not guess.legal_name],
    )
    findings.add(
        "warning",
        "columns of numbers with texts, which may be missing values or typing errors",
        [f"{name} ({quoted(guess.odd[:3])})" for name, guess in guesses.items() if guess.odd],
    )
    attributes = [guess.attribute for guess in guesses.values() if guess.attribute is not None]
    space = AttributeSpace(attributes) if attributes else None
    return space, {name: guess.why for name, guess in guesses.items()}


def _check_attributes(
    known: Sequence[AbstractAttribute], cases: Sequence[Case], findings: _Findings
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Find missing, invalid, rare and constant values; return labels and their correlations.

    A categorical attribute has a 0-1 variable per level; those of a constant variable are NaN.
    """
    names, columns = [case.name for case in cases], dict[str, Column]()
    complete = np.ones(len(cases), dtype=bool)
    for attribute in known:
        texts = [case.values[attribute.name] for case in cases]
        parsed, label = parse_column(attribute, texts), f"attribute '{attribute.name}'"
        findings.faults(parsed.faults(names, METADATA))
        invalid, columns[attribute.name] = parsed.missing + parsed.illegal, parsed.column
        complete[invalid] = False
        counts = Counter[float](np.delete(parsed.column, invalid).tolist())
        if len(counts) == 1:
            findings.add("warning", f"{label}: always the same value", [f"{min(counts):g}"])
        elif not isinstance(attribute, Continuous):
            levels = enumerate(attribute.choices)
            rare = [f"{text}: {counts[n]}" for n, text in levels if counts[n] < _RARE]
            findings.add("warning", f"{label}: levels with fewer than {_RARE} images", rare)
    # As many of the first attributes as fit, which bounds memory and keeps the picture legible.
    fitting = int((np.cumsum([each.width for each in known]) <= _MOST_LABELS).sum())
    chosen, rest = known[:fitting], known[fitting:]
    most = f"attributes without correlations: {_MOST_LABELS} numbers are shown at most"
    findings.add("info", most, [each.name for each in rest])
    if complete.sum() < 2 or not chosen:
        return (), np.zeros((0, 0))
    labels = [label for each in chosen for label in each.numbers]
    numbers = np.concatenate(
        [each.encode(columns[each.name][complete]) for each in chosen], axis=1
    )
    numbers[:, np.ptp(numbers, axis=0) == 0] = np.nan
    return tuple(labels), np.corrcoef(numbers, rowvar=False).reshape(len(labels), -1)


def _check_images(
    pixels: Pixels | Cube, cases: Sequence[Case], findings: _Findings, on_progress: OnProgress
) -> tuple[dict[str, UInt8[np.ndarray, "example channel *size"]], Kinds]:
    """Find images that are unreadable or identical; return a sample of each split, and kinds."""
    shown: dict[str, list[UInt8[np.ndarray, "channel *size"]]] = {}
    bad, several, digests = list[str](), list[str](), dict[str, list[Case]]()
    kinds: Kinds = Counter()
    with warnings.catch_warnings(), findings.catching():  # no reader for this kind of image
        warnings.simplefilter("ignore")  # Pillow warns of what is reported here
        results = read_all([case.source for case in cases], pixels)
        for done, (case, result) in enumerate(zip(cases, results, strict=True), start=1):
            on_progress("reading images", done, len(cases))
            if isinstance(result, str):
                bad.append(f"{case.name} ({result})")
                continue
            several += [case.name] if result.several_frames else []
            kinds[result.stored] += 1
            digests.setdefault(hex_digest(result.pixels.tobytes()), []).append(case)
            sample = shown.setdefault(case.split or "all", [])
            if len(sample) < _SAMPLE:
                sample.append(result.pixels)
    findings.add("error", "images that cannot be read", bad)
    findings.add("warning", "files with several frames (only the first is used)", several)
    if len(kinds) > 1:
        each = [("x".join(map(str, size)), mode, n) for (size, mode), n in kinds.most_common()]
        texts = [f"{size} {mode}: {count}" for size, mode, count in each]
        findings.add("info", "sizes and modes, all converted to one", texts)
    within, across = list[str](), list[str]()
    for same in digests.values():
        if len({case.name for case in same}) > 1:
            leaks = len({case.split for case in same}) > 1
            (across if leaks else within).append(" = ".join(case.name for case in same[:3]))
    findings.add("warning", "same image in more than one split", across)
    findings.add("info", "same image more than once in a split", within)
    fewest = min((len(images) for images in shown.values()), default=0)
    order = sorted(shown, key=lambda split: (*SPLITS, split).index(split))
    return {split: np.stack(shown[split][:fewest]) for split in order}, kinds
