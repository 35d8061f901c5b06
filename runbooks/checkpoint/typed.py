"""Commands that a person types for copying a checkpoint and for pointing `latest` elsewhere."""

from shlex import quote

from runbooks.checkpoint.copies import Copy, aws, command
from runbooks.checkpoint.evidence import Pointer, TierFacts
from runbooks.core.by_hand import if_text
from runbooks.core.checkpoints import Checkpoints, Tier, TierKind


def split(where: str) -> tuple[str, str]:
    """Bucket and key of an s3:// address."""
    bucket, _, key = where.removeprefix("s3://").partition("/")
    return bucket, key


def copying(config: Checkpoints, source: Copy, look: TierFacts) -> tuple[str, ...]:
    """The bytes under a passing name, compared, then given their name where nothing has it."""
    target = f"{look.where.rstrip('/')}/{source.candidate.name}"
    arriving = f"{target}.incoming-by-hand.tmp"
    many = ("--recursive",) if source.candidate.folder else ()
    if look.kind == TierKind.S3 and many:
        return (command(*aws(config.tier(look.tier), "s3", "cp"), *many, source.where, target),)
    if look.kind == TierKind.S3:
        bucket, key = split(target)
        where = ("--bucket", bucket, "--key", key, "--body", source.where)
        return (command(*aws(config.tier(look.tier), "s3api", "put-object"), *where, "--if-none-match", "*"),)
    publish = command("mv", "-nT", arriving, target)
    if source.look.kind == TierKind.S3:
        fetch = command(*aws(config.tier(source.look.tier), "s3", "cp"), *many, source.where, arriving)
        return (f"{fetch} && {publish}",)
    same = command("diff", "-r", source.where, arriving)
    return (command("cp", "-a", source.where, arriving), f"{same} && {publish}")


def pointing(look: TierFacts, tier: Tier, old: Pointer, text: str) -> tuple[str, ...]:
    """The new text, where the old one still stands there."""
    place = f"{look.where.rstrip('/')}/{tier.latest}"
    if look.kind == TierKind.S3:
        bucket, key = split(place)
        what = ("--bucket", bucket, "--key", key, "--body", "latest.new", "--if-match", old.identity)
        put = command(*aws(tier, "s3api", "put-object"), *what)
        return (f"{command('printf', '%s', text)} > latest.new", put)
    write = f"{command('printf', '%s', text)} > {quote(place)}.new && {command('mv', '-T', f'{place}.new', place)}"
    return (if_text(place, old.text, write),)
