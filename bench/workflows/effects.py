"""One read and five writes to the ledger: what workers that are killed must not do twice."""

from bench.workflows.made import made
from bench.workflows.tools import LOOK_UP, MAKE_EFFECT, READ

WORKFLOW = made("effects", READ, 1, MAKE_EFFECT, LOOK_UP, 5)
