"""What Python code says: strings marked for translation, and the sentences that the rules write into the record."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

from babel.messages.extract import extract_from_file

from takeover.catalogue.said import RECORD, Said

KEYWORDS = {
    **dict.fromkeys(("_", "gettext", "lazy", "gettext_lazy", "gettext_noop"), None),
    **dict.fromkeys(("ngettext", "ngettext_lazy"), (1, 2)),
    **dict.fromkeys(("pgettext", "pgettext_lazy", "noun"), ((1, "c"), 2)),
    "npgettext": ((1, "c"), 2, 3),
}


def marked(folder: Path) -> Iterator[Said]:
    for file in sorted(folder.rglob("*.py")):
        where = file.relative_to(folder.parent).as_posix()
        for _line, message, _comments, context in extract_from_file("python", file, KEYWORDS):
            singular, plural = (message, "") if isinstance(message, str) else (message[0], message[-1])
            yield Said(singular, plural, context or "", where)


# What goes into the record

WORD = re.compile(r"(, |1 )?[A-Za-z][a-z]+")
SENTENCE = re.compile(r"[a-z]{2,} |[a-z] [a-z]|[A-Za-z][.?:]$|\}[:;.] \{|\} [a-z]{3,}|[a-z]{3,}: \{")
NO_SENTENCE = re.compile(r"^[a-z_.:/{}0-9-]+$|^\W*\w{1,3}\W*$|^[a-z]+ $|SELECT|UPDATE|<|^#")


def recorded(files: list[Path], root: Path) -> Iterator[Said]:
    for file in files:
        for text in _texts(ast.parse(file.read_text(encoding="utf-8"))):
            yield Said(text, context=RECORD, where=file.relative_to(root).as_posix())


def _texts(tree: ast.AST) -> Iterator[str]:
    """What reads like words, a number in braces for each value filled in. Documentation and the log are left out."""
    if isinstance(tree, ast.IfExp):  # one of two words, such as "may" and "may not"
        yield from (str(side.value) for side in (tree.body, tree.orelse) if _is_word(side))
    if isinstance(tree, ast.keyword) and tree.arg == "difference":
        yield from (str(node.value) for node in ast.walk(tree) if _is_word(node))
    if isinstance(tree, ast.Constant | ast.JoinedStr):
        text = _pattern(tree) if isinstance(tree, ast.JoinedStr) else tree.value
        if isinstance(text, str) and SENTENCE.search(text) and not NO_SENTENCE.search(text):
            yield text
    inside = ast.FormattedValue if isinstance(tree, ast.JoinedStr) else ast.AST
    for child in ast.iter_child_nodes(tree):
        is_format = isinstance(tree, ast.FormattedValue) and isinstance(child, ast.JoinedStr)
        if isinstance(child, inside) and not is_format and not _is_for_us(child):
            yield from _texts(child)


def _pattern(text: ast.JoinedStr) -> str:
    parts, number = "", 0
    for part in text.values:
        if isinstance(part, ast.Constant):
            parts += str(part.value).replace("{", "{{").replace("}", "}}")
        else:
            parts, number = f"{parts}{{{number}}}", number + 1
    return parts


def _is_word(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(WORD.fullmatch(node.value))


def _is_for_us(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        is_marked = name in KEYWORDS  # shown in the viewer's language, not written into the record
        return is_marked or name.startswith(("log.", "logger.", "re.")) or name in {"Wording", "AssertionError"}
    return False
