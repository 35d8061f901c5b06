"""Reads the newest lines of a worker's log on S3 without downloading the whole object. Changes nothing."""

from typing import Any

from runbooks.core.orchestrator_config import WorkerLogs
from runbooks.core.reading import Absent, Known, Source, Unknown, UnknownReason
from runbooks.core.worker_ids import is_plain
from tasks.clients.worker_log_store import log_client
from tasks.context import Context
from tasks.diagnostic import diagnostic

TAIL = 256 << 10


@diagnostic("stored log of {worker}")
def read_stored_log(
    context: Context, config: WorkerLogs | None, worker: str
) -> Known[tuple[str, ...]] | Absent | Unknown:
    """The last lines of the object's last 256 KiB."""
    if config is None:
        return Absent(proof="the fleet file names no place of worker logs")
    if not is_plain(worker):
        return Unknown(
            reason=UnknownReason.UNPARSABLE, detail="the worker's id is none that may stand in a key: its log is not read"
        )
    key = config.key.replace("{worker}", worker)
    source = Source(command=f"aws s3 cp s3://{config.bucket}/{key} - | tail", host="s3", taken_at=context.now())
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        got = log_client(config).get_object(Bucket=config.bucket, Key=key, Range=f"bytes=-{TAIL}")
        text = got["Body"].read().decode("utf-8", "replace")
    except ClientError as e:
        return _refused(e, source)
    except (BotoCoreError, OSError) as e:
        return Unknown(reason=UnknownReason.UNREACHABLE, detail=f"{type(e).__name__}: {e}"[:300], source=source)
    lines = context.redactor.text(text).splitlines()[-config.lines :]
    return Known(value=tuple(line[:500] for line in lines), source=source)


def _refused(error: Any, source: Source) -> Absent | Unknown:
    code = str(error.response.get("Error", {}).get("Code", ""))
    if code in ("NoSuchKey", "404"):
        return Absent(proof="there is no such log", source=source)
    if code == "InvalidRange":
        return Absent(proof="the log is empty", source=source)
    why = UnknownReason.DENIED if code in ("AccessDenied", "403", "InvalidAccessKeyId", "SignatureDoesNotMatch") else UnknownReason.FAILED
    return Unknown(reason=why, detail=code, source=source)
