"""The page: what was asked, what came out, and everything that shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fcfg.evaluation.summary import Summary
from fcfg.reports.axes import Panel
from fcfg.reports.captions import CAPTIONS, asked, drift_caption, explained, made
from fcfg.reports.failures import failures
from fcfg.reports.figures import Figures
from fcfg.reports.footer import footer
from fcfg.reports.gallery import gallery
from fcfg.reports.html import Markup, page, tag
from fcfg.reports.html_tables import absent, cost_table, family_key, main_table
from fcfg.reports.numbers import named, with_interval
from fcfg.reports.opening import opening_row
from fcfg.reports.texts import in_words
from fcfg.reports.verdict import reading

_LONG = 240  # letters of a caption that a wide page sets in two columns


@dataclass(frozen=True)
class _Section:
    key: str
    title: str
    content: tuple[Markup | None, ...]


def build_page(summary: Summary, figures: Figures) -> str:
    """The whole document.

    Args:
        summary: Of a run.
        figures: What to show of it.
    """
    sections = list(_sections(summary, figures))
    links = [tag("a", section.title, href=f"#{section.key}") for section in sections]
    header, failed = summary.header, bool(failures(summary))
    said = tag(
        "div",
        *(tag("p", line) for line in reading(summary)),
        class_="reading failed" if failed else "reading",
    )
    first = opening_row(figures.opening) if figures.opening is not None else None
    body = (
        tag("p", header["experiment"], class_="kicker"),
        tag("h1", header["title"] or header["experiment"]),
        *((said, first) if failed else (first, said)),
        tag("p", asked(summary), class_="asked long"),
        tag("nav", *links, aria_label="Contents"),
        *(tag("section", tag("h2", s.title, id=s.key), *s.content) for s in sections),
    )
    return page(f"{header['experiment']}: report", tag("main", *body), footer(summary))


def _sections(summary: Summary, figures: Figures) -> Iterator[_Section]:
    yield _Section("numbers", "The numbers", tuple(_numbers(summary)))
    if figures.drift:
        content = _drawings(summary, figures.drift, drift_caption(summary))
        yield _Section("drift", "What moved", (content,))
    if figures.delta:
        content = _drawings(summary, figures.delta, CAPTIONS["delta"])
        yield _Section("effectiveness", "Δ effectiveness", (content,))
    if figures.tradeoff:
        content = _drawings(summary, figures.tradeoff, CAPTIONS["tradeoff"])
        yield _Section("tradeoff", "Target against the rest", (family_key(summary), content))
    for key, title, strips in (
        ("counterfactuals", "Counterfactuals", figures.answers),
        ("truth", "Beside the truth", figures.truth),
        ("reversal", "There and back again", figures.reversals),
    ):
        if strips:
            content = _figure(summary, CAPTIONS[key], gallery(summary, strips))
            yield _Section(key, title, (content,))
    if not figures.strips:
        text = "This run kept no pictures, so there are no strips to look at."
        yield _Section("counterfactuals", "Counterfactuals", (tag("p", text),))
    hardware = summary.header["environment"].get("device", "hardware that the run does not name")
    caption = CAPTIONS["cost"].format(hardware=hardware)
    yield _Section("cost", "What it costs", (_figure(summary, caption, cost_table(summary)),))


def _numbers(summary: Summary) -> Iterator[Markup]:
    yield tag("p", explained(summary), class_="long")
    for do in summary.dos:
        yield tag("h3", named(do), " ", tag("small", in_words(summary, do)))
        yield main_table(summary, do)
    if summary.composition is not None and summary.composition.change_mae is not None:
        value = with_interval(summary.composition.change_mae, 3)
        yield tag("p", CAPTIONS["composition"].format(value=value))
    notes = [tag("li", note) for note in absent(summary)]
    if notes:
        yield tag("ul", *notes, class_="notes")
    yield tag("p", made(summary), class_="made")


def _drawings(summary: Summary, panels: Sequence[Panel], caption: str) -> Markup:
    drawings = [tag("div", panel.svg) for panel in panels]
    return _figure(summary, caption, tag("div", *drawings, class_="panels"))


def _figure(summary: Summary, caption: str, content: Markup) -> Markup:
    """What to see, then the figure, then what it was made from."""
    return tag(
        "figure",
        tag("figcaption", caption, class_="long" if len(caption) > _LONG else None),
        content,
        tag("p", made(summary), class_="made"),
    )
