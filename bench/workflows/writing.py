"""One read and ten writes that answer in process: what a write step costs."""

from bench.workflows.made import made
from bench.workflows.tools import LOOK_UP, READ, WRITE

WORKFLOW = made("writing", READ, 1, WRITE, LOOK_UP, 10)
