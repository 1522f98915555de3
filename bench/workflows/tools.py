"""The tools of the benchmark's workflows: some answer in process, some call the ledger of `bench.ledger`."""

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from runs.domain.effects import Answer
from runs.domain.states import StepKind
from runs.tools.tool import Call, Result, Service, Tool

DEADLINE = 2.0  # seconds of one call


def _read(service: Service, call: Call, until: float) -> Result:
    return Result({"allowed": True, **call.params}, "read", "1")


def _sleep(service: Service, call: Call, until: float) -> Result:
    time.sleep(1)
    return _read(service, call, until)


def _write(service: Service, call: Call, until: float) -> Result:
    return _accepted({**call.params, "operation_key": call.operation_key})


def _make_effect(service: Service, call: Call, until: float) -> Result:
    body = {**call.params, "operation_key": call.operation_key}
    return _accepted(service.request("POST", "/effects", until=until, body=body)[1])


def _look_up(service: Service, call: Call, until: float) -> Result:
    _, found = service.request("GET", "/effects", until=until, params={"operation_key": call.operation_key})
    if found["records"]:
        return _accepted(found["records"][0])
    return Result(found, "not there", answer=Answer.NOT_FOUND_YET if call.may_still_arrive else Answer.ABSENT)


def _accepted(receipt: Mapping[str, Any]) -> Result:
    return Result(receipt, "made", str(receipt["operation_key"]), Answer.ACCEPTED, receipt=receipt)


READ = Tool("read", "Read", "bench", "ledger", StepKind.READ, _read)
SLEEP = replace(READ, perform=_sleep)
WRITE = Tool("write", "Write", "bench", "ledger", StepKind.WRITE, _write, look_up="look_up")
MAKE_EFFECT = replace(WRITE, perform=_make_effect, deadline=DEADLINE, in_flight_grace=timedelta())
LOOK_UP = Tool("look_up", "Look up", "bench", "ledger", StepKind.LOOK_UP, _look_up, deadline=DEADLINE)
