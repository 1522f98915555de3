"""Tables and forms of the page, as HTML. Whatever is not ours is escaped by whoever makes a cell of it."""

from collections.abc import Iterable
from html import escape


def table(name: str, heads: Iterable[str], rows: Iterable[Iterable[str]], nothing: str) -> str:
    """Cells arrive as HTML, escaped by whoever made them."""
    body = "".join("<tr>" + "".join(f"<td>{value}</td>" for value in row) + "</tr>" for row in rows)
    if not body:
        return f'<p class="nothing">{escape(nothing)}</p>'
    head = "".join(f'<th scope="col">{title}</th>' for title in heads)
    # Focusable, so that the keyboard can scroll it.
    return (
        f'<div class="table" tabindex="0" role="region" aria-label="{escape(name)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def cell(value: object, nothing: str = "") -> str:
    return escape(nothing if value is None else str(value))


def code(value: object, nothing: str = "") -> str:
    return cell(None, nothing) if value is None else f"<code>{cell(value)}</code>"


def money(minor: int, currency: str) -> str:
    return f"{minor // 100}.{minor % 100:02} {cell(currency)}"


def moment(at: str) -> str:
    return f'<time datetime="{escape(at)}">{escape(at[:10])} {escape(at[11:19])}</time>'


def button(path: str, label: str, **values: object) -> str:
    hidden = "".join(f'<input type="hidden" name="{name}" value="{cell(value)}">' for name, value in values.items())
    return f'<form method="post" action="{path}">{hidden}<button>{escape(label)}</button></form>'
