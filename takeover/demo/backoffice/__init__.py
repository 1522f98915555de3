"""The demo's back office: the authoritative system that the product knows by HTTP only.

Nothing here imports the product, and nothing in the product may import this: it keeps its own books,
so a test can ask it what really happened.
"""
