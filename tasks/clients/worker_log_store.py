"""A client of the S3 store into which workers upload their logs. Reads alone use it."""

from typing import Any

from runbooks.core.orchestrator_config import WorkerLogs


def log_client(config: WorkerLogs) -> Any:
    """A client of the place of worker logs; one retry."""
    import boto3
    from botocore.config import Config

    session = boto3.session.Session(profile_name=config.profile)
    style = {"addressing_style": "path"} if config.endpoint else {}
    settings = Config(
        connect_timeout=5, read_timeout=20, retries={"total_max_attempts": 2}, s3=style,
        request_checksum_calculation="when_required", response_checksum_validation="when_required",
    )  # fmt: skip
    return session.client("s3", endpoint_url=config.endpoint, region_name=config.region or "us-east-1", config=settings)
