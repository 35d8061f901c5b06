"""Why a container that does not run ended: engine, kernel, its own words, event stream, times and exit code together."""

from runbooks.container.evidence import ContainerFacts, EngineEvent, Evidence
from runbooks.container.keepalive import keep_alive
from runbooks.container.memory_kills import last_kill, out_of_memory
from runbooks.container.not_said import as_said
from runbooks.container.others import meant_to_last, only_on_failure, stopped_unit
from runbooks.container.shared_end import WHEN, companions, ended_together, host_event, not_the_reboot
from runbooks.container.start_errors import never_ran, never_started, start_error
from runbooks.container.words import (
    Limits,
    cause,
    clock,
    last_words,
    life_s,
    log_of,
    near,
    of_this_life,
    own_events,
    reported_dead,
    span,
)
from runbooks.core.reading import Known, Unknown, value_of
from runbooks.core.verdict import Cause, Certainty
from runbooks.triage.closing import closing_error
from runbooks.triage.text import says

SIGNALS = {134: "SIGABRT", 136: "SIGFPE", 139: "SIGSEGV", 132: "SIGILL", 133: "SIGTRAP"}
KILLED = (137, 143)
LAST_SIGNAL = 64
MOST_WORDS = 6  # lines of an error that are shown
AFTER_AN_ERROR = ("the death of the process that its error speaks of: kernel log, core dump",)


def judge_death(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """Causes of the end of `c`, the strongest word first: the engine's own error about its start, the kernel's line about
    its cgroup, its own last error, then host and engine, requests and exit code; none surer than the records allow."""
    return as_said(e, c, limits, _ended(e, c, limits))


def _ended(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    created = c.status == "created"
    refused = [start_error(e, c, limits)] if c.error else [never_started(c)] if created and c.started_at is None else []
    if refused and (created or c.started_at is None):
        return refused
    event, oom = host_event(e, c, limits), out_of_memory(e, c, limits)
    killed = [x for x in oom if x.slug != "oom-child"]
    asked = on_purpose(e, c, limits)
    if killed:
        before = f"the kernel had killed it before, at its end ({clock(c.finished_at)})"
        return refused + killed + _also(asked) + _ruled_out(event, before)
    if event:
        alone = not companions(e, c, limits)
        own = its_own_error(e, c, limits) if alone and not refused else []
        request = asked if alone and event[0].slug != "host-rebooted" else []  # an engine that ends asks all its containers to
        other = [] if own or event[0].certainty is Certainty.CONFIRMED else _also(asked) or _before_it(e, c, limits)
        return refused + _lowered(own) + (_lowered(event) if own else event) + _also(request) + other
    if refused and c.exit_code in (125, 126, 127, 128):  # of the start itself
        return refused
    if asked and not last_kill(e, c, limits):  # a kill for memory long before explains no end that somebody asked for
        return refused + asked + oom
    early = not_the_reboot(e, c, limits)
    own = _by_itself(e, c, limits)
    if oom and (c.oom_killed or last_kill(e, c, limits)):  # a process of it was killed first, which may be why it ended so
        own = _lowered(own)
    return refused + oom + (asked or [*own, *(_by_hand(e, c, limits) if early else [])]) + early


def _before_it(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """What else may have ended it, shortly before the shutdown."""
    return _by_hand(e, c, limits) + _also(own_end(e, c) or by_code(e, c, limits))


def _by_hand(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """A stop that the engine has forgotten over the reboot leaves nothing but its exit code."""
    if c.exit_code not in (0, *KILLED) or reported_dead(e, c, limits):
        return []
    words = f"code {c.exit_code} is what a stop by hand leaves, too, and the engine has forgotten its events of before the boot"
    return [cause("stopped-on-purpose", Certainty.POSSIBLE, f"container {c.name}", words, benign=True, decides=WHEN[1:])]


def _by_itself(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """Nobody asked for its end. An error of its own is said first; what ended with others in one moment is not its own end."""
    if found := keep_alive_end(c, limits) or never_ran(e, c) or its_own_error(e, c, limits):
        late = [_killed(e, c, limits).model_copy(update={"certainty": Certainty.POSSIBLE})] if c.exit_code in KILLED else []
        return [*found, *late]
    shared, own = ended_together(e, c, limits), own_end(e, c) or by_code(e, c, limits)
    if not shared:
        return own
    if shared[0].certainty is Certainty.LIKELY:
        return shared + [x.model_copy(update={"certainty": Certainty.POSSIBLE}) for x in own]
    return _lowered(own) + shared


def _lowered(causes: list[Cause]) -> list[Cause]:
    """Not confirmed beside something else that fits."""
    sure = Certainty.CONFIRMED
    return [x.model_copy(update={"certainty": Certainty.LIKELY}) if x.certainty is sure else x for x in causes]


def _also(causes: list[Cause]) -> list[Cause]:
    """What was seen as well and may be why; the stronger word stands beside it, and is confirmed only where this is not."""
    return [x.model_copy(update={"certainty": Certainty.POSSIBLE}) for x in causes]


def _ruled_out(causes: list[Cause], why: str) -> list[Cause]:
    return [x.model_copy(update={"certainty": Certainty.RULED_OUT, "evidence": (why, *x.evidence)}) for x in causes]


def _requests(e: Evidence, c: ContainerFacts, limits: Limits) -> list[EngineEvent]:
    wanted = [x for x in own_events(e, c) if x.action in ("kill", "stop") and of_this_life(c, x.at)]
    return [x for x in wanted if near(x.at, c.finished_at, limits.stop_window_s)]


def on_purpose(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """Somebody asked the engine to stop it, or to kill it."""
    asked = _requests(e, c, limits)
    signals = [x.signal for x in asked if x.action == "kill"]
    if any(x.action == "stop" for x in asked):
        unhealthy = c.health == "unhealthy"
        words = f"a stop request around {clock(c.finished_at)} (signals: {', '.join(signals)})"
        if unhealthy:
            log = "; ".join(h.output for h in c.health_log if h.exit) or "its check failed"
            return [
                cause(
                    "killed-by-probe", Certainty.LIKELY, f"container {c.name}", words,
                    f"its health check had failed {c.health_streak} times in a row: {log}",
                    decides=("who sent the stop: the supervisor's log, or a person",),
                )
            ]  # fmt: skip
        code = f"exit code {c.exit_code}" + (": it ignored the first signal" if c.exit_code == 137 else "")
        return [cause("stopped-on-purpose", Certainty.CONFIRMED, f"container {c.name}", words, code, benign=True)]
    if signals and (unit := stopped_unit(e, c, limits)):
        words = f"{unit.name} was stopped at {clock(unit.left_at)}, before it ended, and passed signal {signals[0]} on"
        return [cause("stopped-on-purpose", Certainty.CONFIRMED, f"container {c.name}", words, benign=True)]
    if signals:
        seen = not isinstance(e.supervisors, Unknown)  # a unit that was stopped passes its signal on like this
        return [
            cause(
                "killed-through-engine", Certainty.CONFIRMED if seen else Certainty.POSSIBLE, f"container {c.name}",
                f"the event stream shows signal {', '.join(signals)} sent through the engine, without a stop request",
                f"exit code {c.exit_code}; no kernel line about memory at its end",
                decides=() if seen else ("whether a unit of systemd was stopped then: units were not read",),
            )
        ]  # fmt: skip
    return []


def keep_alive_end(c: ContainerFacts, limits: Limits) -> list[Cause]:
    """Its sleep ran out."""
    life, alive = life_s(c), keep_alive((*c.entrypoint, *c.command))
    if alive is None or not alive.seconds or life is None or c.exit_code != 0 or abs(life - alive.seconds) > limits.life_slack_s:
        return []
    words = f"its main process is a sleep of {alive.seconds:.0f} s and it lived {life:.1f} s, exit code 0"
    return [cause("keep-alive-ended", Certainty.CONFIRMED, f"container {c.name}", words)]


def its_own_error(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """Its words end with an error, and the work did not go on after it: whatever its exit code says."""
    error = closing_error(log_of(e))
    if not error or c.exit_code in (255, *SIGNALS, 135):  # 255: the engine's own; the signals are judged with their words
        return []
    words = ("its own last error: " + " | ".join(error[:MOST_WORDS]), *fault_words(e, c, limits), lived(c))
    subject = f"container {c.name}"
    if c.exit_code == 0:
        words = (*words, "exit code 0", only_on_failure(e, c))
        return [cause("failed-with-code-zero", Certainty.LIKELY, subject, *words, decides=AFTER_AN_ERROR)]
    if c.exit_code in KILLED:
        code = f"exit code {c.exit_code}: a launcher that ends its processes after an error leaves it, too"
        return [cause("main-exited-error", Certainty.LIKELY, subject, *words, code, decides=("who sent the signal, and when",))]
    return [cause("main-exited-error", Certainty.CONFIRMED, subject, f"exit code {c.exit_code}", *words)]


def lived(c: ContainerFacts) -> str:
    """How long, in words."""
    life = life_s(c)
    return f"it lived {span(life)}" if life is not None else ""


def fault_words(e: Evidence, c: ContainerFacts, limits: Limits) -> list[str]:
    """What the kernel says of faults of processes around its end: the lines name no container."""
    host = value_of(e.host)
    near_ = [f for f in host.faults if near(f.at, c.finished_at, limits.oom_window_s)] if host else []
    return [f"kernel at {clock(f.at)}: {f.text} (which container it was in is not said)" for f in near_[-3:]]


def own_end(e: Evidence, c: ContainerFacts) -> list[Cause]:
    """The main process ended by itself: it finished, or it failed without a word that is known for an error."""
    subject, code = f"container {c.name}", f"exit code {c.exit_code}"
    if c.exit_code == 0:
        return [_finished(e, c)]
    if 0 < c.exit_code < 125:
        return [cause("main-exited-error", Certainty.CONFIRMED, subject, code, lived(c), last_words(e))]
    return []


def _finished(e: Evidence, c: ContainerFacts) -> Cause:
    """Code 0, no error in its words, nobody's request. Where the engine has forgotten this death, a stop is not excluded."""
    told = any(x.action == "die" for x in own_events(e, c))
    sure = Certainty.CONFIRMED if told and isinstance(e.log, Known) else Certainty.LIKELY
    check = () if told else ("whether somebody stopped it: the engine's events around its end are lost",)
    words = ("exit code 0", lived(c), last_words(e))
    return cause("main-exited-zero", sure, f"container {c.name}", *words, decides=check, benign=not meant_to_last(e, c))


def by_code(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """Ends by a signal for which nothing else was found."""
    subject, code = f"container {c.name}", c.exit_code
    if code == 135:
        small = c.shm_bytes <= limits.shm_small_bytes
        size = f"its /dev/shm has {c.shm_bytes >> 20} MiB" if c.shm_bytes else ""
        log = value_of(e.log)
        said = says(log or (), "container-death/bus-error")
        sure = Certainty.CONFIRMED if said else Certainty.LIKELY if small else Certainty.POSSIBLE
        other = ("use of /dev/shm right before the end", "a mapped file that was cut short, a full disk")
        words = ("exit code 135: SIGBUS", size, last_words(e))
        return [cause("bus-error", sure, subject, *words, decides=() if said else other)]
    if code in SIGNALS:
        signal = (f"exit code {code}: {SIGNALS[code]}", *fault_words(e, c, limits), last_words(e))
        return [cause("crashed", Certainty.CONFIRMED, subject, *signal)]
    if code in (137, 143):
        return [_killed(e, c, limits)]
    check: tuple[str, ...] = ()
    if 128 < code <= 128 + LAST_SIGNAL:
        check = (f"who sent it signal {code - 128}, or whether the program itself returns {code}",)
    elif value_of(e.host) is None:
        check = ("boot time and engine's start: the engine writes 255 for what went down with them, too",)
    sure = Certainty.LIKELY if check else Certainty.CONFIRMED
    return [cause("main-exited-error", sure, subject, f"exit code {code}", last_words(e), decides=check)]


def _killed(e: Evidence, c: ContainerFacts, limits: Limits) -> Cause:
    signal = "SIGKILL" if c.exit_code == 137 else "SIGTERM"
    missing = []
    died = reported_dead(e, c, limits)
    if not died:
        missing.append("the engine's events around the death (they are lost when its daemon restarts)")
    if value_of(e.ooms) is None and signal == "SIGKILL":
        missing.append("the kernel log: an oom-kill line for this container")
    if c.labels.get("io.kubernetes.pod.name"):
        missing.append("the pod's events: a failed liveness probe, an eviction")
    words = "no stop or kill request in the event stream" if died else ""
    memory = "no kernel line about memory for it" if value_of(e.ooms) is not None else ""
    sure = Certainty.POSSIBLE if missing else Certainty.CONFIRMED
    return cause(
        "killed-from-outside", sure, f"container {c.name}", f"exit code {c.exit_code}: {signal}", words, memory,
        "OOMKilled is false, which by itself proves nothing" if c.exit_code == 137 else "", decides=tuple(missing),
    )  # fmt: skip
