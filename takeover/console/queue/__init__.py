"""The queue: what lies on the desk, most urgent first, in piles by outcome."""
