"""Causes that lie in the object store: what its answers mean. A 403 has at least five meanings."""

from collections.abc import Iterator

from runbooks.checkpoint.evidence import Evidence, Store, TierFacts
from runbooks.checkpoint.instance_role import answered, engine_cause, kept_out, node_causes
from runbooks.checkpoint.limits import Limits
from runbooks.checkpoint.places import CauseMaker
from runbooks.core.reading import Known
from runbooks.core.verdict import Cause, Certainty

CODES = {
    "NoCredentials": "s3-no-credentials", "PartialCredentials": "s3-no-credentials", "TokenRetrieval": "s3-expired",
    "ExpiredToken": "s3-expired", "ExpiredTokenException": "s3-expired", "TokenRefreshRequired": "s3-expired",
    "RequestTimeTooSkewed": "s3-clock-skew", "InvalidAccessKeyId": "s3-wrong-credentials",
    "SignatureDoesNotMatch": "s3-wrong-credentials", "InvalidToken": "s3-wrong-credentials",
    "NoSuchBucket": "s3-no-bucket", "PermanentRedirect": "s3-wrong-region",
    "AuthorizationHeaderMalformed": "s3-wrong-region",
    "IllegalLocationConstraintException": "s3-wrong-region", "SlowDown": "s3-throttled",
    "ErrTooManyRequest": "s3-throttled",
    "503": "s3-throttled", "ServiceUnavailable": "s3-throttled", "Throttling": "s3-throttled",
    "RequestLimitExceeded": "s3-throttled",
    "TooManyRequests": "s3-throttled", "InvalidObjectState": "archived", "InternalError": "s3-unreachable",
}  # fmt: skip


def store_causes(evidence: Evidence, limits: Limits) -> tuple[Cause, ...]:
    """What is wrong with the store, or with how it is asked."""
    out: list[Cause] = []
    for look in evidence.tiers:
        if isinstance(look.store, Known):
            out.extend(_store(evidence, look, look.store.value, limits))
        out.extend(_uploads(look, limits))
    return tuple(out)


def _store(evidence: Evidence, look: TierFacts, s: Store, limits: Limits) -> Iterator[Cause]:
    def cause(slug: str, certainty: Certainty, *words: str, decides: tuple[str, ...] = ()) -> Cause:
        return Cause(slug=slug, certainty=certainty, subject=look.where, evidence=words, decides=decides)

    said = f"listing {look.where} was answered by {s.list_code} ({s.list_status or 'no answer'}) {s.message}".strip()
    yes = Certainty.CONFIRMED
    if s.skew_s is not None and abs(s.skew_s) > limits.skew_s:
        sure = yes if s.list_code == "RequestTimeTooSkewed" else Certainty.LIKELY
        yield cause("s3-clock-skew", sure, f"the store's clock is {s.skew_s:+.0f} s from ours", said)
        return
    if s.list_code in ("AccessDenied", "403", "Forbidden", "AllAccessDisabled"):
        yield from _denied(s, said, cause)
        return
    if s.list_code != "ok":
        slug = CODES.get(s.list_code, "s3-unreachable")
        role = s.instance_role
        if slug == "s3-no-credentials" and role and kept_out(role):
            yield engine_cause(role, look.where, (said, *s.looked_in))
            return
        asked = (f"instance metadata: {answered(role)}",) if role else ()
        places = (*s.looked_in, *asked) if slug in ("s3-no-credentials", "s3-wrong-credentials", "s3-expired") else ()
        region = (f"the store names region {s.region_says}",) if s.region_says and slug == "s3-wrong-region" else ()
        yield cause(
            slug, yes if slug != "s3-unreachable" or not s.reached else Certainty.LIKELY, said, *places, *region
        )
        return
    if s.get_code not in ("", "ok"):
        slug = CODES.get(s.get_code, "s3-permission")
        words = f"objects are listed, reading one is answered by {s.get_code}: s3:GetObject is what is missing"
        yield cause(slug, yes, words if slug == "s3-permission" else f"reading an object: {s.get_code}")
    yield from node_causes(evidence, look.where)


def _denied(s: Store, said: str, cause: CauseMaker) -> Iterator[Cause]:
    if s.head_code == "ok" or s.get_code == "ok":
        words = "a known key can be read with the same credentials: a 403 for another key means that it is not there"
        yield cause(
            "s3-403-missing-key", Certainty.CONFIRMED, said, words, "s3:ListBucket on the bucket itself is missing"
        )
        return
    decides = (
        "read a key that surely exists: if that works, only s3:ListBucket is missing and a 403 means 'not there'",
    )
    words = f"HEAD of the pointer is answered by {s.head_code or 'nothing'}"
    yield cause("s3-permission", Certainty.LIKELY, said, words, decides=decides)
    yield cause("s3-403-missing-key", Certainty.POSSIBLE, said, decides=decides)


def _uploads(look: TierFacts, limits: Limits) -> Iterator[Cause]:
    if not isinstance(look.uploads, Known):
        return
    for u in look.uploads.value:
        newest = u.newest_part_s_ago if u.newest_part_s_ago is not None else u.begun_s_ago
        old = newest > limits.upload_age_s
        words = (
            f"{u.key}: started {u.begun_s_ago:.0f} s ago, {u.parts} parts, {u.bytes} bytes, newest part "
            f"{newest:.0f} s ago"
        )
        sure = Certainty.CONFIRMED if old else Certainty.POSSIBLE
        decides = () if old else ("whether its newest part gets older without a new one",)
        yield Cause(
            slug="s3-incomplete-multipart", certainty=sure, subject=look.where, evidence=(words,), decides=decides
        )
