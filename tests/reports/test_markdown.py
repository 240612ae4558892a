"""The report as Markdown."""

from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from recompile_doctor.reports.markdown import code, html_code, prose, render_markdown
from recompile_doctor.reports.words import visible
from tests.reports import documents

BASE = Path(documents.PROJECT)
OWN_TAGS = {
    "h3",
    "p",
    "br",
    "blockquote",
    "strong",
    "details",
    "summary",
    "ul",
    "li",
    "code",
    "sub",
}
OWN_TAGS |= {"table", "thead", "tbody", "tr", "th", "td"}


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[str] = []
        self.text = ""
        self.feed(MarkdownIt("commonmark").enable("table").render(text))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("name", documents.ALL)
def test_golden(name: str, check_golden: Callable[[str, str], None]) -> None:
    check_golden(f"{name}.md", render_markdown(documents.ALL[name](), base=BASE))


@pytest.mark.parametrize("name", documents.ALL)
def test_a_log_brings_in_no_tags_links_or_attributes(name: str) -> None:
    page = _Page(render_markdown(documents.ALL[name](), base=BASE))
    assert page.tags <= OWN_TAGS
    assert not page.attributes


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.sampled_from("`|\\*_<>[]()&#@!~$-+=:/. \n\taw1;\u202e"), max_size=40))
def test_any_text_is_shown_as_it_is(text: str) -> None:
    shown = visible(text).strip()
    for form in (code, html_code, prose):
        page = _Page(f"- **x:** {form(text)}.\n\n| a | b |\n|---|---|\n| {form(text)}. | y |\n")
        assert page.tags <= OWN_TAGS
        plain = page.text.replace("\u200b", "")
        assert " ".join(plain.split()).count(" ".join(f"{shown}.".split())) >= 2


def test_mentions_and_issue_numbers_are_broken_in_prose() -> None:
    assert "@octocat" not in _Page(prose("by @octocat")).text
    assert "#12" not in _Page(prose("see #12")).text


def test_source_lines_can_be_switched_off() -> None:
    text = render_markdown(documents.attention(), quote_source=False)
    assert "b, t, d = x.shape" not in text.replace("2 <= x.size()[0]  # b, t, d = x.shape", "")


def test_a_report_that_is_too_long_for_github_is_cut() -> None:
    whole = documents.hostile()
    text = render_markdown(replace(whole, findings=(whole.findings[0],) * 50))
    assert len(text) < 65_536
    assert "The report is cut here" in text


def test_more_findings_than_can_be_read_are_counted() -> None:
    whole = documents.limit()
    text = render_markdown(replace(whole, findings=(whole.findings[0],) * 25))
    assert "… and 5 more findings" in text


def test_how_many_calls_had_the_special_size_is_said() -> None:
    assert "3 of 15 observed calls have size 1" in render_markdown(documents.last_batch())
