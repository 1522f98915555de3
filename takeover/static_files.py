"""WhiteNoise for an asynchronous server."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware


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
