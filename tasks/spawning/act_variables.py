"""Sets the orchestrator's missing private key on its platform, from this machine's own. The value is never shown."""

from runbooks.core.args.workers import SetVariable
from runbooks.core.refusal import RefusalCode
from runbooks.parsers.ssh_key import describe_key_text
from tasks.arguments import takes
from tasks.clients.asked import orchestrator_of
from tasks.context import ActionRefused, ActionResult, Context
from tasks.credentials import credential
from tasks.remote.unseen import UNSEEN
from tasks.spawning.railway import describe_variables, platform_of, sealed_of
from tasks.transport.base import TransportError


@takes(SetVariable)
def set_railway_variable(a: SetVariable, context: Context) -> ActionResult:
    """Set one variable that holds no usable private key; the platform deploys again.

    Refused when it is set meanwhile, or this machine's key is not the one that was judged, or not of the pair there."""
    config = orchestrator_of(context)
    value = credential(config.ssh.key_env)
    if a.name != config.ssh.key_env or describe_key_text(value).fingerprint != a.fingerprint:
        raise ActionRefused(RefusalCode.CONFIG, f"this machine's {config.ssh.key_env} is not the key {a.fingerprint}")
    client = platform_of(context)
    try:
        try:
            hidden = sealed_of(client)
            seen = describe_variables(client.variables(), config, hidden)  # read last: what is compared
        except TransportError as e:
            raise ActionRefused(RefusalCode.CANNOT_CHECK, f"the variables could not be read again: {e}") from None
        if not seen.sealed_known:
            raise ActionRefused(RefusalCode.CANNOT_CHECK, f"whether {a.name} is a sealed variable could not be read")
        if not seen.private_fault:
            raise ActionRefused(RefusalCode.WOULD_OVERWRITE, f"{a.name} holds a private key by now")
        if seen.public_fingerprint != a.fingerprint:
            raise ActionRefused(
                RefusalCode.TARGET_CHANGED, f"the public half there is {seen.public_fingerprint or 'not set'}, not {a.fingerprint}"
            )
        client.set_variable(a.name, value)
    finally:
        client.close()
    return ActionResult(said=(f"{a.name} is set to the private half of {a.fingerprint}; a deployment follows", UNSEEN))
