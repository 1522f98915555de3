"""Starts, watches and stops the processes of one installation. Knows no Django and nothing of the product."""


class CannotStart(Exception):
    """One sentence for the person at the terminal: what is wrong, and what to do about it."""
