"""Pages as Markdown and HTML."""

from __future__ import annotations

from briskrl.workflows.run.report_document import Section, Table, as_html, as_markdown

SECTION = Section("A <b> title", ["x < y & z\x1b[2J", Table([("a|b", "c"), ("1", "<i>")])])


def test_markdown_holds_no_html_of_names():
    page = as_markdown("Page", [SECTION], figures="figures")
    assert page.startswith("# Page\n\n## A &lt;b&gt; title\n\n")
    assert "x &lt; y &amp; z?[2J" in page
    assert "| a\\|b | c |\n| --- | --- |\n| 1 | &lt;i&gt; |" in page


def test_html_holds_no_html_of_names():
    page = as_html("Page <1>", [SECTION])
    assert "<title>Page &lt;1&gt;</title>" in page
    assert "<h2>A &lt;b&gt; title</h2>" in page
    assert "<td>&lt;i&gt;</td>" in page
    assert "<i>" not in page
