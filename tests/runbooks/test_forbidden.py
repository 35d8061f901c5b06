"""Prohibitions as data: over every situation, no report offers what one of its own causes forbids."""

import re
from collections import Counter
from functools import cache

import pytest

from flows.engine.actions import ACTIONS
from runbooks.core.forbidden import allowed, is_about, objection
from runbooks.core.knowledge import load_runbook, runbook_slugs
from runbooks.core.plan import Step
from runbooks.core.verdict import Cause, Certainty, Diagnosis, Finding
from runbooks.triage.load import library
from tests.runbooks.every import situations

FORBIDDING = [(slug, name) for slug in runbook_slugs() for name, c in load_runbook(slug).causes.items() if c.forbids or c.forbids_on_it]


@cache
def offered() -> tuple[tuple[str, Diagnosis], ...]:
    """(runbook, diagnosis without its causes and findings) of every situation with a plan."""
    judged = [(case.runbook, case.judge()) for case in situations()]
    return tuple((slug, d.model_copy(update={"causes": (), "findings": ()})) for slug, d in judged if d.plans)


def test_what_is_forbidden_is_an_action() -> None:
    for slug in runbook_slugs():
        for name, cause in load_runbook(slug).causes.items():
            assert {*cause.forbids, *cause.forbids_on_it} <= set(ACTIONS), (slug, name)


def test_no_report_offers_what_it_forbids() -> None:
    withheld: Counter[str] = Counter()
    books = {slug: load_runbook(slug) for slug in runbook_slugs()}
    for case in situations():
        found, book = case.judge(), books[case.runbook]
        assert [p.name for p in found.plans if objection(book, found, p)] == [], (case.runbook, case.title)
        withheld[case.runbook] += any(" forbids " in line for line in found.do_now)
    assert len(offered()) >= 100
    assert withheld["container-death"] >= 5, "the rule is met by situations that would offer something"
    assert withheld["stuck-spawning"] >= 1


@pytest.mark.parametrize(("slug", "name"), FORBIDDING, ids=[f"{s}/{n}" for s, n in FORBIDDING])
def test_each_prohibition_takes_the_plan_away(slug: str, name: str) -> None:
    """That cause beside any plan of its runbook: every plan with such a step goes and is named, every other stays."""
    book = load_runbook(slug)
    known = book.causes[name]
    for found in (d for mine, d in offered() if mine == slug):
        told = Cause(slug=name, certainty=Certainty.LIKELY, subject="something else", evidence=("as read",))
        after = allowed(book, found.model_copy(update={"causes": (told,)}))
        kept = tuple(p for p in found.plans if not {s.kind for s in p.steps} & set(known.forbids))
        assert after.plans == kept
        assert all(any(p.name in line and known.title in line for line in after.do_now) for p in found.plans if p not in kept)
        ruled_out = told.model_copy(update={"certainty": Certainty.RULED_OUT})
        assert allowed(book, found.model_copy(update={"causes": (ruled_out,)})).plans == found.plans
        said = Finding(priority="HIGH", category=f"{slug}/{name}", issue="its log says so", action="look")
        assert allowed(book, found.model_copy(update={"causes": (), "findings": (said,)})).plans == kept


def test_a_prohibition_of_one_thing_leaves_the_others() -> None:
    book = load_runbook("zombie-gpu")
    mine = [d for slug, d in offered() if slug == "zombie-gpu"]
    found = next(d for d in mine if any(s.kind == "terminate-processes" for p in d.plans for s in p.steps))
    pid = next(p["pid"] for plan in found.plans for s in plan.steps for p in s.args.get("processes", ()))
    for subject, stays in ((f"pid {pid} on GPU 0", False), ("pid 99999 on GPU 0", True)):
        told = Cause(slug="writing-checkpoint", certainty=Certainty.CONFIRMED, subject=subject, evidence=("it writes",), innocent=True)
        kept = allowed(book, found.model_copy(update={"causes": (told,)})).plans
        assert any(s.kind == "terminate-processes" for p in kept for s in p.steps) is stays


def test_a_step_is_about_what_its_arguments_name() -> None:
    step = Step(kind="x", owner="pod:p1", args={"pod": "p1", "n": [{"pid": 46}], "argv": ["kill", "460"]}, commands=(), effect="")
    for subject, is_it in (("pod p1", True), ("pid 46 on GPU 0", True), ("pid 460", False), ("pid 4", False), ("worker w1", False)):
        cause = Cause(slug="c", certainty=Certainty.CONFIRMED, subject=subject, evidence=())
        assert is_about(cause, step) is is_it, subject


@pytest.mark.parametrize(("args", "is_it"), [({"backend": "etcd-v2"}, True), ({"backend": "etcd"}, False), ({}, True)])
def test_a_step_on_a_namesake_of_the_subject_is_not_about_it(args: dict[str, str], is_it: bool) -> None:
    cause = Cause(
        slug="c", certainty=Certainty.CONFIRMED, subject="run job (etcd-v2)", evidence=(), told_apart=(("backend", "etcd-v2"),)
    )
    step = Step(kind="x", owner="t", args={"run": "job"} | args, commands=(), effect="")
    assert is_about(cause, step) is is_it


def test_each_run_of_a_rendezvous_is_told_from_its_namesake_by_its_backend() -> None:
    causes = {c for case in situations() if case.runbook == "stale-rendezvous" for c in case.judge().causes}
    found = {(c.subject, c.told_apart) for c in causes if c.subject.startswith("run ") and c.subject.endswith(")")}
    assert len(found) > 3
    assert {(s, a) for s, a in found if a != (("backend", s.rpartition("(")[2].rstrip(")")),)} == set()


# How a prohibition names each action kind, as the beginning of an order: in any runbook, and as the runbooks of that kind mean it
# ("delete it"). A kind that no prohibition names has an order all the same: what a prohibition of it would say.
NEVER = r"(?!)"
ORDERS: dict[str, tuple[str, str]] = {
    "continue-processes": (r"kill -cont\b|sigcont\b|continue (?:a job|the process)", r"continue\b"),
    "terminate-processes": (
        r"p?kill\b|(?:end|terminate) (?:.* )?(?:process|processes|pid|holder|workers|what (?:uses|listens))\b",
        r"(?:end|terminate) (?:it|them|anything|what)\b",
    ),
    "restart-job": (
        r"(?:cancel or )?resubmit\b|start (?:over|afresh|from scratch|them all|the id|a second (?:job|one)|with some ranks)\b"
        r"|restart (?:the job|jobs|a job|one node|them all)\b|train on\b|go on from\b|(?:give|put) .*\bwork\b",
        r"(?:re)?start (?:it|again)\b|resume\b",
    ),
    "restart-container": (r"restart .*\bcontainer\b", NEVER),
    "reset-node-jobs": (r"reset the (?:count|node's jobs)\b", r"reset while a process\b|clean up\b"),
    "reset-gpu": (r"reset\b.*\bgpus?\b|run .*gpu-reset\b", r"reset (?:it|because|while anything)\b"),
    "quarantine-node": (r"drain\b", NEVER),
    "recreate-container": (r"recreate (?!the whole cluster)", NEVER),
    "start-container": (r"start a container\b", r"(?:re)?start (?:it|again|the worker|a worker)\b|restart .*\bcontainer in place\b"),
    "restart-application": (r"restart .*\bapplication\b", r"restart .*\bworkers?\b"),
    "remove-kept-container": (r"prune .*\bcontainers\b|run .*docker rm\b|(?:remove|delete) .*\bcontainer\b", r"remove one\b"),
    "remount-fuse": (r"(?:force the )?unmount\b|remount (?!r(?:ead-)?w)", NEVER),
    "start-engine": (r"restart (?:the daemon|dockerd?|the engine)\b", NEVER),
    "free-engine-space": (r"free disk space\b|prune$|prune .*\bimages\b", NEVER),
    "stop-supervisor": (r"stop .*\b(?:retry loop|supervisor)\b", NEVER),
    "stop-unit": (r"stop .*\bunit\b|systemctl stop\b", NEVER),
    "stop-ray-job": (r"stop (?:a|the|its|that|another) job\b|remove supervisors\b", r"stop it\b|act on\b"),
    "restart-raylet": (r"(?:re)?start\b.*\braylet\b|recreate .*\braylet\b", r"restart .*\bworkers?\b"),
    "copy-checkpoint": (r"copy (?:a|the|any) checkpoint\b|overwrite (?:what|one)\b|save a checkpoint\b", NEVER),
    "create-checkpoint-folder": (r"create .*\b(?:folder|files)\b|mkdir\b", r"write to it\b"),
    "repoint-latest": (r"fall back\b", r"point\b|write to it\b"),
    "quarantine-checkpoint": (r"fall back\b|quarantine\b", r"set .*\baside\b|delete or set aside\b|rename\b|write to it\b"),
    "restore-folder-mode": (NEVER, r"chmod (?!-r)|write to it\b"),
    "restore-archived": (r"ask for .*\brestore of\b", NEVER),
    "abort-upload": (r"abort .*\bupload\b", r"abort\b"),
    "prune-checkpoints": (
        r"(?:delete|prune) (?:.* )?checkpoints?\b|delete by age\b|delete files to make room\b", r"delete (?!the files)|write to it\b"
    ),
    "put-back-checkpoint": (NEVER, r"rename\b|put .*\bback\b|write to it\b"),
    "finish-deletion": (NEVER, r"remove it\b|write to it\b"),
    "delete-run-keys": (r"(?:delete|clean) .*\b(?:keys?|rendezvous state)\b", r"(?:delete|wipe)\b"),
    "restore-run-keys": (NEVER, r"put (?:it|them) back\b|write single keys\b"),
    "probe-rendezvous": (NEVER, r"start the id again\b"),
    "start-etcd": (r"(?:re)?start .*\betcd\b", NEVER),
    "defragment-etcd": (r"defragment\b|compact\b", r"disarm\b"),
    "normalise-key": (r"convert or overwrite\b|overwrite (?:either|the \.pub)", r"convert\b"),
    "normalise-secret": (r"convert or overwrite\b|overwrite (?:either|the \.pub)", r"convert\b"),
    "restrict-key-mode": (r"change the key file's mode\b", NEVER),
    "remove-known-host": (r"(?:delete|edit|remove) .*known_hosts\b", r"delete known_hosts\b|remove the mark\b|accept it\b"),
    "repair-ssh-path": (r"(?:touch|edit) authorized_keys\b", r"change (?:modes|the server)\b|repair node\b|chmod (?!-r)"),
    "add-public-key": (r"(?:touch|edit) authorized_keys\b|add .*\bkeys? to\b", r"change the server\b|repair node\b"),
    "start-worker": (r"start (?:workers|worker by worker)\b", r"(?:re)?start .*\b(?:it|workers?)\b"),
    "start-worker-unverified": (r"start (?:workers|worker by worker)\b", r"(?:re)?start .*\b(?:it|workers?)\b"),
    "set-railway-variable": (NEVER, r"set (?:the|a) variable\b"),
    "mark-worker-row": (r"(?:mark|set) the row\b", NEVER),
    "terminate-pod": (r"(?:terminate|end|delete|move) .*\bpods?\b|respawn\b", r"(?:terminate|end) (?:it|worker)\b"),
    "stop-pod": (r"(?:stop|end|move) .*\bpods?\b|respawn\b", r"(?:stop|end) (?:it|worker)\b"),
}
ITS = {  # runbooks that do not plan it themselves, in which "start it again" means it all the same
    "restart-job": {"checkpoint-fallback", "data-check", "distributed-setup", "memory-pressure", "ray-job", "stale-rendezvous"},
}
VERBS = (
    "abort|act|add|call|clean|continue|convert|copy|create|delete|drain|edit|end|fall|fetch|force|kill|mark|mkdir|move|overwrite|prune|put|"
    "raise|recreate|remove|rename|reset|respawn|restart|resubmit|rotate|set|start|stop|terminate|touch|unload|unmount"
)
NO_STEP_DOES_SO = {  # a manner that no step has, whatever its kind
    r"\bby (?:name|port|age|a listing|one listing)\b|^pkill\b": "a step names what it acts on by identities that were read",
    r"\b(?:every|all) (?:pid|python|checkpoints|workers)\b|\bas a whole\b|^wipe\b": "a step acts on what it names, never on all there is",
    r"\bin a (?:tight )?loop\b|\bagain and again\b": "a change that failed is not tried again",
    r"\bthe others\b|\bother (?:jobs|nodes|processes|workers|users)\b|\bof others\b": "a step acts on what was proven to be at fault",
    r"\b(?:single|one) (?:ranks?|worker)\b|\bone by one\b": "what belongs together is ended together or not at all",
}
KEEPS = {  # (kind, what is forbidden): why a plan of that kind does not do it
    ("abort-upload", r"still gets parts"): "only one whose newest part is older than the limit is ended",
    ("continue-processes", r"a job that a scheduler suspended"): "what a scheduler holds is innocent, and that cause forbids it",
    ("copy-checkpoint", r"^overwrite"): "a copy replaces nothing",
    ("copy-checkpoint", r"^save a checkpoint there"): "a copy takes it away from there, and goes only where a write is not refused",
    ("create-checkpoint-folder", r"below an unmounted|to please it"): "it is made only below a folder that is there, on the device that the plan names",
    ("defragment-etcd", r"without making room"): "it makes room before it switches the alarm off",
    ("delete-run-keys", r"only the rendezvous key"): "all keys of the run go, those of its store first",
    ("delete-run-keys", r"of running jobs|while workers live"): "keys are only deleted where everything that holds the run is proven dead",
    ("finish-deletion", r"while the program that deletes it still runs"): "it is planned only where no process has any of it open",
    ("free-engine-space", r"for it$"): "space is freed only where a disk was read to be full",
    ("normalise-key", r"overwrite|convert"): "the key stays the same, and the file as it was is kept",
    ("normalise-secret", r"overwrite|convert"): "the key stays the same, and the text as it was is kept",
    ("prune-checkpoints", r"\bolder\b|to make room|disk checkpoints|the local copy|the copy on|as corrupt"):
        "only old, whole ones go, of a tier that was read to be full; another tier has each, and those that must stay are proven again",
    ("probe-rendezvous", r"before these keys are gone"): "it is the step after the one that deletes them",
    ("put-back-checkpoint", r"^rename"): "only what an interrupted deletion renamed, with nothing of it gone, gets its own name back",
    ("quarantine-checkpoint", r"^rename"): "quarantine renames aside, never to a name that a loader takes",
    ("quarantine-node", r"^drain"): "a node is marked only for a fault of its own GPUs or their driver",
    ("remount-fuse", r"while others on the node still use"): "it is planned only where the mount's own process is gone: nobody reads or writes through it",
    ("remove-known-host", r"^delete known_hosts"): "one line becomes a comment, and only where the fleet file names the new key",
    ("remove-kept-container", r"still runs"): "only one that was set aside and does not run is removed",
    ("repoint-latest", r"^fall back"): "the pointer is set to the newest step that is whole, and stays while a newer one may be whole",
    ("reset-gpu", r"\b(?:while|before|because of|shared|alone)\b|\bfor (?:it|one)\b|\bone such\b"):
        "a reset is planned only for a GPU of which the driver or an Xid asks for it, and while no process is on any",
    ("reset-node-jobs", r"while a process still runs|before progress"): "the count is reset only where no live process of a job was found",
    ("restart-job", r"a second (?:job|one)"): "a job is started only where none of its processes is left",
    ("restore-archived", r"without asking what it costs"): "one object is asked for, in the usual way, and the plan names the price",
    ("restore-run-keys", r"over a run that started"): "nothing is put back over keys that are there",
    ("start-container", r"what was stopped on purpose"): "whether somebody stopped it is read, and that cause forbids it",
    ("start-etcd", r"on an empty data folder|over the old data"): "it is started by the fleet file's command, with the data it had",
    ("start-worker", r"while the start script|by hand"): "it is planned only where the pod's own processes were watched and none is at work",
    ("start-worker-unverified", r"while the start script|by hand"): "it is planned only where the pod's own processes were watched and none is at work",
    ("mark-worker-row", r"on a guess"): "a row is set only to what the provider or the worker itself says",
    ("terminate-pod", r"^respawn (?:on the same machine|on the same host|with the same size|without the filter)"):
        "the plan says that the next pod must not get the same machine",
    ("stop-pod", r"^respawn (?:on the same machine|on the same host|with the same size|without the filter)"):
        "the plan says that the next pod must not get the same machine",
    ("terminate-pod", r"before (?:its|its local|local) (?:disk|data) is"): "the plan names the disks that are lost, and a person must allow it",
    ("terminate-pod", r"before (?:its|the pod's) (?:log|last words) (?:was|were) read"): "what its log says is read with its end, and told in the same report",
    ("stop-pod", r"before (?:its|the pod's) (?:log|last words) (?:was|were) read"): "what its log says is read with its end, and told in the same report",
    ("terminate-processes", r"\bdefunct\b"): "one that is dead already is never in what is ended",
    ("terminate-processes", r"what a debugger or a scheduler holds"): "what they hold is innocent, and that cause forbids it",
    ("terminate-processes", r"what (?:listens|uses)|whatever|what is visible|the dashboard's|the first runner"):
        "only a process is ended that was itself proven to be stuck or left over",
    ("terminate-processes", r"\bon one\b|as hung|for (?:it|this number)$"): "it was proven to be stuck over a window, by more than one sign",
}  # fmt: skip


def orders(sentence: str) -> list[str]:
    """Each order that a prohibition names, without its reason: "stop or resubmit a job: why" -> "stop a job", "resubmit a job"."""
    order = re.sub(r"^(?:do not|don't|never) ", "", re.split(r": | \(|\. ", sentence.lower())[0])
    parts = re.split(rf",? (?:or|and)(?: do not)? (?=(?:{VERBS})\b)", order)
    for i in range(len(parts) - 2, -1, -1):
        if " " not in parts[i]:
            parts[i] = f"{parts[i]} {parts[i + 1].partition(' ')[2]}"
    return parts


def named(slug: str, sentence: str, used: set[object]) -> set[str]:
    """Action kinds that do what the sentence forbids, as that runbook's words mean it. `used`: the rows of the tables that took one away."""
    own, kinds = load_runbook(slug).actions if slug in runbook_slugs() else (), set()
    for order in orders(sentence):
        if manner := next((m for m in NO_STEP_DOES_SO if re.search(m, order)), ""):
            used.add(manner)
            continue
        for kind, (anywhere, its) in ORDERS.items():
            if re.match(anywhere, order) or ((kind in own or slug in ITS.get(kind, ())) and re.match(its, order)):
                kept = {(k, words) for k, words in KEEPS if k == kind and re.search(words, order)}
                used |= kept
                kinds |= {kind} - {k for k, _ in kept}
    return kinds


def test_every_kind_has_an_order() -> None:
    """A new kind comes with the words by which a prohibition names it."""
    assert set(ORDERS) == set(ACTIONS)
    assert {k for k, _ in KEEPS} | set(ITS) <= set(ACTIONS)


def test_an_order_is_told_from_its_reason() -> None:
    assert orders("stop or resubmit a job: it may run on") == ["stop a job", "resubmit a job"]
    assert orders("Do not clean keys, and do not restart the job (why)") == ["clean keys", "restart the job"]
    used: set[object] = set()
    assert named("ray-job", "stop or resubmit a job: it may run on", used) == {"stop-ray-job", "restart-job"}
    assert named("memory-pressure", "kill other processes", used) == set()
    assert used == {next(m for m in NO_STEP_DOES_SO if "other" in m)}


def test_a_prohibition_in_words_is_data_as_well() -> None:
    """Whatever the words of any runbook or family forbid, of what any runbook can do, is data, or it stands here why no plan does it."""
    used: set[object] = set()
    missing = set()
    for rule in library().causes:
        known = rule.cause
        data = {*known.forbids, *known.forbids_on_it}
        slug = rule.family if rule.family in runbook_slugs() else known.runbook
        missing |= {(rule.family, rule.slug, kind, m) for m in known.must_not for kind in named(slug, m, used) - data}
    assert missing == set()
    assert used == {*NO_STEP_DOES_SO, *KEEPS}, "a row that takes nothing away"
