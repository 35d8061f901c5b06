"""Puts a saved run back, only where no other key of that run id exists, with what is left of its time to live."""

from pathlib import Path

from runbooks.core.args.rendezvous import RestoreRunKeys
from runbooks.core.refusal import RefusalCode
from runbooks.core.rendezvous_config import find_named
from runbooks.rendezvous.saved import LARGEST, BadSave, age_of, others, puts_for, shown, work_s
from tasks.arguments import takes
from tasks.context import ActionRefused, ActionResult, Context
from tasks.remote.changing import change
from tasks.rendezvous.etcd import read_runs
from tasks.rendezvous.saved import read_saved, refusal


class HalfWritten(Exception):
    """Some keys were written and then it stopped. The same file may be put back again."""


@takes(RestoreRunKeys)
def restore_run_keys(args: RestoreRunKeys, context: Context) -> ActionResult:
    """Writes the keys of the saved file in `args` to etcd. Raises ActionRefused when the run has keys that are not the
    saved ones, when all have expired, or when the file is another one now."""
    place = find_named(context.fleet.rendezvous, args.rendezvous)
    if place is None:
        raise ActionRefused(RefusalCode.CONFIG, f"the fleet file has no rendezvous {args.rendezvous!r} any more")
    try:
        saved, digest = read_saved(Path(args.file))
    except BadSave as e:
        raise ActionRefused(RefusalCode.CANNOT_CHECK, str(e)) from e
    if digest != args.digest:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"{args.file} is another file than the one that was looked at")
    host = context.open_host(context.fleet.node(place.asks))
    puts = puts_for(saved, age_of(saved, context.now()))
    no = refusal(saved, place, len(puts), others(saved, read_runs(host, place)))
    if no:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, no)
    ask = place.access | {"puts": puts}
    answer = change(context, host, "rdzv_restore", ask, work_s(len(puts)), limit_bytes=LARGEST)
    said = shown(answer["done"])
    if answer["stopped"]:
        wrote = any(result == "written" for _, result in answer["done"])
        why = "; ".join((answer["stopped"], *said))
        raise HalfWritten(why) if wrote else ActionRefused(RefusalCode.TARGET_CHANGED, why)
    lost = len(saved.keys) - len(puts)
    return ActionResult(said=(*said, *([f"{lost} keys had expired meanwhile and stay away"] if lost else [])))
