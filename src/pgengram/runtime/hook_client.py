"""`pgengram hook`: what an assistant runs at its events. It asks a server of the store and prints what that says.

An assistant waits for it, so it starts in milliseconds and imports the standard library only. Whatever fails, the
session goes on: the exit code is 0, and a line in the log says why.
"""

from __future__ import annotations

import json
import os
import sys
import time

from pgengram.runtime import local_socket as local

# Two seconds after it was started a hook has ended: what it waits for an answer, also where a server has to be started,
# and what it takes to leave the event for the next server and to end.
PATIENCE_S, ENDING_S = 2.0, 0.25
UNLIKELY_S = 60.0  # that no hook runs before its first line: a sandbox has another clock
# The events that need an answer, whatever client has them, and what clients call the name of an event.
ASKING = ("SessionStart", "UserPromptSubmit", "PreCompact", "BeforeAgent", "sessionStart", "TaskStart", "TaskResume")
ALWAYS = {"cline": '{"cancel": false}'}  # what is printed for a client that wants an answer whatever happens
NAMES = ("hook_event_name", "hookEventName", "hookName", "agent_action_name")


def main(arguments: list[str]) -> int:
    """Answer one event, which is read from standard input as JSON; return the exit code, which is 0.

    Args:
        arguments: the client's name; `--recall` to keep no conversation; `--settings` and a file of settings.
    """
    client, options = arguments[0], arguments[1:]
    printed = ""
    try:
        patience_s = PATIENCE_S - ENDING_S - running_s()
        _take_settings(options)
        request = {"hook": client, "event": _event_on_stdin(), "keeps": "--recall" not in options, "at": time.time()}
        printed = _hook_output(local.Endpoints(os.environ), request, patience_s)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever failed, the assistant's session goes on
        _write_to_log(f"{client}: {type(error).__name__}: {error}")
    _print_output(printed or ALWAYS.get(client, ""))
    return 0


def _take_settings(options: list[str]) -> None:
    """Take the settings of the file that is named, as the environment's.

    Raises:
        ValueError: none is named, or it holds no settings; what the event says must not get into another store.
    """
    for place, option in enumerate(options):
        name, sign, path = option.partition("=")
        if name == "--settings":
            path = path if sign else next(iter(options[place + 1 :]), "")
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
                raise ValueError(f"{path} holds no settings; run `pgengram connect` with --hooks again")
            os.environ.update(found)


def _event_on_stdin() -> dict[str, object]:
    """Return the event on standard input.

    Raises:
        ValueError: it is longer than a server takes, or not a JSON object.
    """
    text = sys.stdin.read(local.LONGEST_LINE)
    if len(text) == local.LONGEST_LINE:
        raise ValueError(f"the event has more than {local.LONGEST_LINE:,} characters")
    event = json.loads(text or "{}")
    if not isinstance(event, dict):
        raise ValueError("the event is not a JSON object")  # noqa: TRY004 - a wrong text, not a wrong type
    return event


def _write_to_log(text: str) -> None:
    """Add a line to the log, if there is room for it."""
    try:
        local.log_line(local.Endpoints(os.environ), text.replace("\n", " "))
    except (OSError, ValueError):  # a full disk, or a folder of somebody else: there is nowhere to say so
        return


def _print_output(text: str) -> None:
    """Print an answer; who has stopped reading gets none."""
    try:
        if text:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
    except (OSError, ValueError, AttributeError):  # closed, or a full disk behind it
        sys.stdout = None  # else the interpreter tries again at its end, and fails


def _hook_output(place: local.Endpoints, request: dict[str, object], patience_s: float) -> str:
    """Return what is to be printed; a request that nobody has taken waits for the next server."""
    if not local.SUPPORTED:
        raise OSError(local.WITHOUT)
    name = _event_name(request["event"])
    try:
        asked = local.ask_or_start if name in ASKING else local.ask_server
        answer = asked(place, request, patience_s)
    except local.Unanswered:
        local.keep_for_later(place, request)
        raise
    if answer is None:
        local.keep_for_later(place, request)
        local.start_server(place)
        if name in ASKING:
            raise local.Unanswered(f"no server was up within {PATIENCE_S:g} s of {name}")
        return ""
    if "error" in answer:
        local.log_line(place, f"{request['hook']}: {name}: {json.dumps(answer['error'])}")
    return str(answer.get("print") or "")


def _event_name(event: object) -> str:
    return next((event[one] for one in NAMES if event.get(one)), "") if isinstance(event, dict) else ""


def running_s() -> float:
    """Return how long ago this process started, where the system says so; else how long it has used the processor."""
    used = time.process_time()
    if sys.platform != "linux":
        return used
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
            started = int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):  # a sandbox may hide it
        return used
    passed = time.clock_gettime(time.CLOCK_BOOTTIME) - started
    return passed if used <= passed < UNLIKELY_S else used
