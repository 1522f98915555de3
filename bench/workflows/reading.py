"""Fifty reads that answer in process: what a read step costs."""

from bench.workflows.made import made
from bench.workflows.tools import LOOK_UP, READ, WRITE

WORKFLOW = made("reading", READ, 50, WRITE, LOOK_UP, 0)
