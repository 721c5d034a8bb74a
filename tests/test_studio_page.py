"""The page of the studio in a real browser: asked, slid, compared, reloaded, and refused."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import fcfg
from browser import browsing, chromium
from evaluations import SIZE
from fcfg.pipeline.plans import DEFAULT_GUIDANCE
from fcfg.studio.export import gallery_table, one_page
from studios import png
from visits import QUICK, Visit, listening_model, running_studio, studio_model

axe = pytest.importorskip("axe_core_python.sync_playwright", reason="checks accessibility")
pytestmark = browsing
Open = Callable[..., Visit]


@pytest.fixture(scope="module")
def model(listening_folder: Path) -> str:
    """A tiny model of a drawn world, which answers in a moment."""
    return str(listening_folder)


@pytest.fixture(scope="module")
def address(model: str) -> Iterator[str]:
    with running_studio(model) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as program:
        yield program


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Open]:
    """Opens pages of this studio, of another address, or of a studio of other models."""
    with ExitStack() as stack:

        def start(
            fragment: str | None = QUICK,
            address: str = f"{address}/",
            models: Sequence[str] = (),
            **options: Any,
        ) -> Visit:
            if models:
                address = f"{stack.enter_context(running_studio(*models))}/"
            visit = Visit(browser, address, **options)
            stack.callback(visit.close)
            if fragment is not None:
                visit.open(fragment)
            return visit

        yield start


def test_a_newcomer_sees_an_answer_without_a_click(visit: Open) -> None:
    here = visit("")
    page = here.page
    (question,) = here.questions()[:1]
    value = question["do"]["smiling"]
    assert value == 1 - question["attributes"]["smiling"]
    assert here.texts("h1") == [f"What if smiling changed to {['no', 'yes'][value]}?"]
    assert here.texts("#notation") == [f"do(smiling = {value})"]
    assert page.url.endswith(f"#image={question['image']}&do=smiling:{value}")
    assert here.shown("after").startswith("data:image/png")
    assert here.shown("before").startswith("/api/images/")
    assert page.locator(".node.target").get_attribute("data-name") == "smiling"
    assert re.match("Not reached|Nothing speaks against|Do not trust", here.texts("#trust")[0])
    assert "no medical claim" in page.locator("footer").inner_text()
    page.locator(".tile canvas").nth(5).wait_for()  # the strip follows by itself
    strip = [question["guidance"] for question in here.questions()[1:]]
    assert [re.match(r"\w+:0\.0", text) is not None for text in strip] == [True] + 5 * [False]


def test_what_is_asked_and_not_read_is_amber_and_first(visit: Open, model: str, tmp_path) -> None:
    doubter = fcfg.load(model)
    with torch.no_grad():  # always reads a smile of 55 %
        doubter.judge.network.head.weight.zero_()
        doubter.judge.network.head.bias.zero_()[0] = 0.2007
    fcfg.save(doubter, tmp_path / "doubter")
    here = visit(None, models=[str(tmp_path / "doubter")])
    colours = set()
    for value, kind in ((0, "doubtful"), (1, "open")):  # it has no thresholds, so never good
        here.open(f"image=s0&do=smiling:{value}&sampling=dpm-2m+uniform+4&tab=compare")
        here.page.locator(f"#notation:has-text('= {value}')").wait_for()
        here.page.locator(f"#trust.{kind}").wait_for()
        colours.add(here.page.evaluate("getComputedStyle(window.trust).color"))
        said = here.texts("#trust")[0]
        assert said.startswith("Not reached: smiling reads 55 %, asked no.") is (value == 0)
    assert len(colours) == 2
    here.page.locator("#tab-rules").click()
    here.page.locator(".tile canvas").nth(1).wait_for()
    assert not any("not reached" in words for words in here.texts(".tile"))
    here.page.locator(".node[data-name=smiling]").click()
    here.answered()
    here.page.locator(".tile", has_text="not reached").nth(1).wait_for()


#: Notes the picture that is shown whenever it is said to be computed beforehand.
SEEN = """
window.seen = []
new MutationObserver(() => {
    const [text, after] = ["after-text", "after"].map((id) => document.getElementById(id))
    if (text?.textContent.includes("computed beforehand by this model"))
        window.seen.push([after.dataset.address, after.classList.contains("preview")])
}).observe(document, { subtree: true, childList: true, characterData: true })
"""


def test_the_shipped_model_answers_at_once_and_says_so(visit: Open) -> None:
    shipped = json.loads((fcfg.load("digits").folder / "opening.json").read_text("utf-8"))
    here = visit(None, models=["digits"])
    here.page.add_init_script(SEEN)  # the answer may follow within milliseconds
    here.page.goto(here.address)
    here.answered()
    assert here.page.evaluate("window.seen[0]") == [shipped["image"], False]
    assert here.texts("h1") == ["What if the strokes were 5.5 pixels thick?"]
    assert here.questions()[0]["do"] == shipped["asked"]["do"]
    assert here.texts("#after-text") == [""]


def test_what_would_be_is_what_the_question_asks_whatever_was_before(visit: Open) -> None:
    here = visit()
    page, held = here.page, list[Any]()
    page.route(re.compile("/api/(act|answer)"), lambda route: held.append(route))  # not yet
    for node in ("male", "young"):
        page.locator(f".node[data-name={node}]").click()
        (value,) = re.findall(r"changed to (\w+)", here.texts("h1")[0])
        (row,) = [each for each in here.texts(".attributes tbody tr") if node in each]
        assert page.locator(".attributes tr", has_text=node).locator(".now").inner_text() == value
        assert "%" not in row.split(value)[-1]  # nothing is read in an answer to come
        assert value in page.locator(f".node[data-name={node}] .value").text_content()
    for route in held:
        route.continue_()
    here.answered()


#: Functions of the page, with an argument and what they return.
SCRIPTS = {
    "questions are phrased as the model says": (
        """(phrases) => {
            const kinds = {smiling: "binary", age: "continuous", view: "categorical"};
            const ends = {low: 0, high: 90};
            const all = Object.entries(kinds).map(([name, kind]) => ({name, kind, ...ends}));
            const own = all.map((each) => ({...each, phrases: phrases[each.name]}));
            const wanted = {smiling: 0, age: 60};
            return [questionWords(own, wanted), questionWords(all, {...wanted, view: "AP"})];
        }""",
        {"smiling": ["they were not smiling", "they were"], "age": "they were {} years old"},
        [
            "What if they were not smiling and they were 60 years old?",
            "What if smiling changed to no, age changed to 60 and view changed to AP?",
        ],
    ),
    "values survive the address": (
        """(levels) => {
            const attributes = [{name: "stage", kind: "categorical", levels}];
            const models = [{name: "m", attributes}], state = readState("", models);
            const there = (level) => writeState({...state, do: {stage: level}}, false);
            return levels.map((level) => readState(there(level), models).do.stage);
        }""",
        ["mild, left", "T1:N0", "50 %"],
        ["mild, left", "T1:N0", "50 %"],
    ),
    "a click asks for another value": (
        'places => places.map((x) => otherValue({kind: "continuous", low: 0, high: 1}, x))',
        [0, 0.5, 0.9, 1],
        [0.35, 0.85, 0.55, 0.65],
    ),
}


def test_scripts_of_the_page(visit: Open) -> None:
    page = visit().page
    for name, (script, argument, wanted) in SCRIPTS.items():
        assert page.evaluate(script, argument) == wanted, name


def test_the_strip_begins_as_soon_as_the_answer_is_seen(visit: Open) -> None:
    here = visit("sampling=dpm-2m+uniform+4&tab=rules")
    began = """() => new Promise((resolve) => {
        new MutationObserver(() => {
            const tiles = document.querySelectorAll(".tile").length;
            if (tiles) resolve(document.getElementById("status").textContent);
        }).observe(document.getElementById("panel"), {childList: true, subtree: true});
        document.querySelector(".node[data-name=young]").dispatchEvent(new MouseEvent("click"));
    })"""
    assert "network rows" not in here.page.evaluate(began)  # before the answer is checked
    here.answered()
    here.page.locator(".tile canvas").nth(1).wait_for()
    asked = [question.get("keep", False) for question in here.questions()]
    assert sum(not each for each in asked) == 2  # two answers; all others wait for them


def test_every_view_shows_its_picture(visit: Open) -> None:
    here = visit()
    page, seen = here.page, {here.shown("after")}
    for view in ("difference", "back", "truth"):
        page.locator(f"[data-view={view}]").click()
        seen.add(here.shown("after"))
        assert f"view={view}" in page.url
    assert len(seen) == 4
    page.locator("[data-view=slide]").click()
    assert here.shown("over") == here.shown("before")
    page.locator("#wipe").focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    clip = "getComputedStyle(document.getElementById('over')).clipPath"
    assert page.evaluate(clip) == "inset(0px 40% 0px 0px)"


def test_a_slider_asks_once_when_it_rests_and_cancels_what_it_overtakes(visit: Open) -> None:
    here = visit()
    page, slider, held = here.page, here.page.locator("#weight-all"), list[Any]()
    page.route("**/api/answer", lambda route: route.continue_() if held else held.append(route))
    slider.focus()
    with page.expect_request("**/api/answer") as first:
        moved = "slider.stepUp(); slider.dispatchEvent(new Event('input', {bubbles: true}));"
        slider.evaluate(f"slider => {{ for (let i = 0; i < 6; i += 1) {{ {moved} }} }}")
    with page.expect_response("**/api/answer"):
        slider.press("End")  # while that question is being answered
    here.answered()
    asked = [question["guidance"] for question in here.questions()[1:]]
    assert asked == [f"contrast:{w};anchor=true;drawn_noise=true" for w in ("2.0", "4.0")]
    assert first.value.failure is not None
    assert here.texts("#weights output") == ["4"]
    assert page.evaluate("history.length") <= 2  # sliding does not fill the history
    page.locator("#reset").evaluate("button => button.click()")
    here.answered()
    assert here.texts("#weights output") == ["1.7"]  # what is shown is what is asked
    for box in ("drawn-noise", "anchor"):  # without which no noise is drawn
        page.locator(f"#option-{box}").evaluate("box => box.click()")
        here.answered()
    asked = [question["guidance"] for question in here.questions()[-2:]]
    assert asked == ["contrast:1.7;anchor=true", "contrast:1.7"]


def test_an_address_holds_the_question(visit: Open) -> None:
    guidance = "fcfg:affected=2.5,invariant=1.1"
    asked = f"guidance={guidance}&sampling=ddim+uniform+4&seed=3&view=difference"
    here = visit(f"image=s2&is=young:1&do=male:1&{asked}&tab=code")
    url, texts = here.page.url, [here.texts(part) for part in ("h1", "#weights", "#after-text")]
    (question,) = here.questions()
    wanted = {"do": {"male": 1}, "guidance": guidance, "sampling": "ddim uniform 4", "seed": 3}
    assert question.items() >= wanted.items()
    assert question["attributes"]["young"] == 1
    here.page.reload()
    here.answered()
    assert here.page.url == url
    assert [here.texts(part) for part in ("h1", "#weights", "#after-text")] == texts
    assert here.questions()[1] | {"visitor": ""} == question | {"visitor": ""}
    here.page.locator("#weight-affected").focus()
    for weight in ("2.55", "2.6"):  # the slider stays under the finger while it is answered
        with here.page.expect_response("**/api/answer"):
            here.page.keyboard.press("ArrowRight")
        here.answered()
        assert here.texts("#weights output") == [weight, "1.1"]


def test_one_goes_back_by_the_browser_and_by_the_list(visit: Open) -> None:
    here = visit()
    page, first = here.page, here.texts("h1")
    page.locator(".node[data-name=young]").click()
    page.locator(".tile").nth(1).wait_for()
    assert here.texts("h1") != first
    page.go_back()
    here.answered()
    assert here.texts("h1") == first
    page.locator(".tile", has_text="young").click()
    page.locator("h1", has_text="young").wait_for()
    assert len(here.questions()) == 2  # what was answered is not asked again


def test_two_settings_stay_side_by_side(visit: Open) -> None:
    here = visit(QUICK.replace("history", "compare"))
    page = here.page
    page.get_by_role("button", name="Compare with FCFG").click()
    cards = page.locator(".card", has_text="Network rows")
    cards.nth(1).wait_for()
    page.locator(".card", has_text="way back").nth(1).wait_for()
    pinned, now = cards.all_inner_texts()
    assert "FCFG 3 / 1.2" in pinned
    assert "anchored Contrast 1.7 drawn noise" in now
    assert here.questions()[-1]["keep"] is True
    assert here.questions()[-1]["image"] == here.questions()[0]["image"]
    shown = [each.get_attribute("data-address") for each in page.locator(".card canvas").all()]
    assert len(set(shown)) == 2
    page.reload()
    here.answered()
    page.locator(".card canvas").nth(1).wait_for()


def test_two_models_stay_side_by_side(visit: Open, model: str, tmp_path: Path) -> None:
    torch.manual_seed(7)  # other weights than those of the first model
    fcfg.save(listening_model(), tmp_path / "other")
    here = visit(QUICK.replace("history", "compare"), models=[model, str(tmp_path / "other")])
    here.page.get_by_role("button", name="Compare with Other").click()
    here.page.locator(".card canvas").nth(1).wait_for()
    pinned, now = here.page.locator(".card").all()
    assert "Other" in pinned.inner_text()
    assert "Tiny" in now.inner_text()
    shown = [card.locator("canvas").get_attribute("data-address") for card in (pinned, now)]
    assert len(set(shown)) == 2
    assert {question["model"] for question in here.questions()} == {"tiny", "other"}
    assert "pin=other" in here.page.url


def test_a_picture_of_ones_own_is_read_and_never_in_the_address(visit: Open) -> None:
    here = visit(f"{QUICK}&view=truth")
    page = here.page
    assert here.texts("#after-title") == ["The true answer"]
    page.set_input_files("#file", {"name": "me.png", "mimeType": "image/png", "buffer": png(80)})
    page.locator("#before-text", has_text="your picture").wait_for()
    here.answered()
    assert here.texts("#after-title") == ["What if"]  # no answer is called the truth
    assert page.locator("[data-view=truth]").is_hidden()
    assert "image=" not in page.url
    assert page.locator(".attributes tbody tr").count() == 3
    assert f"resized to {SIZE} x {SIZE}" in here.texts("#before-text")[0]  # beside the picture
    page.locator("[data-view=slide]").click()  # where a phone shows one picture alone
    assert f"resized to {SIZE} x {SIZE}" in here.texts("#after-text")[0]
    page.get_by_label("male, as it is").select_option("yes")
    here.answered()
    assert here.questions()[-1]["attributes"]["male"] == 1
    assert "is=male:1" in page.url


def test_a_picture_can_be_dropped_and_pasted(visit: Open) -> None:
    for event in ("DragEvent('drop', {dataTransfer", "ClipboardEvent('paste', {clipboardData"):
        here = visit()
        script = f"""bytes => {{
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(bytes)], "me.png", {{type: "image/png"}}));
            document.body.dispatchEvent(new {event}: data, bubbles: true, cancelable: true}}));
        }}"""
        here.page.evaluate(script, list(png(80)))
        here.page.locator("#before-text", has_text="your picture").wait_for()
        here.answered()


def test_errors_are_announced_and_can_be_left(visit: Open) -> None:
    here = visit()
    page, alert = here.page, here.page.get_by_role("alert")
    here.expected_errors = 3
    text = {"name": "me.png", "mimeType": "image/png", "buffer": b"not a picture"}
    page.set_input_files("#file", text)
    alert.wait_for()
    assert "expected" in alert.inner_text()
    page.get_by_role("button", name="Dismiss").click()
    alert.wait_for(state="hidden")
    page.goto(f"{here.address}#{QUICK}&guidance=cfg:x")
    alert.wait_for()
    assert "cfg" in alert.inner_text()
    page.locator("#reset").evaluate("button => button.click()")
    here.answered()
    page.route("**/api/answer", lambda route: route.abort())
    page.locator(".node[data-name=male]").click()
    alert.wait_for()
    assert "Is 'fcfg studio' still running" in alert.inner_text()
    page.unroute("**/api/answer")
    page.get_by_role("button", name="Try again").click()
    here.answered()
    assert alert.is_hidden()


def test_an_answer_can_be_taken_along(visit: Open) -> None:
    allowed = ["clipboard-read", "clipboard-write"]
    here = visit(QUICK.replace("history", "code"), permissions=allowed)
    page, taken = here.page, dict[str, bytes]()
    for what in ("answer", "record"):
        with page.expect_download() as download:
            page.get_by_text(f"Download the {what}").click()
        taken[what] = Path(download.value.path()).read_bytes()
    with Image.open(io.BytesIO(taken["answer"])) as answer:
        assert answer.size == (SIZE, SIZE)
    assert isinstance(json.loads(taken["record"]), dict)
    clipboard = "navigator.clipboard.readText()"
    page.get_by_role("button", name="Copy as Python").click()
    page.locator("#status", has_text="Copied").wait_for()
    assert page.evaluate(clipboard).startswith("import ")
    page.get_by_role("button", name="Copy as command").click()
    assert "fcfg generate " in page.evaluate(clipboard)
    page.get_by_role("button", name="Copy link").click()
    assert page.evaluate(clipboard) == page.url


def test_everything_can_be_done_by_keyboard(visit: Open) -> None:
    here = visit()
    page = here.page

    def walk(selector: str, most: int = 60) -> None:
        for _ in range(most):
            page.keyboard.press("Tab")
            if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
                return
        raise AssertionError(f"{selector} cannot be reached")

    page.keyboard.press("Tab")
    assert here.texts(":focus") == ["Skip to the answer"]
    page.keyboard.press("Enter")
    walk("[data-view=answer]", 1)
    assert "do=" in page.url  # the question stays in the address
    page.locator("#link").focus()
    walk(".thumb:nth-child(2)")
    page.keyboard.press("Enter")
    here.answered()
    assert "image=s1" in page.url
    walk("[data-view=difference]")
    page.keyboard.press("Space")
    walk(".node[data-name=male]")
    page.keyboard.press("Enter")
    here.answered()
    assert "do=male" in page.url
    walk(".node[data-name=young]")
    page.keyboard.press("Shift+Enter")
    here.answered()
    assert re.search(r"do=male:\d,young:\d", page.url)
    walk("#weight-all")
    with page.expect_response("**/api/answer"):
        page.keyboard.press("ArrowLeft")
    here.answered()
    assert "guidance=contrast:1.65" in page.url
    walk("summary")
    page.keyboard.press("Enter")
    walk("#option-rule")
    walk("#tab-history")
    page.keyboard.press("ArrowRight")
    assert "tab=code" in page.url


@pytest.mark.parametrize(("size", "scheme"), [((1280, 800), "light"), ((390, 844), "dark")])
def test_the_page_is_accessible_on_every_screen(visit, size, scheme) -> None:
    here = visit(size=size, scheme=scheme, bypass_csp=True, reduced_motion="reduce")
    page = here.page
    page.locator("summary").click()
    for tab in ("rules", "code"):
        page.locator(f"#tab-{tab}").click()
        if tab == "rules":
            page.locator(".tile canvas").nth(1).wait_for()
        found = axe.Axe().run(page)
        assert len(found["passes"]) > 25
        assert [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]] == []
    assert page.evaluate("document.documentElement.scrollWidth") == size[0]
    style = "getComputedStyle(document.querySelector('.node rect'))"
    assert page.evaluate(f"{style}.transitionDuration") == "0s"
    cut = """[...document.querySelectorAll(".attributes select")].filter((each) => {
        const width = each.offsetWidth;
        each.style.width = "max-content";
        return each.offsetWidth > width;
    }).length"""
    assert page.evaluate(cut) == 0  # whole words
    assert here.texts(".attributes caption .reading") == ["80 % or more", "less"]  # its bars
    frame = page.locator("#frame").bounding_box()
    assert frame["width"] > 0.25 * size[0]
    assert frame["y"] + frame["height"] < size[1]  # the answer is on the first screen
    assert page.locator(".before").is_hidden() == (size[0] < 700)


def test_an_exported_page_answers_without_a_server(visit: Open, tmp_path, monkeypatch) -> None:
    file = tmp_path / "index.html"
    rules = [repr(DEFAULT_GUIDANCE), "fcfg:affected=3.0,invariant=1.2"]
    monkeypatch.setattr("fcfg.studio.export.guidances", lambda model, target: rules)
    table = gallery_table(studio_model(), 2)
    file.write_text(one_page(table), "utf-8")
    here = visit("", address=file.as_uri())
    page = here.page
    page.locator(".tile canvas").first.wait_for()
    first, shown = here.texts("h1"), here.shown("after")
    (missed,) = table["answers"][0]["events"][0]["not_reached"].values()
    assert here.texts("#trust")[0].startswith(f"Not reached: smiling {missed}.")
    for name in table["answers"][0]["events"][0]["attributes"]:
        page.locator(f".node[data-name={name}]").click()
        here.answered()
    assert here.texts("h1") != first
    for key in ("Home", "End"):
        page.locator("#weights input").press(key)
        page.wait_for_timeout(200)  # longer than the pause of sliders
        here.answered()
    page.locator("#tab-rules").click()
    page.locator(".tile", has_text="FCFG").click()
    page.locator("#status", has_text="FCFG").wait_for()
    assert page.locator("#error").is_hidden()
    page.locator(".thumb").nth(1).click()
    here.answered()
    assert here.shown("after") != shown
    assert page.locator("#upload").is_hidden()
    page.reload()
    here.answered()
    assert "image=s1" in page.url
    elsewhere = {each.url.partition("#")[0] for each in here.asked if each.url[:5] != "data:"}
    assert elsewhere == {file.as_uri()}
