"""Who spends, for the entries of a ledger: the user and the machine as the operating system knows them."""

from __future__ import annotations

import os
import platform

UNKNOWN = "unknown"


def user_name() -> str:
    """Return the name of the user whose process this is, or the number if it has none. No variable of the environment is read."""
    try:
        import pwd

        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    except ImportError:  # not a POSIX system
        try:
            name = os.getlogin()
        except OSError:
            name = UNKNOWN
    return _text(name)


def host_name() -> str:
    """Return the name of this machine."""
    return _text(platform.node())


def _text(name: str) -> str:
    """A name that a database can hold."""
    return name.encode("utf-8", "backslashreplace").decode().replace("\0", "") or UNKNOWN
