"""Compare our results with the paper's.

Does each Δ have the same sign as in the paper? Do the paper's claims on factored guidance hold:
that it amplifies attributes off target far less than global guidance of the same strength,
reaches the target as well, and is reversed closer to the factual image?
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from fcfg.evaluation.metric_table import effectiveness
from fcfg.evaluation.summary import Cell, Estimates, Summary
from fcfg.metrics import Estimate, amplification
from fcfg.reports.paper import PaperRow, dataset_of, match, meaning
from fcfg.reports.wording import number, with_interval

#: Largest share of the amplification of global guidance.
SHARE = 1 / 3


@dataclass(frozen=True, eq=False)
class Sign:
    """One Δ, in our results and in the paper."""

    do: str
    guidance: str
    attribute: str
    ours: Estimate
    paper: float

    @property
    def agrees(self) -> bool | None:
        """Whether both have the same sign; None if our interval contains 0, or theirs is 0."""
        if not self.ours.excludes_zero or self.paper == 0:
            return None
        return (self.ours.value > 0) == (self.paper > 0)


@dataclass(frozen=True)
class Check:
    """One claim on factored guidance, against global guidance of the same rule and strength."""

    claim: str
    do: str
    everywhere: str  #: the global guidance
    factored: str
    attribute: str  #: empty for claims on whole images
    ours: str  #: our numbers
    holds: bool | None  #: None if undecided, or not applicable
    paper: bool | None  #: whether it holds for the paper's numbers; None if there are none


def signs(summary: Summary) -> list[Sign]:
    """Return every Δ that is in our results and in the paper."""
    dataset = dataset_of(summary.header)
    return [
        Sign(do, guidance, name, delta, row.delta[name])
        for (do, guidance), cell in summary.cells.items()
        if repr(meaning(guidance)) != "none" and (row := match(dataset, do, guidance)) is not None
        for name, delta in cell.of("delta").items()
        if name in row.delta
    ]


def rivals(settings: Iterable[str]) -> list[tuple[str, str]]:
    """Pair each global guidance with the factored one of the same rule and strength.

    >>> rivals(["none", "cfg:2.0", "cfg:3.0", "fcfg:affected=3.0,invariant=1.2", "apg:3.0"])
    [('cfg:3.0', 'fcfg:affected=3.0,invariant=1.2')]

    All other options must be equal.

    >>> rivals(["cfg:3.0", "cfg:3.0;stop=0.5", "fcfg:affected=3.0,invariant=1.2;stop=0.5"])
    [('cfg:3.0;stop=0.5', 'fcfg:affected=3.0,invariant=1.2;stop=0.5')]
    """
    known = {text: meaning(text) for text in settings}
    return [
        (everywhere, factored)
        for factored, f in known.items()
        for everywhere, g in known.items()
        if f.factored
        and not g.factored
        and replace(g, weights=()) == replace(f, weights=(), factored=False)
        and dict(g.weights).get("all") == dict(f.weights).get("affected")
    ]


def checks(summary: Summary) -> list[Check]:
    """Check every claim, for every intervention and pair of guidances of a run."""
    return [
        check
        for everywhere, factored in rivals(summary.settings)
        for do in summary.dos
        if (do, everywhere) in summary.cells and (do, factored) in summary.cells
        for check in _Pair(summary, do, everywhere, factored).checks()
    ]


class _Pair:
    """A global and a factored guidance under one intervention."""

    def __init__(self, summary: Summary, do: str, everywhere: str, factored: str) -> None:
        self.summary, self.key = summary, (do, everywhere, factored)
        self.cells = summary.cells[(do, everywhere)], summary.cells[(do, factored)]
        dataset = dataset_of(summary.header)
        rows = match(dataset, do, everywhere), match(dataset, do, factored)
        self.rows = None if rows[0] is None or rows[1] is None else (rows[0], rows[1])

    def checks(self) -> Iterator[Check]:
        cfg, fcfg = self.cells
        deltas = self._discrete(cfg), self._discrete(fcfg)
        truth = "factor error" if cfg.of("factor_error") else "shift"
        for word, theirs, ours in (("Δ", *deltas), (truth, cfg.drift, fcfg.drift)):
            for name in cfg.invariant:
                if name in theirs:
                    yield self._amplification(word, name, theirs[name], ours[name])
        for name in cfg.targets:
            if name in deltas[0]:
                yield self._target(name, deltas[1][name] - deltas[0][name])
        for word, theirs, ours in (
            ("MAE", cfg.whole("reversal_mae"), fcfg.whole("reversal_mae")),
            ("LPIPS", cfg.whole("reversal_lpips"), fcfg.whole("reversal_lpips")),
        ):
            if theirs is not None and ours is not None:
                yield self._reversal(word, ours - theirs)

    def _discrete(self, cell: Cell) -> Estimates:
        """Return Δ of AUROC only: a larger error is not amplification."""
        found = cell.of("delta").items()
        return {
            name: e for name, e in found if effectiveness(self.summary.space, name).name == "auroc"
        }

    def _amplification(self, word: str, name: str, theirs: Estimate, ours: Estimate) -> Check:
        digits = 1 if word == "Δ" else 3
        left = amplification(ours)
        said = None
        if word == "Δ" and self.rows and all(name in row.delta for row in self.rows):
            said = _spared(self.rows[0].delta[name], self.rows[1].delta[name])
        return self._check(
            f"amplification ({word}) at most a third",
            name,
            f"{with_interval(theirs, digits, signed=True)} → {number(left, digits)}",
            left <= SHARE * theirs.value if theirs.low > 0 else None,
            said,
        )

    def _target(self, name: str, gap: Estimate) -> Check:
        holds = True if gap.value >= 0 else False if gap.high < 0 else None
        said = None
        if self.rows and all(name in row.delta for row in self.rows):
            said = self.rows[1].delta[name] >= self.rows[0].delta[name]
        text = with_interval(gap, 1, signed=True)
        return self._check("target Δ not below", name, text, holds, said)

    def _reversal(self, word: str, gap: Estimate) -> Check:
        holds = gap.value < 0 if gap.excludes_zero else None
        said = _order(*self.rows, word) if self.rows else None
        text = with_interval(gap, 3, signed=True)
        return self._check(f"reverses closer ({word})", "", text, holds, said)

    def _check(
        self, claim: str, attribute: str, ours: str, holds: bool | None, paper: bool | None
    ) -> Check:
        return Check(claim, *self.key, attribute, ours, holds, paper)


def _spared(theirs: float, ours: float) -> bool | None:
    return max(ours, 0.0) <= SHARE * theirs if theirs > 0 else None


def _order(everywhere: PaperRow, factored: PaperRow, word: str) -> bool | None:
    before, after = (row.mae if word == "MAE" else row.lpips for row in (everywhere, factored))
    return None if before is None or after is None else after < before
