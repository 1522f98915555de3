"""The catalogue of translations holds what is said, and is compiled. `bin/messages` brings it up to date."""

from pathlib import Path

import pytest
from babel.messages.catalog import Catalog

from takeover.catalogue import chinese, code, templates
from takeover.catalogue.said import RECORD


def catalogue(source: str | tuple[str, str], translation: str | tuple[str, ...], context: str = "") -> Catalog:
    made = Catalog(locale="zh_Hans")
    made.add(source, translation, context=context or None)
    return made


def test_everything_that_is_said_is_in_the_catalogue_and_translated() -> None:
    now = chinese.up_to_date()
    assert list(chinese.faults(now)) == []
    assert chinese.text_of(now) == chinese.SENTENCES.read_bytes(), "run bin/messages"


def test_what_is_compiled_is_what_is_translated() -> None:
    assert chinese.compiled(chinese.kept()) == chinese.COMPILED.read_bytes(), "run bin/messages"


@pytest.mark.parametrize(
    ("source", "translation", "fault"),
    [
        ("Sign in", "", "not translated: Sign in"),
        ("%(n)s runs", "%(m)s 个运行", "other placeholders: %(n)s runs"),
        ("%d runs", "运行", "other placeholders: %d runs"),
        ("a <b>run</b>", "一个<i>运行</i>", "other markup: a <b>run</b>"),
        (("%d run", "%d runs"), ("",), "not translated: %d run"),
    ],
)
def test_a_translation_that_does_not_fit_is_named(source: str, translation: str, fault: str) -> None:
    assert list(chinese.faults(catalogue(source, translation))) == [fault]


def test_one_that_nobody_has_looked_at_yet_is_named() -> None:
    made = catalogue("Sign in", "登录")
    made["Sign in"].flags.add("fuzzy")
    assert list(chinese.faults(made)) == ["marked as fuzzy: Sign in"]


def test_of_a_recorded_sentence_a_value_may_be_left_out_but_none_made_up() -> None:
    assert list(chinese.faults(catalogue("{0} seat{1}", "{0} 个名额", RECORD))) == []
    assert list(chinese.faults(catalogue("{0} seats", "{1} 个名额", RECORD))) == ["other placeholders: {0} seats"]


def test_templates_say_what_is_marked_in_them(tmp_path: Path) -> None:
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "page.html").write_text(
        '{% translate "Queue" %}{{ name|default:_("nobody") }}{% translate "left" context "time" %}'
        "{% blocktranslate count n=n with who=who %}{{ n }} run of {{ who }}, 5%"
        "{% plural %}{{ n }} runs{% endblocktranslate %}"
    )
    found = [(said.text, said.plural, said.context) for said in templates.sentences(folder)]
    assert found == [
        ("Queue", "", ""),
        ("nobody", "", ""),
        ("left", "", "time"),
        ("%(n)s run of %(who)s, 5%%", "%(n)s runs", ""),
    ]


def test_code_says_what_it_writes_into_the_record(tmp_path: Path) -> None:
    file = tmp_path / "rules.py"
    file.write_text(
        '"""What is documented is not said."""\n'
        'says = f"Order {order} is {state!r}."\n'
        'may = "may" if allowed else "may not"\n'
        'code = "outcome_unknown"\n'
        'log.warning("A line of the log.")\n'
    )
    assert [said.text for said in code.recorded([file], tmp_path)] == ["Order {0} is {1}.", "may", "may not"]
