"""One read that takes a second, as a model's answer does."""

from bench.workflows.made import made
from bench.workflows.tools import LOOK_UP, SLEEP, WRITE

WORKFLOW = made("sleeping", SLEEP, 1, WRITE, LOOK_UP, 0)
