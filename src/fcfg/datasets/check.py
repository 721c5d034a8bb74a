"""Check a folder of images before training, and collect everything that is wrong with it.

Loading raises the first error that it meets; this check reports all of them.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray
from PIL import Image

from fcfg.causal.attributes import AttributeSpace
from fcfg.datasets.base import SPLITS, OnProgress, existing_folder
from fcfg.datasets.columns import guess_attribute
from fcfg.datasets.findings import (
    MOST_LABELS,
    Finding,
    Findings,
    Labels,
    check_attributes,
    check_files,
    check_splits,
    correlations,
)
from fcfg.datasets.folder import METADATA, FolderData, read_metadata
from fcfg.datasets.pixels import Source, read_all
from fcfg.support.errors import quoted
from fcfg.support.fonts import font_for, missing_letters

_SAMPLE = 8  # images of each split in the sample


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
    sample: dict[str, UInt8[np.ndarray, "example channel height width"]] = field(
        default_factory=dict, repr=False
    )
    """A few images of each split, the same number of each."""
    grey: bool = False  #: whether all images are grey
    side: int | None = None  #: shortest side of any image; None if no image could be measured
    reasons: dict[str, str] = field(default_factory=dict)  #: reason for each guess, by column

    @property
    def ok(self) -> bool:
        """Whether training could begin."""
        return not any(finding.severity == "error" for finding in self.findings)


def check_folder(
    path: Path,
    config: FolderData | None = None,
    space: AttributeSpace | None = None,
    on_progress: OnProgress | None = None,
) -> FolderReport:
    """Check every label and every image of a folder.

    Args:
        path: Folder to check; it must exist.
        config: Options to load it with; defaults otherwise.
        space: Attributes; guessed from the columns otherwise.
        on_progress: Callback with 'reading images', the number of images read, and the total.
    """
    root = existing_folder(path)
    config = (config or FolderData()).model_copy(update={"path": root})
    findings = Findings()
    table = _read_table(root, findings)
    if table is None:
        return FolderReport(root, tuple(findings))
    check_files(root, table["file_name"], findings)
    reasons: dict[str, str] = {}
    if space is None:
        space, reasons = _guess_space(config, table, findings)
    labels, matrix = (), np.zeros((0, 0))
    if space is None:
        findings.add("error", f"{METADATA} has no column that looks like an attribute", [*table])
    else:
        complete = check_attributes(config, table, space, findings)
        if complete.any():
            labels, matrix = correlations(config, table, space, complete)
            _check_labels(labels, space, findings)
        table, _ = config.complete(table, space)
    names = table["file_name"]
    splits = check_splits(config, table, findings)
    grey, side = _check_kinds([root / name for name in names], findings)
    sample = _check_images(root, config, names, splits, findings, on_progress)
    counts = Counter(splits or ())
    return FolderReport(
        root,
        tuple(findings),
        images=len(names),
        space=space,
        splits={split: counts[split] for split in SPLITS if counts[split]},
        labels=labels,
        correlations=matrix,
        sample=sample,
        grey=grey,
        side=side,
        reasons=reasons,
    )


def _read_table(root: Path, findings: Findings) -> Labels | None:
    with findings.catching():
        table = read_metadata(root)
        if table["file_name"]:
            return table
        findings.append(Finding("error", f"{METADATA} lists no image"))
    return None


def _guess_space(
    config: FolderData, table: Labels, findings: Findings
) -> tuple[AttributeSpace | None, dict[str, str]]:
    """Guess the attributes, with reasons; columns that are not attributes become findings."""
    others = ("file_name", config.split, config.group)
    guesses = {n: guess_attribute(n, texts) for n, texts in table.items() if n not in others}
    asked = [] if config.group else [name for name, guess in guesses.items() if guess.question]
    findings.add(
        "warning",
        "columns that may name a patient or person; if so, images of one must not be in two "
        f"splits: check again with --group {shlex.quote(asked[0])}"
        if asked
        else "",
        [f"{name} ({guesses[name].question})" for name in asked],
    )
    ignored = [
        (name, guess)
        for name, guess in guesses.items()
        if guess.attribute is None and name not in asked
    ]
    findings.add(
        "info",
        "columns that do not look like attributes",
        [f"{name} ({guess.why})" for name, guess in ignored if guess.legal_name],
    )
    findings.add(
        "warning",
        "ignored columns, since no attribute may have their names; rename them, or use "
        "data.rename",
        [f"{name} ({guess.why})" for name, guess in ignored if not guess.legal_name],
    )
    findings.add(
        "warning",
        "columns of numbers with texts, which may be missing values or typing errors",
        [f"{name} ({quoted(guess.odd[:3])})" for name, guess in guesses.items() if guess.odd],
    )
    attributes = [guess.attribute for guess in guesses.values() if guess.attribute is not None]
    space = AttributeSpace(attributes) if attributes else None
    return space, {name: guess.why for name, guess in guesses.items()}


def _check_labels(labels: Sequence[str], space: AttributeSpace, findings: Findings) -> None:
    """Find attributes and letters that the picture of the correlations cannot show."""
    shown = {label.split(":")[0] for label in labels}  # no name has a colon
    findings.add(
        "info",
        f"attributes without correlations: {MOST_LABELS} numbers are shown at most",
        [name for name in space.names if name not in shown],
    )
    font = font_for(labels, 13)
    findings.add(
        "info",
        "labels with letters that no font of this machine has: pictures show their codes",
        [label for label in labels if missing_letters(label, font)],
    )


def _check_images(
    root: Path,
    config: FolderData,
    names: Sequence[str],
    splits: Sequence[str] | None,
    findings: Findings,
    on_progress: OnProgress | None,
) -> dict[str, UInt8[np.ndarray, "example channel height width"]]:
    """Find images that are unreadable or identical; return a sample of each split."""
    present = [row for row, name in enumerate(names) if os.path.isfile(root / name)]
    results = read_all([Source(root / names[row]) for row in present], config.pixels)
    bad: list[str] = []
    several: list[str] = []
    digests: dict[bytes, list[int]] = {}
    shown: dict[str, list[UInt8[np.ndarray, "channel height width"]]] = {}
    with warnings.catch_warnings(), findings.catching():  # no reader for this kind of image
        warnings.simplefilter("ignore")  # Pillow warns of what is reported here
        for done, (row, result) in enumerate(zip(present, results, strict=True), start=1):
            if on_progress is not None:
                on_progress("reading images", done, len(present))
            if isinstance(result, str):
                bad.append(f"{names[row]} ({result})")
                continue
            several.extend([names[row]] if result.several_frames else [])
            digest = hashlib.blake2b(result.pixels.tobytes(), digest_size=16).digest()
            digests.setdefault(digest, []).append(row)
            sample = shown.setdefault(splits[row] if splits is not None else "all", [])
            if len(sample) < _SAMPLE:
                sample.append(result.pixels)
    findings.add("error", "images that cannot be read", bad)
    findings.add("warning", "files with several frames (only the first is used)", several)
    _check_duplicates(digests, names, splits, findings)
    fewest = min((len(images) for images in shown.values()), default=0)
    order = sorted(shown, key=lambda split: (*SPLITS, split).index(split))
    return {split: np.stack(shown[split][:fewest]) for split in order}


def _check_duplicates(
    digests: dict[bytes, list[int]],
    names: Sequence[str],
    splits: Sequence[str] | None,
    findings: Findings,
) -> None:
    within: list[str] = []
    across: list[str] = []
    for rows in digests.values():
        if len({names[row] for row in rows}) > 1:
            leaks = splits is not None and len({splits[row] for row in rows}) > 1
            (across if leaks else within).append(" = ".join(names[row] for row in rows[:3]))
    findings.add("warning", "same image in more than one split", across)
    findings.add("info", "same image more than once in a split", within)


def _check_kinds(paths: Sequence[Path], findings: Findings) -> tuple[bool, int | None]:
    """Read sizes and modes from file headers: whether all are grey, and the shortest side."""
    kinds: Counter[tuple[tuple[int, int], str]] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in paths:
            try:
                with Image.open(path) as picture:
                    kinds[picture.size, picture.mode] += 1
            except Exception:  # reported by the full read; Pillow has no DICOM headers
                continue
    if len(kinds) > 1:
        several = [f"{w}x{h} {mode}: {count}" for ((w, h), mode), count in kinds.most_common()]
        findings.add("info", "sizes and modes, all converted to one", several)
    grey = bool(kinds) and all(mode[0] in "1LIF" for _, mode in kinds)
    return grey, min((min(size) for size, _ in kinds), default=None)
