"""Tries the object stores that this machine asks: checkpoint tiers, and where reports are copied to. Lists one key; writes nothing."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import urlparse

from runbooks.checkpoint.store import CODES
from runbooks.core.checkpoints import Checkpoints, Tier, TierKind
from runbooks.core.knowledge import load_runbook
from runbooks.core.nightly import SystemCheck
from tasks.systems.trying import Try, check_of

Client = Callable[[], Any]


def try_tiers(config: Checkpoints) -> Iterator[Try]:
    """One for each tier of kind s3."""
    for tier in config.tiers:
        if tier.kind is TierKind.S3:
            name, prefix = f"checkpoint tier {tier.name}", tier.prefix.strip("/")
            ask = partial(_listed, name, "bucket of the tier", partial(_tier_client, tier), tier.bucket, prefix)
            yield Try(name, f"s3://{tier.bucket}/{prefix}", ask, f"see that {tier.endpoint or 'the store'} answers from this machine")


def try_reports(address: str) -> Try:
    """Where reports are copied to. That one may be put there is not tried: it would have to be."""
    place = urlparse(address)
    ask = partial(_listed, "reports.s3", "reports.s3", _report_client, place.netloc, place.path.strip("/"), only_written=True)
    return Try("reports.s3", address, ask, "see that the store answers from this machine")


def _tier_client(tier: Tier) -> Any:
    from tasks.checkpoint.s3_store import S3Tier

    return S3Tier(tier, read_s=10, tries=1).client


def _report_client() -> Any:
    from tasks.report_s3 import report_client

    return report_client(retries=0)


def _listed(name: str, field: str, client: Client, bucket: str, prefix: str, only_written: bool = False) -> Iterator[SystemCheck]:
    """`only_written`: nothing is ever read there, so one who may write there and not list is well."""
    from tasks.checkpoint.s3_store import code_of

    where = f"s3://{bucket}/{prefix}"
    try:
        client().list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
    except Exception as e:  # the client also raises what is neither of its own kinds
        code, status, message = code_of(e)
        says = f"{where}: {code}: {message}"
        if only_written and status == 403 and code not in CODES:
            untried = f"{says}; whether reports may be written there is not tried"
            yield check_of(name, "note", untried, f"s3:PutObject below {where} is enough")
            return
        slug = CODES.get(code) or ("s3-permission" if status == 403 else "s3-unreachable")
        yield check_of(name, "FAULT", says, _fix(slug, field), silent=status == 0 and slug == "s3-unreachable")
        return
    yield check_of(name, "ok", f"{where} can be listed")


def _fix(slug: str, field: str) -> str:
    if slug == "s3-no-bucket":
        return f"correct {field} in the fleet file, or have its owner create the bucket"
    if slug == "s3-unreachable":
        return "see that the store's endpoint is right and answers from this machine"
    return load_runbook("checkpoint-fallback").causes[slug].remedy
