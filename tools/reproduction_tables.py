"""Tables of results beside the paper's numbers, from the result files under docs/results."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from agreement import Check, checks, signs
from fcfg.evaluation.result_files import open_file, read_results
from fcfg.evaluation.summary import Summary, summarise
from fcfg.reports.numbers import named, number, with_interval
from fcfg.reports.paper import dataset_of, paper_rows
from fcfg.reports.rule_styles import setting
from fcfg.reports.tables import entries, markdown_table, table_row

RESULTS = Path(__file__).parents[1] / "docs" / "results"
_CORE = {"photographs": "celeba", "radiographs": "nih", "drawings": "portraits"}
_DRIFT = {  # two measures of the same: the second needs a known truth
    f"amplification ({measure}) at most a third": "amplification (shift) at most a third"
    for measure in ("shift", "factor error")
}
_WORDS = {True: "yes", False: "**no**", None: "–"}


def part(name: str, folder: Path = RESULTS) -> str:
    """Return the tables of all result files on a data set."""
    sections = [section(file) for file in result_files(folder) if data_set(file) == name]
    if sections:
        return "\n".join(sections)
    rows = len([row for row in paper_rows(name) if row.guidance is not None])
    there = f" The paper has {rows} rows on it." if rows else ""
    return f"There is no result file on `{name}` yet.{there}"


def reversibility(file: Path = RESULTS / "celeba-reversibility.json") -> str:
    """Return the table of tools/reversibility.py."""
    if not file.exists():
        return "This has not been measured yet. Run `tools/reversibility.py`."
    result = json.loads(file.read_text("utf-8"))
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in result["rows"]:
        groups.setdefault(_how(row), []).append(row)
    heads = [
        *("", "unguided", "CFG 3.0", "FCFG 3.0 / 1.2", "FCFG − CFG", "FCFG, drift of R, G, B"),
        "loss: whole / no condition / target alone / all but target",
    ]
    lines = [heads, ["---"] * len(heads)]
    for how, (unguided, cfg, fcfg) in groups.items():
        maes = [f"{row['mae']['value']:.3f}" for row in (unguided, cfg, fcfg)]
        against, losses = fcfg["against_cfg"], fcfg["losses"]
        lines.append(
            [
                how,
                *maes,
                f"{against['value']:+.3f} [{against['low']:+.3f}, {against['high']:+.3f}]",
                " ".join(f"{channel:+.3f}" for channel in fcfg["drift"]),
                "–" if losses is None else " / ".join(f"{loss:.5f}" for loss in losses.values()),
            ]
        )
    first = result["rows"][0]
    return "\n".join(
        [
            *map(table_row, lines),
            "",
            f"Reversal of do({result['do']}), {first['images']} images; `{result['command']}`, "
            f"{result['environment']['device']}, commit {(result['commit'] or '?')[:12]}.",
        ]
    )


def _how(row: dict[str, Any]) -> str:
    trained = "" if row["trained"] is None else f", {row['trained']:,} steps of training"
    run = "" if row["run"] == "run" else f", {row['run']}"
    return f"{row['weights']} weights{trained}{run}, {row['precision']}, {row['steps']} steps"


#: Beginnings of files that have tables of their own.
_STUDIES = ("cycles-", "drawn-noise-", "dropout-", "plain-", "rivals-")


def result_files(folder: Path) -> list[Path]:
    """Return the result files of evaluations, without training logs and comparisons of models."""
    files = sorted([*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")])
    evaluations = [file for file in files if not file.name.startswith(_STUDIES)]
    return [file for file in evaluations if _header(file).get("kind") == "run"]


def data_set(file: Path) -> str:
    """Return the data set of a result file, by the paper's name for it."""
    header = _header(file)
    return dataset_of(header) or header["data"]["format"]


def summary_of(file: Path) -> Summary:
    """Return the summary of a result file, computed once."""
    return _summary(file, file.stat().st_mtime_ns)


def result_table(file: Path) -> str:
    """Return the table of one result file, with the truth if it is known."""
    summary = summary_of(file)
    if not summary.knows_truth:
        return markdown_table(summary)
    return markdown_table(
        summary,
        attributes=("auroc", "factor_error"),
        images=("truth_mae", "truth_changed", "reversal_mae", "reversal_lpips"),
    )


def main_claim(file: Path = RESULTS / "celeba-core.jsonl.gz") -> str:
    """Return the table of the main claim: CFG beside FCFG on photographs."""
    summary = summary_of(file)
    return markdown_table(summary, attributes=("delta",), guidance=_cfg_and_fcfg(summary))


def portraits_brief(file: Path = RESULTS / "portraits-core.jsonl.gz") -> str:
    """Return CFG, FCFG and no guidance on drawings, for two interventions, against the truth."""
    summary = summary_of(file)
    return markdown_table(
        summary,
        attributes=("factor_error",),
        images=("truth_mae",),
        dos=summary.dos[:2],
        guidance=["none", *_cfg_and_fcfg(summary)],
    )


def radiographs_brief(file: Path = RESULTS / "nih-core.jsonl.gz") -> str:
    """Return CFG beside FCFG on radiographs."""
    summary = summary_of(file)
    return markdown_table(summary, attributes=("delta",), guidance=_cfg_and_fcfg(summary))


def claims_held(folder: Path = RESULTS) -> str:
    """Return how often each claim holds, for each data set and pair of guidances."""
    found = [
        (title, replace(check, claim=_DRIFT.get(check.claim, check.claim)))
        for title, name in _CORE.items()
        for check in checks(summary_of(folder / f"{name}-core.jsonl.gz"))
    ]
    claims = list(dict.fromkeys(check.claim for _, check in found))
    rows = [["data", "rules", *claims]]
    rows.append(["---"] * len(rows[0]))
    for title, pair in dict.fromkeys((title, _rules(check)) for title, check in found):
        own = [check for data, check in found if (data, _rules(check)) == (title, pair)]
        rows.append([title, pair, *(_held(own, claim) for claim in claims)])
    return "\n".join(map(table_row, rows))


def _cfg_and_fcfg(summary: Summary) -> list[str]:
    return [text for text in summary.settings if text.startswith(("cfg:", "fcfg:"))]


def section(file: Path) -> str:
    """Return the table of one result file, and how it agrees with the paper."""
    summary = summary_of(file)
    header = summary.header
    lines = [
        f"### {header['experiment']}",
        "",
        f"{header['title']}. From `docs/results/{file.name}`, written by `{header['command']}`.",
        "",
        result_table(file),
    ]
    lines += [*_signs(summary), *_claims(checks(summary)), *_notes(summary)]
    return "\n".join(lines)


def _signs(summary: Summary) -> list[str]:
    found = signs(summary)
    if not found:
        return ["The paper has none of these settings.", ""]
    count = Counter(sign.agrees for sign in found)
    lines = [
        f"**Signs.** The paper has {len(found)} of these Δ. {count[True]} have the same sign, "
        f"{count[False]} the opposite one, and {count[None]} are indistinguishable from 0.",
        "",
    ]
    lines += [
        f"- {named(sign.do)}, {setting(sign.guidance).label}, {sign.attribute}: "
        f"{with_interval(sign.ours, 1, signed=True)}, in the paper "
        f"{number(sign.paper, 1, signed=True)}."
        for sign in found
        if sign.agrees is False
    ]
    return [*lines, ""]


def _claims(found: list[Check]) -> list[str]:
    """Return how often each claim holds, then a folded table of all claims with their numbers."""
    if not found:
        return ["No factored guidance stands beside a global one of the same strength.", ""]
    count = Counter(check.holds for check in found)
    claims = list(dict.fromkeys(check.claim for check in found))
    rivals = list(dict.fromkeys((check.factored, check.everywhere) for check in found))
    heads = ["factored against global", *claims]
    rows = [heads, ["---"] * len(heads)]
    for rival in rivals:
        theirs = [check for check in found if (check.factored, check.everywhere) == rival]
        rows.append([_rivals(theirs[0]), *(_held(theirs, claim) for claim in claims)])
    return [
        f"**Claims.** Of {len(found)}, {count[True]} hold, {count[False]} do not, and "
        f"{count[None]} stay undecided (–). A fall of an attribute that should stay is no "
        "amplification. The number of cases in which each holds:",
        "",
        *map(table_row, rows),
        "",
        "<details><summary>All claims, with numbers</summary>",
        "",
        *map(table_row, _every_claim(found)),
        "",
        "</details>",
        "",
    ]


def _held(found: list[Check], claim: str) -> str:
    """Return in how many decided cases a claim holds."""
    decided = [c.holds for c in found if c.claim == claim and c.holds is not None]
    return f"{sum(decided)} of {len(decided)}" if decided else "–"


def _every_claim(found: list[Check]) -> list[list[str]]:
    heads = [
        "claim",
        "do",
        "factored against global",
        "attribute",
        "ours",
        "holds",
        "in the paper",
    ]
    rows = [
        [
            check.claim,
            named(check.do),
            _rivals(check),
            check.attribute or "–",
            check.ours,
            _WORDS[check.holds],
            _WORDS[check.paper],
        ]
        for check in found
    ]
    return [heads, ["---"] * len(heads), *rows]


def _rivals(check: Check) -> str:
    return f"{setting(check.factored).label}, {setting(check.everywhere).label}"


def _rules(check: Check) -> str:
    factored, everywhere = (
        setting(text).label.split()[0] for text in (check.factored, check.everywhere)
    )
    return f"{factored}, {everywhere}"


def _notes(summary: Summary) -> list[str]:
    """List slips in rows of the paper that are in the table."""
    noted = {
        (entry.do, entry.guidance): entry.note for entry in entries(summary).values() if entry.note
    }
    return _list(
        f"The paper, {named(do)}, {setting(text).label}: {note}."
        for (do, text), note in noted.items()
    )


def _list(items: Iterable[str]) -> list[str]:
    lines = [f"- {item}" for item in items]
    return [*lines, ""] if lines else []


def _header(file: Path) -> dict[str, object]:
    with open_file(file) as lines:
        return json.loads(lines.readline())


@cache
def _summary(file: Path, changed: int) -> Summary:
    return summarise(read_results(file))
