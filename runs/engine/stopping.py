"""Whether this process was asked to stop: each run is then given back at its next step boundary, and none is taken.

One byte of memory, shared with the processes that a worker forks: only the first of them hears the signal.
"""

import mmap

_asked = mmap.mmap(-1, 1)


def ask() -> None:
    _asked[0] = 1


def asked() -> bool:
    return _asked[0] == 1
