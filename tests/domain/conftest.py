"""Tests of the rules, which need no more than Python."""

from hypothesis import settings

# How long an example takes says how busy the machine is, and nothing of the rules.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
