"""A service that signs what it says, rightly or wrongly."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from django.test import Client
from standardwebhooks import Webhook

SECRET = "whsec_dGFrZW92ZXItdGVzdHMtc2lnbi13aXRoLXRoaXMh"
OLD_SECRET = "whsec_dGhlLW9uZS1iZWZvcmUtaXQtd2hpY2gtc3RpbGwtaG9sZHM="
OTHER_SECRET = "whsec_c29tZWJvZHktZWxzZSdzLXNlY3JldC1lbnRpcmVseSE="


def headers(body: str, message_id: str = "msg_1", secret: str = SECRET, late: float = 0) -> dict[str, str]:
    """The three headers of a message that is `late` seconds old."""
    at = datetime.now(UTC) - timedelta(seconds=late)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(message_id, at, body),
    }


class Service:
    def __init__(self) -> None:
        # Without a token of ours, and with one that Django would want of a form.
        self.client = Client(enforce_csrf_checks=True)

    def calls_back(self, key: str, message_id: str = "msg_1", **said: Any) -> Any:
        return self.says(json.dumps({"operation_key": key, **said}), message_id)

    def says(self, body: str, message_id: str = "msg_1") -> Any:
        return self.sends(body, headers(body, message_id))

    def sends(self, body: str | bytes, headers: dict[str, str], to: str = "back_office") -> Any:
        return self.client.post(f"/api/callbacks/{to}/", body, "application/json", headers=headers)
