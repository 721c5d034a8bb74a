r"""The table in the paper's layout: blocks of interventions, rows of settings, booktabs.

The text is a ``tabular`` to be ``\input`` into a document that uses booktabs and xcolor.
"""

from __future__ import annotations

from collections.abc import Iterable

from fcfg.evaluation.summary import Summary
from fcfg.reports.metric_values import METRICS, Entry, Key, effectiveness, entries, heading
from fcfg.reports.rule_styles import setting
from fcfg.reports.texts import measured_with

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "Δ": r"$\Delta$",
    "ω": r"$\omega$",
    "×": r"$\times$",
    **{character: "\\" + character for character in "&%$#_"},
}
_GROUPS = {"affected": r"\mathrm{aff}", "invariant": r"\mathrm{inv}"}


def escaped(text: str) -> str:
    r"""Text that LaTeX prints as it is.

    >>> print(escaped("100 % of lung_mass"))
    100 \% of lung\_mass
    """
    return "".join(_ESCAPES.get(character, character) for character in text)


def configuration(text: str) -> str:
    r"""The weights of a guidance, in the paper's letters.

    >>> print(configuration("fcfg:affected=3,invariant=1.2"))
    $\omega_{\mathrm{aff}}=3.0$, $\omega_{\mathrm{inv}}=1.2$
    >>> print(configuration("cfg++:0.02"), configuration("none"))
    $\lambda=0.02$ $\omega=1.0$
    """
    chosen = setting(text)
    letter = r"\lambda" if chosen.family.endswith("cfg++") else r"\omega"
    if not chosen.factored:
        shown = [f"${letter}={weight}$" for _, weight in chosen.weights or (("all", 1.0),)]
    else:
        shown = [f"${letter}_{{{_group(name)}}}={weight}$" for name, weight in chosen.weights]
    return ", ".join([*shown, *([escaped(chosen.options)] if chosen.options else [])])


def _group(name: str) -> str:
    return _GROUPS.get(name, rf"\textrm{{\tiny {escaped(name)}}}")


def latex_table(summary: Summary) -> str:
    """The table of a run, the paper's numbers in grey under ours where a row matches.

    Args:
        summary: Of a run. Where its images are too few for effectiveness, the columns of the
            attributes hold the signed shift of what the judge reads.
    """
    found = entries(summary)
    names, columns = summary.space.names, len(summary.space) + 5
    metrics = {name: _metrics(summary, found, name) for name in names}
    heads = ["do(key)", "Guidance", "Configuration"]
    heads += [
        escaped(f"{name} {_slashed(heading(summary, m, name) for m in metrics[name])}")
        for name in names
    ]
    heads += [METRICS["reversal_mae"].title, METRICS["reversal_lpips"].title]
    lines = [
        rf"\begin{{tabular}}{{lll{'c' * len(names)}|cc}}",
        r"\toprule",
        _row(heads),
    ]
    for do in summary.dos:
        lines.append(r"\midrule")
        shown, family = f"do({escaped(do.replace('+', ', '))})", ""
        for text in [text for asked, text in summary.cells if asked == do]:
            chosen = setting(text)
            family, before = chosen.family, family
            cells = [
                [found.get((do, text, metric, name)) for metric in metrics[name]] for name in names
            ]
            cells += [
                [found.get((do, text, metric, ""))]
                for metric in ("reversal_mae", "reversal_lpips")
            ]
            label = "" if family == before else escaped(chosen.family_name)
            lines.append(_row([shown, label, configuration(text), *map(_ours, cells)]))
            shown = ""
            if any(entry and entry.paper is not None for cell in cells for entry in cell):
                grey = ["", "", _grey("the paper"), *map(_theirs, cells)]
                lines.append(_row(grey))
    lines += [
        r"\bottomrule",
        _row([rf"\multicolumn{{{columns}}}{{l}}{{\tiny {escaped(measured_with(summary))}}}"]),
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _metrics(summary: Summary, found: dict[Key, Entry], name: str) -> tuple[str, ...]:
    metric = effectiveness(summary, name)
    measured = any(key[2] == metric and key[3] == name for key in found)
    return (metric, "delta") if measured else ("shift",)


def _ours(cell: Iterable[Entry | None]) -> str:
    return _slashed("--" if entry is None else _number(entry) for entry in cell)


def _number(entry: Entry) -> str:
    half = entry.half
    margin = "" if half is None else rf"{{\tiny$\,\pm\,${entry.text(half).lstrip('+')}}}"
    return _minus(entry.text(entry.value)) + margin


def _theirs(cell: Iterable[Entry | None]) -> str:
    values = [None if entry is None or entry.paper is None else entry for entry in cell]
    if not any(values):
        return ""
    return _grey(_slashed("--" if e is None else _minus(e.text(e.paper or 0.0)) for e in values))


def _minus(text: str) -> str:
    return text.replace("-", "$-$")


def _grey(text: str) -> str:
    return rf"\textcolor{{gray}}{{{text}}}"


def _slashed(parts: Iterable[str]) -> str:
    return " / ".join(parts)


def _row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"
