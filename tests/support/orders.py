"""How a prohibition in words names an action kind, and why a plan of that kind may stand beside one all the same."""

import re

from runbooks.core.knowledge import load_runbook, runbook_slugs

# How a prohibition names each action kind, as the beginning of an order: in any runbook, and as the runbooks of that kind mean it
# ("delete it"). A kind that no prohibition names has an order all the same: what a prohibition of it would say.
NEVER = r"(?!)"
ORDERS: dict[str, tuple[str, str]] = {
    "continue-processes": (r"kill -cont\b|sigcont\b|continue (?:a job|the process)", r"continue\b"),
    "terminate-processes": (
        r"p?kill\b|(?:end|terminate) (?:.* )?(?:process|processes|pid|holder|workers|what (?:uses|listens))\b",
        r"(?:end|terminate) (?:it|them|anything|what)\b|clean up\b",
    ),
    "restart-job": (
        r"(?:cancel or )?resubmit\b|start (?:over|afresh|from scratch|them all|the id|a second (?:job|one)|with some ranks)\b"
        r"|restart (?:the job|jobs|a job|one node|them all)\b|train on\b|go on from\b|(?:give|put) .*\bwork\b",
        r"(?:re)?start (?:it|again)\b|resume\b",
    ),
    "restart-container": (r"restart .*\bcontainer\b", r"clean up\b"),
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
    "repair-ssh-path": (r"touch authorized_keys\b", r"change (?:modes|the server)\b|repair node\b|chmod (?!-r)"),
    "add-public-key": (r"(?:touch|edit) authorized_keys\b|add .*\bkeys? to\b", r"change the server\b|repair node\b"),
    "start-worker": (r"start (?:workers|worker by worker)\b", r"(?:re)?start .*\b(?:it|workers?)\b"),
    "start-worker-unverified": (r"start (?:workers|worker by worker)\b", r"(?:re)?start .*\b(?:it|workers?)\b"),
    "set-railway-variable": (NEVER, r"set (?:the|a) variable\b"),
    "restart-service": (r"restart (?:the )?(?:service|orchestrator)\b", NEVER),
    "redeploy-service": (r"(?:re)?deploy .*\b(?:service|orchestrator|removed)\b", NEVER),
    "mark-worker-row": (r"(?:mark|set) the row\b", NEVER),
    "recover-pod-id": (r"write (?:the pod's|its) id into\b", NEVER),
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
NO_STEP_DOES_SO = {  # a manner that no step has, whatever its kind: why
    r"\bby (?:name|port|age|a listing|one listing)\b|^pkill\b": "a step names what it acts on by identities that were read",
    r"\b(?:every|all) (?:pid|python|checkpoints|workers)\b|\bas a whole\b|^wipe\b": "a step acts on what it names, never on all there is",
    r"\bin a (?:tight )?loop\b|\bagain and again\b": "a change that failed is not tried again",
    r"\bthe others\b|\bother (?:jobs|nodes|processes|workers|users)\b|\bof others\b": "a step acts on what was proven to be at fault",
    r"\b(?:single|one) (?:ranks?|worker)\b|\bone by one\b": "what belongs together is ended together or not at all",
}
PROVEN_OVER_TIME = "it was proven to be stuck over a window, by more than one sign"
NEVER_DIRECTLY = "a plan of that kind answers another cause, which asks for it"
OTHER_HOST = (
    r"^respawn (?:on the same (?:machine|host)|with the same size|without the filter)", "the plan says that the next needs another machine"
)
WORDS_READ = (
    r"before (?:its|the pod's) (?:log|last words) (?:was|were) read", "what its log says is read with its end and told beside the plan"
)
WATCHED = (r"while the start script|by hand", "it is planned only where the pod's own processes were watched and none is at work")
SAME_KEY = (r"overwrite|convert", "the key stays the same, and its text as it was is kept")
PRUNED = r"\bolder\b|to make room|disk checkpoints|the local copy|the copy on|as corrupt|rejected"
KEEPS: dict[str, tuple[tuple[str, str], ...]] = {  # kind -> (what is forbidden, why a plan of that kind does not do it)
    "abort-upload": ((r"still gets parts", "only one whose newest part is older than the limit is ended"),),
    "continue-processes": ((r"a job that a scheduler suspended", "what a scheduler holds is benign, and that cause forbids it"),),
    "copy-checkpoint": (
        (r"^overwrite", "a copy replaces nothing"),
        (r"^save a checkpoint there", "a copy takes it away from there, and goes only where a write is not refused"),
    ),
    "create-checkpoint-folder": (
        (r"below an unmounted|to please it", "it is made only below a folder that is there, on the device that the plan names"),
    ),
    "defragment-etcd": ((r"without making room", "it makes room before it switches the alarm off"),),
    "delete-run-keys": (
        (r"only the rendezvous key", "all keys of the run go, those of its store first"),
        (r"of running jobs|while workers live|'stale' keys", "keys are deleted only where everything that holds the run is proven dead"),
    ),
    "finish-deletion": ((r"while the program that deletes it still runs", "it is planned only where no process has any of it open"),),
    "free-engine-space": ((r"for it$", NEVER_DIRECTLY),),
    "mark-worker-row": ((r"on a guess", "a row is set only to what the provider or the worker itself says"),),
    "normalise-key": (SAME_KEY,),
    "normalise-secret": (SAME_KEY,),
    "probe-rendezvous": ((r"before these keys are gone", "it is the step after the one that deletes them"),),
    "prune-checkpoints": (
        (PRUNED, "only old, whole ones go, of a full tier; another tier has each, and those that must stay are proven again"),
    ),
    "put-back-checkpoint": ((r"^rename", "only what a deletion renamed, with nothing of it gone, gets its own name back"),),
    "quarantine-checkpoint": ((r"^rename", "it renames aside, never to a name that a loader takes"),),
    "quarantine-node": ((r"^drain", NEVER_DIRECTLY),),
    "remount-fuse": ((r"while others on the node still use", "only a mount whose own process is gone is unmounted: nobody can use it"),),
    "remove-known-host": ((r"^delete known_hosts", "one line becomes a comment, and only where the fleet file names the new key"),),
    "remove-kept-container": (
        (r"still runs|or its volumes", "only one that was set aside and does not run is removed, and its volumes stay"),
    ),
    "repoint-latest": ((r"^fall back", "the pointer is set to the newest step that is whole, and stays while a newer one may be whole"),),
    "reset-gpu": (
        (r"\b(?:while|before|because of|shared|alone)\b", "a reset is planned only while no process is on any GPU of the node"),
        (r"\bfor (?:it|one)\b|\bone such\b", NEVER_DIRECTLY),
    ),
    "reset-node-jobs": (
        (r"while a process still runs|before progress", "the count is reset only where no live process of a job was found"),
        (r"not the leader", "only the leader itself is asked"),
    ),
    "restart-container": ((r"while a process in it still works", "it is withheld beside whoever is at work in it (test_together.py)"),),
    "restart-job": ((r"a second (?:job|one)", "a job is started only where none of its processes is left"),),
    "restore-archived": ((r"without asking what it costs", "one object is asked for, in the usual way, and the plan names the price"),),
    "restore-run-keys": (
        (r"over a run that started", "nothing is put back over keys that are there"),
        (r"single keys", "all keys of the run are put back"),
        (r"to start the job", "only a person who names the file has it put back"),
    ),
    "start-container": ((r"what was stopped on purpose", "whether somebody stopped it is read, and that cause forbids it"),),
    "start-etcd": ((r"empty data folder|over the old data", "it is started by the fleet file's command, with the data it had"),),
    "start-worker": (WATCHED,),
    "start-worker-unverified": (WATCHED,),
    "stop-pod": (OTHER_HOST, WORDS_READ),
    "terminate-pod": (
        OTHER_HOST,
        WORDS_READ,
        (r"before (?:its|its local|local) (?:disk|data) is", "the plan names the disks that are lost, and a person must allow it"),
    ),
    "terminate-processes": (
        (r"\bdefunct\b", "one that is dead already is never in what is ended"),
        (r"what a debugger or a scheduler holds", "what they hold is benign, and that cause forbids it"),
        (r"what (?:listens|uses)|whatever|what is visible|the dashboard's|the first runner|because it holds", PROVEN_OVER_TIME),
        (r"\bon one\b|as hung|for (?:it|this number|this)$", PROVEN_OVER_TIME),
        (r"\balone$", "what belongs together is ended together or not at all (test_together.py)"),
        (r"before asking who stopped", "letting it go on stands first, unless its next run has its place"),
    ),
}


def orders(sentence: str) -> list[str]:
    """Each order that a prohibition names, without its reason: "stop or resubmit a job: why" -> "stop a job", "resubmit a job"."""
    order = re.sub(r"^(?:do not|don't|never) ", "", re.split(r": | \(|\. ", sentence.lower())[0])
    parts = re.split(rf",? (?:or|and)(?: do not)? (?=(?:{VERBS})\b)", order)
    for i in range(len(parts) - 2, -1, -1):
        if " " not in parts[i]:
            parts[i] = f"{parts[i]} {parts[i + 1].partition(' ')[2]}"
    return parts


Used = set[tuple[str, str]]


def named(slug: str, sentence: str, used: Used) -> set[str]:
    """Action kinds that do what the sentence forbids, as that runbook means it. `used`: the rows that took one away."""
    own, kinds = load_runbook(slug).actions if slug in runbook_slugs() else (), set()
    for order in orders(sentence):
        if manner := next((m for m in NO_STEP_DOES_SO if re.search(m, order)), ""):
            used.add(("", manner))
            continue
        for kind, (anywhere, its) in ORDERS.items():
            if re.match(anywhere, order) or ((kind in own or slug in ITS.get(kind, ())) and re.match(its, order)):
                kept = {(kind, words) for words, _ in KEEPS.get(kind, ()) if re.search(words, order)}
                used |= kept
                kinds |= set() if kept else {kind}
    return kinds
