"""Saying no: a refused attempt is put on record, and told in a sentence."""

from typing import Any, NoReturn
from uuid import UUID

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.utils import timezone

from runs.domain.interventions import PERMITS, Permission
from runs.models import Refusal, Run


class Refused(Exception):
    """What was asked for cannot be done; nothing was changed. `status` speaks HTTP, `field` names what was wrong."""

    def __init__(self, code: str, message: str, field: str = "", status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.field, self.status = code, message, field, status


def get_run(run_id: UUID | str) -> Run:
    """Raises Refused, `unknown_run` (404)."""
    try:
        return Run.objects.select_related("holder", "requester").get(pk=run_id)
    except (Run.DoesNotExist, ValidationError, ValueError):
        raise Refused("unknown_run", f"There is no run {run_id}.", "run", 404) from None


def called(person: User) -> str:
    """How a sentence names somebody to a colleague."""
    return person.get_full_name() or person.get_username()


def require(by: User, permission: Permission, attempted: str, run: Run | None) -> None:
    """Raises Refused, `forbidden` (403), where this person may not do this to any run."""
    if not by.is_active or not by.has_perm(f"runs.{permission}"):
        message = f"{by.get_username()} may not do this: it needs the permission to {PERMITS[permission]}."
        refuse(by, attempted, run, "forbidden", message, status=403)


def refuse(
    by: User, attempted: str, run: Run | None, code: str, message: str, field: str = "", status: int = 400
) -> NoReturn:
    """Put the refused attempt on record and say no."""
    Refusal.objects.count_up(run, by, attempted, code, timezone.now())
    raise Refused(code, message, field, status)


def listed(names: Any) -> str:
    return ", ".join(sorted(str(name) for name in names))
