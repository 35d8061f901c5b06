"""Causes in which the checkpoint is fine and the loader is not: read from the job's log and the chosen checkpoint."""

from collections.abc import Iterator

from runbooks.checkpoint.choose import CheckpointChoice
from runbooks.checkpoint.evidence import Candidate, Evidence
from runbooks.core.checkpoints import Checkpoints
from runbooks.core.reading import Known
from runbooks.core.sizes import size as sized
from runbooks.core.verdict import Cause, Certainty
from runbooks.parsers.loader_log import key_prefix, missing_code, missing_setting, refused_global, save_seconds
from runbooks.triage.text import meanings

SAYS = {
    "loader-weights-only": ("checkpoint-fallback/loader-weights-only", "checkpoint/weights-only-unclear"),
    "loader-prefix": ("checkpoint-fallback/loader-prefix",),
    "loader-model-changed": ("checkpoint-fallback/loader-model-changed", "checkpoint/model-differs"),
    "loader-optimizer-changed": ("checkpoint-fallback/loader-optimizer-changed",),
    "loader-torch-version": ("checkpoint-fallback/loader-torch-version",),
    "loader-world-size": ("checkpoint-fallback/loader-world-size",),
}  # what a log says of a loader, by the names of the knowledge base; the file itself is known to be whole here
NEW_DEFAULT = (2, 6)  # torch.load's weights_only became True


def loader_causes(evidence: Evidence, config: Checkpoints, choice: CheckpointChoice) -> tuple[Cause, ...]:
    """Loader faults; only said of a checkpoint that itself is whole."""
    out: list[Cause] = []
    if choice.best is not None:
        c = choice.best.candidate
        out.extend(_weights_only(evidence, c, choice.best.where))
        out.extend(_prefix(evidence, c, choice.best.where) or _class_of(evidence, c, choice.best.where))
        out.extend(_limit(c, choice.best.where))
        out.extend(_groups(evidence, c, choice.best.where) or _optimizer(evidence, c, choice.best.where))
        out.extend(_world(evidence, config, c, choice.best.where))
        out.extend(_too_new(evidence, choice.best.where))
        out.extend(_load(evidence, choice.best.where))
    out.extend(_slow(evidence, config))
    return tuple(out)


def _log(evidence: Evidence) -> str:
    return evidence.log.value if isinstance(evidence.log, Known) else ""


def _refuses_types(text: str) -> bool:
    return "loader-weights-only" in meanings(text, SAYS)


def _too_old(text: str) -> str:
    """The line that says that the library is older than the file."""
    found = meanings(text, SAYS).get("loader-torch-version")
    return found.evidence[0].text if found else ""


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.partition("+")[0].split(".")[:2] if n.isdecimal())


def _weights_only(evidence: Evidence, c: Candidate, where: str) -> Iterator[Cause]:
    log = _log(evidence)
    torch = evidence.torch.value if isinstance(evidence.torch, Known) else ""
    refused = c.refused_globals
    if _refuses_types(log):
        words = [f"the log says that the loader refuses {refused_global(log) or 'a global'}", f"{where} is whole"]
        if refused:
            words.append(f"it names {', '.join(refused[:5])}, which weights_only does not take by itself")
        asked = () < _version(torch) < NEW_DEFAULT
        if torch:
            words.append(f"torch {torch} is installed; the default changed in 2.6")
        sure = Certainty.CONFIRMED if refused and not asked else Certainty.LIKELY
        decides = ("whether the training code asks for weights_only itself: this torch does not by default",) if asked else ()
        yield _cause("loader-weights-only", sure, where, words, decides)
    elif refused and torch and _version(torch) >= NEW_DEFAULT and not _refuses_types(_error(evidence)):
        words = [f"torch {torch} loads with weights_only by default and will refuse {', '.join(refused[:5])}"]
        yield _cause(
            "loader-weights-only", Certainty.POSSIBLE, where, words, ("how the training code calls torch.load",)
        )
    if c.unsafe_globals:
        words = [f"loading it without weights_only would call {', '.join(c.unsafe_globals[:5])}"]
        yield _cause("runs-code", Certainty.CONFIRMED, where, words)


def _prefix(evidence: Evidence, c: Candidate, where: str) -> tuple[Cause, ...]:
    log = _log(evidence)
    said = meanings(log, SAYS)
    found = said.get("loader-prefix") or said.get("loader-model-changed")
    if found is None:
        return ()
    line = f"the log says: {found.evidence[0].text}"
    prefix = c.prefix or key_prefix(log)
    if prefix:
        words = [line, f"the names differ by the prefix `{prefix}`"]
        return (_cause("loader-prefix", Certainty.CONFIRMED if c.prefix else Certainty.LIKELY, where, words),)
    words = [line, "no prefix of the names explains it"]
    return (_cause("loader-model-changed", Certainty.LIKELY, where, words, ("the model's code at the commit of the save",)),)


def _class_of(evidence: Evidence, c: Candidate, where: str) -> tuple[Cause, ...]:
    """The file holds an object of a class of the program's own, and the log says that just this class cannot be imported."""
    lacks = missing_code(_log(evidence))
    named = (*c.refused_globals, *c.unsafe_globals)
    mine = [n for n in named if lacks and (n == lacks or n.startswith(f"{lacks}."))]
    if not mine:
        return ()
    words = [f"the log says that there is no {lacks}", f"{where} holds an object of {mine[0]}, which needs that code", f"{where} is whole"]
    return (_cause("loader-model-changed", Certainty.LIKELY, where, words, (f"whether {lacks} can be imported where it is loaded",)),)


def _limit(c: Candidate, where: str) -> Iterator[Cause]:
    """The file is whole by its own sizes, and a usual loader refuses it."""
    if c.loader_limits:
        words = [*c.loader_limits[:3], f"{where} is whole by its sizes: header and tensors fill its {sized(c.size)}"]
        yield _cause("loader-limit", Certainty.CONFIRMED, where, words)


def _groups(evidence: Evidence, c: Candidate, where: str) -> tuple[Cause, ...]:
    """An optimizer misses a setting of a parameter group after the load: lost on the way, or never saved."""
    key = missing_setting(_log(evidence))
    if not key:
        return ()
    lack = [g for g in c.groups if key not in g.settings]
    words = [f"the log says that a parameter group has no `{key}` when the optimizer steps", f"{where} is whole"]
    ask = ("optimizer.param_groups right after the load: which of them lacks it",)
    if lack and (any(g.params > 0 for g in lack) or len(lack) == len(c.groups)):
        found = next((g for g in lack if g.params > 0), lack[0])
        words.append(f"its own group {found.name} has {', '.join(found.settings[:8]) or 'no setting'}, and no `{key}`")
        return (_cause("loader-optimizer-changed", Certainty.CONFIRMED, where, words),)
    empty = [g for g in c.groups if g.params == 0]
    if empty or lack:
        words.append(f"its group {(empty or lack)[0].name} has no parameter: a loader that keeps settings by parameter drops them")
        return (_cause("loader-param-group", Certainty.CONFIRMED, where, words),)
    told = f"its {len(c.groups)} groups all have `{key}`: it was lost while loading" if c.groups else "its groups were not read"
    return (_cause("loader-param-group", Certainty.LIKELY, where, [*words, told], ask),)


def _optimizer(evidence: Evidence, c: Candidate, where: str) -> tuple[Cause, ...]:
    """The optimizer refuses the saved state: it was built otherwise at the save. The log does not say how its own groups are."""
    found = meanings(_log(evidence), SAYS).get("loader-optimizer-changed")
    if found is None:
        return ()
    sizes = ", ".join(str(g.params) for g in c.groups[:8])
    words = [f"the log says: {found.evidence[0].text}", f"{where} is whole"]
    words += [f"parameter groups saved in it: {len(c.groups)}, of {sizes} parameters"] if c.groups else []
    ask = ("the groups of the optimizer that loads it: how many, and how many parameters in each", "code, torch and libraries at the save")
    return (_cause("loader-optimizer-changed", Certainty.LIKELY, where, words, ask),)


def _world(evidence: Evidence, config: Checkpoints, c: Candidate, where: str) -> Iterator[Cause]:
    said = meanings(_log(evidence), SAYS).get("loader-world-size")
    if said is not None:
        words = [f"the log says: {said.evidence[0].text}", f"{where} is whole"]
        yield _cause("loader-world-size", Certainty.LIKELY, where, words, ("the parallel sizes of the run that saved it, and of this one",))
        return
    wrote = c.scalars.get("world_size")
    if isinstance(wrote, int) and config.world_size and wrote != config.world_size and c.format == "sharded":
        words = [f"written by {wrote} ranks, the job runs with {config.world_size}"]
        yield _cause("loader-world-size", Certainty.LIKELY, where, words, ("whether the loader can re-shard",))


def _too_new(evidence: Evidence, where: str) -> Iterator[Cause]:
    """The log or the load says that the library is older than the file."""
    found = _too_old(_log(evidence)) or _too_old(_error(evidence))
    if found:
        torch = evidence.torch.value if isinstance(evidence.torch, Known) else "an unknown version"
        words = [f"the loader says: {found}", f"{where} is whole; torch {torch} is installed on the node"]
        yield _cause("loader-torch-version", Certainty.CONFIRMED, where, words)


def _error(evidence: Evidence) -> str:
    return evidence.load.value.error if isinstance(evidence.load, Known) else ""


def _load(evidence: Evidence, where: str) -> Iterator[Cause]:
    """The last proof did not work; refusals by type or version are told by their own causes."""
    said = _error(evidence)
    if said and _refuses_types(said) and not _refuses_types(_log(evidence)):
        words = [f"torch refuses it in the sandbox: {said[:200]}", f"{where} is whole"]
        yield _cause("loader-weights-only", Certainty.CONFIRMED, where, words)
    elif said and not _too_old(said):
        decides = ("the same load by hand, with the job's own torch and more memory or time",)
        yield _cause("load-failed", Certainty.LIKELY, where, [f"the load in the sandbox: {said[:300]}"], decides)


def _slow(evidence: Evidence, config: Checkpoints) -> Iterator[Cause]:
    took = save_seconds(_log(evidence))
    if took and config.interval_steps and config.step_seconds:
        every = config.interval_steps * config.step_seconds
        if max(took[-5:]) > every:
            words = [f"a save takes {max(took[-5:]):.0f} s, one is due every {every:.0f} s"]
            yield _cause("save-too-slow", Certainty.CONFIRMED, evidence.node, words)


def _cause(slug: str, certainty: Certainty, subject: str, words: list[str], decides: tuple[str, ...] = ()) -> Cause:
    return Cause(slug=slug, certainty=certainty, subject=subject, evidence=tuple(words), decides=decides)
