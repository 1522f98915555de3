"""What templates say, by Django's own lexer."""

import re
from collections.abc import Iterator
from pathlib import Path

from django.template.base import Lexer, Token, TokenType
from django.utils.text import smart_split

from takeover.catalogue.said import Said

LITERAL = re.compile(r"""_\((?:"([^"]*)"|'([^']*)')\)""")


def sentences(folder: Path) -> Iterator[Said]:
    for file in sorted(folder.rglob("*.html")):
        where = file.relative_to(folder.parent).as_posix()
        for said in _of(file.read_text(encoding="utf-8")):
            yield Said(*said, where=where)


def _of(source: str) -> Iterator[tuple[str, str, str]]:
    """Singular, plural and context of everything marked."""
    tokens = iter(Lexer(source).tokenize())
    for token in tokens:
        if token.token_type is TokenType.BLOCK:
            words = list(smart_split(token.contents))
            match words[0]:
                case "translate" | "trans" if words[1][0] in "\"'":
                    yield words[1][1:-1], "", _context(words)
                case "blocktranslate" | "blocktrans":
                    yield (*_block(tokens), _context(words))
        if token.token_type in {TokenType.BLOCK, TokenType.VAR}:
            for double, single in LITERAL.findall(token.contents):
                yield double or single, "", ""


def _context(words: list[str]) -> str:
    return words[words.index("context") + 1][1:-1] if "context" in words else ""


def _block(tokens: Iterator[Token]) -> tuple[str, str]:
    """What stands up to the end of a block, as Django itself makes the message."""
    parts = ["", ""]
    at = 0
    for token in tokens:
        if token.token_type is TokenType.TEXT:
            parts[at] += token.contents.replace("%", "%%")
        elif token.token_type is TokenType.VAR:
            parts[at] += f"%({token.contents.strip()})s"
        elif token.contents.startswith("plural"):
            at = 1
        else:
            break
    return parts[0], parts[1]
