"""The domain's nouns as rows. Reads are QuerySet methods; a run's state is written by `runs.engine.commit` alone."""

from runs.models.effect import Effect
from runs.models.event import Event, EventText
from runs.models.fact import Fact
from runs.models.glance import Glance
from runs.models.handoff import Handoff
from runs.models.inbox import InboxEvent
from runs.models.refusal import Refusal
from runs.models.run import Run
from runs.models.seal import Seal
from runs.models.step import Step, StepPayload
from runs.models.worker import Worker

__all__ = [
    "Effect",
    "Event",
    "EventText",
    "Fact",
    "Glance",
    "Handoff",
    "InboxEvent",
    "Refusal",
    "Run",
    "Seal",
    "Step",
    "StepPayload",
    "Worker",
]
