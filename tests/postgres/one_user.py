"""One user of an embedded server, as a process: says `ready URL`, then obeys `stop` and `start` from its stdin."""

import sys
from pathlib import Path

from pgengram.errors import PgengramError
from pgengram.postgres import start_embedded


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def started():
    database = start_embedded(Path(sys.argv[1]), report=lambda text: say(f"report {text}"))
    say(f"ready {database.url}")
    return database


try:
    database = started()
    for order in sys.stdin:
        if order.strip() == "stop":
            database.stop()
            say("stopped")
        else:
            database = started()
except PgengramError as error:
    say(f"failed {error.message} {error.hint}")
