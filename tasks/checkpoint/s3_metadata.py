"""Reads how the instance's metadata service answers, where S3 credentials are looked for last: to the engine, to the node,
and inside the containers of the node's jobs. Changes nothing."""

import os

from pydantic import ValidationError

from runbooks.checkpoint.evidence import InstanceRole
from runbooks.core.checkpoints import Checkpoints, TierKind
from runbooks.core.reading import Absent, Known, Reading, Unknown, UnknownReason
from tasks.checkpoint.probes.instance_role import OFF, SERVICE, ask
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.remote.probe import redact, run_probe, source, unknown
from tasks.transport.base import TransportError

COMMAND = "curl -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' http://169.254.169.254/latest/api/token, in each network of a job"
MOST = 4  # containers that are asked


def read_metadata() -> InstanceRole:
    """How it answers to the engine, whose variables may name another place or switch it off."""
    if os.environ.get(OFF, "").lower() == "true":
        return InstanceRole(off=True)
    return InstanceRole(**ask(os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or SERVICE))


@diagnostic("instance roles · {context.target}")
def read_instance_roles(context: Context, config: Checkpoints) -> Reading[tuple[InstanceRole, ...]]:
    """How it answers on the node, and in each network of its own in which one of the node's jobs runs."""
    if not any(t.kind is TierKind.S3 for t in config.tiers):
        return Absent(proof="no tier is an object store")
    jobs = [{"name": j.name, "match": j.match} for j in context.fleet.jobs_on(context.node.name)]
    try:
        got = run_probe(context.host, "instance_role", {"jobs": jobs, "most": MOST}, timeout_s=60)
        looks = tuple(InstanceRole(**{**x, "command": redact(context, x["command"]), "places": tuple(x["places"])}) for x in got["looks"])
    except TransportError as e:
        return unknown(context, e, COMMAND)
    except (ValidationError, KeyError) as e:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=str(e)[:300], source=source(context, COMMAND))
    at = source(context, COMMAND, "\n".join(str(x) for x in got["looks"]))
    if got["denied"]:
        return Unknown(reason=UnknownReason.DENIED, detail=f"the network or environment of pid {got['denied'][0]} may not be looked at",
            source=at)
    if got["left_out"]:
        detail = f"{got['left_out']} more networks of jobs than the {MOST} that are asked"
        return Unknown(reason=UnknownReason.FAILED, detail=detail, source=at)
    return Known[tuple[InstanceRole, ...]](value=looks, source=at)
