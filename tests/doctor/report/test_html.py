"""The report as an HTML page."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from briskrl.doctor.report.html import as_html
from briskrl.doctor.report.records import Report
from briskrl.doctor.report.terminal import describe
from tests.doctor.report_fixtures import EMPTY, HEALTHY, ILL, hostile

SVG = "{http://www.w3.org/2000/svg}"
REPORTS = {"healthy": HEALTHY, "ill": ILL, "empty": EMPTY, "hostile": hostile()}


def parsed(report: Report) -> ElementTree.Element:
    return ElementTree.fromstring(as_html(report))


def texts(root: ElementTree.Element, name: str) -> list[str]:
    return ["".join(item.itertext()) for item in root.iter(name)]


class Nesting(HTMLParser):
    """Follows elements as a browser would, which has no self-closing elements in HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        assert tag == "meta" or "svg" in self.open, tag

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", REPORTS)
def test_a_page_is_well_formed_as_xml_and_as_html(name: str) -> None:
    page = as_html(REPORTS[name])
    ElementTree.fromstring(page)
    browser = Nesting()
    browser.feed(page)
    browser.close()
    assert browser.open == []
    assert page.startswith("<!DOCTYPE html>\n")
    assert page.isascii()


@pytest.mark.parametrize("name", REPORTS)
def test_a_page_loads_and_runs_nothing(name: str) -> None:
    root = parsed(REPORTS[name])
    attributes = {key for item in root.iter() for key in item.attrib}
    assert not attributes & {"src", "href", "action", "data", "srcset"}
    # Charts refer to their own marks and clips only.
    links = [v for item in root.iter() for k, v in item.attrib.items() if k.endswith("}href")]
    assert all(link.startswith("#") for link in links)
    styles = [item.attrib["style"] for item in root.iter() if "style" in item.attrib]
    assert not [style for style in styles if "url(" in style]
    clips = [item.attrib["clip-path"] for item in root.iter() if "clip-path" in item.attrib]
    assert all(clip.startswith("url(#") for clip in clips)
    assert not [key for key in attributes if key.startswith("on")]
    tags = {item.tag for item in root.iter()}
    assert not tags & {"script", "link", "iframe", "object", "img", f"{SVG}script"}
    sheet = root.findtext("head/style") or ""
    assert "url(" not in sheet
    assert "@import" not in sheet
    policy = root.find("head/meta[@http-equiv='Content-Security-Policy']")
    assert policy is not None
    assert policy.attrib["content"].startswith("default-src 'none'")


def test_hostile_text_is_escaped() -> None:
    page = as_html(hostile())
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\x00" not in page
    root = ElementTree.fromstring(page)
    assert "</svg><script>alert('\"&')</script>" in texts(root, "h1")[0]


def test_a_page_supports_dark_mode_and_phones() -> None:
    root = parsed(HEALTHY)
    assert "prefers-color-scheme: dark" in (root.findtext("head/style") or "")
    assert root.find("head/meta[@name='viewport']") is not None
    for plot in root.iter(f"{SVG}svg"):
        assert "viewBox" in plot.attrib
        assert "width" not in plot.attrib
    assert all(
        parent.get("class") == "scroll"
        for parent in root.iter()
        if parent.find("table") is not None
    )


def test_a_page_contains_everything_that_the_terminal_shows() -> None:
    """Every word of every line, wherever lines break."""
    for report in (HEALTHY, ILL, EMPTY):
        body = parsed(report).find("body")
        assert body is not None
        shown = set(re.findall(r"[\w.%:-]+", " ".join(body.itertext())))
        # Bars, the numbers of findings and the names of their lines are shown by other means.
        printed = re.sub(r"#+|\n  \d\. |\n +(seen|saved) ", " ", describe(report))
        assert set(re.findall(r"[\w.%:-]+", printed)) - shown <= {"-"}


def test_findings_are_numbered_in_their_order() -> None:
    root = parsed(ILL)
    assert texts(root, "h3") == [finding.title for finding in ILL.findings]
    gains = [item for item in root.iter("dd") if item.get("class") == "gain"]
    assert [gain.text for gain in gains] == [
        "5.60 times as fast, predicted from the figures above",
        "2.58 times as fast (2.51 to 2.65), measured with this change",
        "at most 2.50 times as fast, if it took no time at all",
    ]
    assert "Nothing is worth changing." in texts(parsed(HEALTHY), "p")


def plots(report: Report) -> dict[str, ElementTree.Element]:
    return {plot.findtext(f"{SVG}title") or "": plot for plot in parsed(report).iter(f"{SVG}svg")}


def marks(plot: ElementTree.Element) -> list[str]:
    """Classes of the marks of a chart, in order."""
    return [str(group.get("class")) for group in plot.iter(f"{SVG}g") if "class" in group.attrib]


def test_there_is_a_plot_of_everything_that_was_measured() -> None:
    found = plots(ILL)
    assert list(found) == [
        "Seconds per million transitions",
        "Experiments",
        "Speed",
        "Cost of a step",
        "Memory",
    ]
    phases = marks(found["Seconds per million transitions"])
    assert phases == ["wall"] * 3 + ["cpu"] * 3
    # Every experiment that was made, and the proof.
    dots = [mark for mark in marks(found["Experiments"]) if mark.endswith("dot")]
    assert dots == ["good-dot", "good-dot", "plain-dot", "good-dot"]
    for name in ("Speed", "Cost of a step", "Memory"):
        assert marks(found[name]) == ["curve"]
    assert plots(EMPTY) == {}


def test_curves_fall_where_the_figures_do() -> None:
    heights = {}
    for name in ("Speed", "Cost of a step", "Memory"):
        (group,) = (g for g in plots(HEALTHY)[name].iter(f"{SVG}g") if g.get("class") == "curve")
        path = group.find(f"{SVG}path")
        assert path is not None
        numbers = [float(word) for word in path.attrib["d"].split() if word not in "ML"]
        heights[name] = numbers[1::2]
        assert len(heights[name]) >= 2
    # Heights are counted from above: the speed falls, cost and memory rise.
    assert heights["Speed"] == sorted(heights["Speed"])
    for name in ("Cost of a step", "Memory"):
        assert heights[name] == sorted(heights[name], reverse=True)


def test_experiments_that_slow_down_look_different() -> None:
    bad = replace(HEALTHY.outcomes[1], verdict="hurts")
    found = plots(replace(HEALTHY, outcomes=(bad,)))["Experiments"]
    assert marks(found) == ["bad", "bad-dot"]


def test_names_too_long_for_a_chart_are_whole_in_the_table_below() -> None:
    long = "a name of far more words than fit"
    root = parsed(replace(HEALTHY, phases=(replace(HEALTHY.phases[0], name=long),)))
    assert long in texts(root, "td")


def test_source_code_keeps_its_lines():
    found = replace(
        ILL.findings[0], location="a.py:1-2", source="for x in y:\n    f(x < 1)", fix="g(y)"
    )
    root = parsed(replace(ILL, findings=(found,)))
    assert texts(root, "pre") == ["for x in y:\n    f(x < 1)", "g(y)"]
