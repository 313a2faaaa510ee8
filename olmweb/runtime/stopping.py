"""Whether this worker has been asked to end: what a long task looks at between two steps.

A worker that stops waits for its tasks. Those of a prefork pool run in other processes, which
learn nothing of it by themselves, so the flag lies in memory that the worker shares with them.
"""

import mmap

_flag = mmap.mmap(-1, 1)  # anonymous and shared: children forked later see every change


def ask() -> None:
    """Long tasks of this worker shall end soon."""
    _flag[0] = 1


def reset() -> None:
    """A new worker starts in this process."""
    _flag[0] = 0


def asked() -> bool:
    return _flag[0] == 1
