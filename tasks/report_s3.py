"""Copies a report to S3, beside the local files that stay the truth."""

from typing import Any
from urllib.parse import urlparse

from runbooks.core.names import slug
from runbooks.core.report import Report
from tasks.report_store import stem, to_json


def upload(where: str, report: Report, markdown: str) -> tuple[str, str]:
    """Puts JSON and Markdown below `where` (`s3://bucket/prefix`). Returns both keys. Raises what boto3 raises.

    Credentials, region and endpoint come from the environment as boto3 reads them (AWS_ENDPOINT_URL_S3 for others).
    """
    url, client = urlparse(where), report_client()
    base = "/".join(p for p in (url.path.strip("/"), slug(report.runbook), slug(report.target)) if p)
    name = f"{base}/{stem(report.started_at, report.id)}"
    client.put_object(
        Bucket=url.netloc, Key=f"{name}.json", Body=to_json(report).encode(), ContentType="application/json"
    )
    body = markdown.encode("utf-8", "replace")
    client.put_object(Bucket=url.netloc, Key=f"{name}.md", Body=body, ContentType="text/markdown; charset=utf-8")
    return f"{name}.json", f"{name}.md"


def report_client(retries: int = 3) -> Any:
    """The client by which reports are copied."""
    import boto3
    from botocore.config import Config

    return boto3.client("s3", config=Config(connect_timeout=5, read_timeout=20, retries={"max_attempts": retries, "mode": "standard"}))
