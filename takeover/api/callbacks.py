"""`POST /api/callbacks/<service>/`: a service says that something became of a write (docs/callbacks.md).

1. A service that has a secret here. 2. Signed with it, lately. 3. JSON. 4. Handed to the run that owns the write.
Before 2 nothing is looked up and nothing is parsed: until then, anybody may have sent it.
"""

import json
import logging
import re
from time import time
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from standardwebhooks import Webhook, WebhookVerificationError

from runs.interventions import callbacks
from runs.interventions.refusals import Refused
from takeover.api.bodies import MOST_BYTES
from takeover.api.refusals import tally

log = logging.getLogger(__name__)
HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")
TOLERANCE = 5 * 60  # seconds; the library's own, here only to say which of its reasons it was
MESSAGE_ID = re.compile("[!-~]{1,80}")
TRY_AGAIN = 5  # seconds


@csrf_exempt
@login_not_required
def callback(request: HttpRequest, service: str) -> JsonResponse:
    """202 `{"status": "accepted"}`, also the second time; otherwise `{"code", "message", "field"}`, and nothing was
    kept."""
    try:
        message_id, payload = _opened(request, service)
        callbacks.call_back(service, message_id, payload)
    except Refused as no:
        tally.count(service, no.code)
        field = {"field": no.field} if no.field else {}
        return JsonResponse({"code": no.code, "message": no.message, **field}, status=no.status)
    except (OperationalError, InterfaceError) as problem:
        log.warning("A callback of %s could not be kept: %s", service, problem)
        answer = {"code": "unavailable", "message": "It could not be kept. Send it again."}
        return JsonResponse(answer, status=503, headers={"Retry-After": str(TRY_AGAIN)})
    return JsonResponse({"status": "accepted"}, status=202)


def _opened(request: HttpRequest, service: str) -> tuple[str, Any]:
    """The message's id and its content, once they are known to come from `service`. Raises Refused."""
    secrets = settings.SERVICES.get(service, {}).get("callback_secrets", ())
    if not secrets:
        raise Refused("unknown_service", "No service of this name calls back here.", status=404)
    if request.method != "POST":
        raise Refused("method_not_allowed", "A callback is sent by POST.", status=405)
    body = _body(request)
    headers = {name: request.headers.get(name, "") for name in HEADERS}
    if not any(_is_signed(body, headers, secret) for secret in secrets):
        raise _why_refused(headers)
    message_id = headers["webhook-id"]
    if not MESSAGE_ID.fullmatch(message_id):
        message = "webhook-id: must be 1 to 80 printable characters without spaces."
        raise Refused("invalid", message, "webhook-id")
    try:
        return message_id, json.loads(body)
    except (ValueError, RecursionError):
        raise Refused("not_json", "The body is not valid JSON.", "body") from None


def _body(request: HttpRequest) -> bytes:
    try:
        body = request.body
    except RequestDataTooBig:
        body = b"." * (MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        raise Refused("too_large", f"A callback's body may hold at most {MOST_BYTES} bytes.", "body", 413)
    return body


def _is_signed(body: bytes, headers: dict[str, str], secret: str) -> bool:
    try:
        Webhook(secret).verify(body, headers, json_parse=False)
    except (WebhookVerificationError, ValueError):  # ValueError: signatures or bodies that it stumbles over
        return False
    return True


def _why_refused(headers: dict[str, str]) -> Refused:
    """The same answer to every wrong signature; only what the sender can see for itself is told apart."""
    if missing := ", ".join(name for name in HEADERS if not headers[name]):
        return Refused("signature_missing", f"These headers are missing: {missing}.", missing, 401)
    try:
        is_late = abs(time() - float(headers["webhook-timestamp"])) > TOLERANCE
    except ValueError:
        is_late = True
    if is_late:
        message = f"webhook-timestamp: must be seconds since 1970, and within {TOLERANCE} s of the time here."
        return Refused("timestamp_refused", message, "webhook-timestamp", 401)
    return Refused("signature_refused", "No signature is of this message by one of your secrets.", status=401)
