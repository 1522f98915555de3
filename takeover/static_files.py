"""WhiteNoise for an asynchronous server, and a stylesheet for each screen that arrives in one piece."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from posixpath import dirname, join
from typing import Any

from django.core.files.storage import Storage
from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage

IMPORT = re.compile(r'^@import "([^"]+)";\n', re.MULTILINE)

Sources = Mapping[str, tuple[Storage, str]]


class StaticFilesMiddleware(WhiteNoiseMiddleware):
    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        """The file in one piece. Django reads WhiteNoise's streaming answer whole under ASGI too, and warns of it."""
        found = static_file.get_response(request.method, request.META)
        response = HttpResponse(found.file.read() if found.file else b"", status=int(found.status))
        if found.file:
            found.file.close()
        del response["Content-Type"]
        for name, value in found.headers:
            response[name] = value
        return response


class StaticFilesStorage(CompressedManifestStaticFilesStorage):
    """Puts what a stylesheet imports into its place, so that a page waits for one of them and not for a chain."""

    def post_process(self, paths: dict[str, Any], dry_run: bool = False, **options: Any) -> Iterator[Any]:
        whole = {name: in_one_piece(name, paths) for name in paths if name.endswith(".css")}
        if not dry_run:
            for name, text in whole.items():
                Path(self.path(name)).write_text(text)
        yield from super().post_process(paths | {name: (self, name) for name in whole}, dry_run, **options)


def in_one_piece(name: str, sources: Sources, put_in: set[str] | None = None) -> str:
    """The stylesheet with everything that it imports, each once and where it was first asked for."""
    put_in = set() if put_in is None else put_in
    if name in put_in:
        return ""
    put_in.add(name)
    storage, path = sources[name]
    with storage.open(path) as file:
        text = file.read().decode()
    return IMPORT.sub(lambda found: in_one_piece(join(dirname(name), found[1]), sources, put_in), text)
