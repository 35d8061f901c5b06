"""What a bundle takes from a machine: bounded, told apart where it fails, and never a secret."""

import json
from collections.abc import Sequence

from runbooks.core.reading import UnknownReason
from runbooks.core.redact import Redactor
from runbooks.triage.windows import windows
from tasks.remote.support_bundle import Collector, Piece, without_cut_key
from tasks.transport.base import CommandResult, TransportError

CANARY = "c4n4ryV4lu3Th4tM4yN3v3rSh0w"
TOKENS = (
    f"hf_{CANARY}Abcdefgh", f"ghp_{CANARY}012345678", "AKIAIOSFODNN7EXAMPLE", f"sk-proj-{CANARY}{CANARY}",
)  # fmt: skip
LEAKS = {
    ("ps",): f"7 1 root S Mon python train.py --api-key {CANARY} --hf-token={CANARY} redis://u:{CANARY}@r:6379/0",
    ("dmesg",): f"app[7]: export WANDB_API_KEY={CANARY}\napp[7]: Authorization: Bearer {CANARY}\n" + "\n".join(TOKENS),
    ("journalctl",): f"curl -u admin:{CANARY} https://user:{CANARY}@host/x?X-Amz-Signature={CANARY}",
    ("cat", "/etc/docker/daemon.json"): json.dumps(
        {"registry-auths": {"password": CANARY}, "env": [f"A_TOKEN={CANARY}"]}
    ),
    ("docker", "inspect"): json.dumps(
        [
            {
                "Config": {"Env": [f"RUNPOD_API_KEY={CANARY}", f"DB_PASSWORD={CANARY}", "NCCL_DEBUG=INFO"]},
                "Args": ["--password", CANARY, f"--secret-key={CANARY}"],
            }
        ]
    ),
    ("docker", "ps", "-a", "-n", "12"): "0123456789ab trainer\n",
    ("sh", "-c"): f"starting with AWS_SECRET_ACCESS_KEY={CANARY}\nRuntimeError: can't start new thread\n",
    ("nvidia-smi", "--query-compute-apps=pid,gpu_uuid,used_memory,name"): "4242, GPU-1, 10 MiB, python\n",
    ("cat", "/proc/4242/environ"): f"MY_HARMLESS_NAME={CANARY}\0NCCL_SOCKET_IFNAME=eth0\0PGPASSWORD={CANARY}\0",
    (
        "tail",
    ): f"-----BEGIN OPENSSH PRIVATE KEY-----\n{CANARY}\n-----END OPENSSH PRIVATE KEY-----\npassword: {CANARY}\n",
}


class Machine:
    """Answers from a table, and counts what it was asked."""

    name, notes = "m", ()

    def __init__(self, fails: TransportError | None = None) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.fails = fails

    def run(
        self, argv: Sequence[str], *, stdin: str | None = None, timeout_s: float = 20.0, limit_bytes: int = 1 << 20
    ) -> CommandResult:
        self.asked.append(tuple(argv))
        if self.fails:
            raise self.fails
        said = next((t for k, t in LEAKS.items() if tuple(argv)[: len(k)] == k), "fine\n")
        return CommandResult(command=" ".join(argv), exit=0, out=said, err="", seconds=0.1)

    def close(self) -> None:
        """Nothing to close."""


def collect(machine: Machine, seconds: float = 100.0) -> dict[str, Piece]:
    pieces = Collector(machine, Redactor(b"k" * 32), seconds, lambda: 0.0).collect((f"/var/log/{CANARY[:4]}.log",))
    return {p.name: p for p in pieces}


def test_planted_secrets_never_show_and_what_matters_does() -> None:
    found = collect(Machine())
    shown = json.dumps([p.model_dump() for p in found.values()])
    assert CANARY not in shown
    assert not [t for t in TOKENS if t in shown]
    assert "can't start new thread" in found["containers/trainer/log.txt"].text
    assert "NCCL_DEBUG=INFO" in found["containers/trainer/inspect.json"].text
    job = found["configuration/environment-of-4242.txt"].text
    assert "NCCL_SOCKET_IFNAME=eth0" in job
    assert "MY_HARMLESS_NAME" in job  # the name is told, its value is nobody's business
    assert found["logs/named/1-var-log-c4n4.log"].text


def test_a_key_whose_first_line_was_cut_off_does_not_show() -> None:
    whole = "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----\n"
    assert (
        without_cut_key(f"bm9wZQ\n{CANARY}\n-----END OPENSSH PRIVATE KEY-----\nlog")
        == "[the rest of a key was left out]\n\nlog"
    )
    assert without_cut_key(whole) == whole
    cut = Redactor(b"k" * 32).text(f"log\n-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n{CANARY}")
    assert CANARY not in cut


def test_a_machine_that_goes_away_is_asked_once() -> None:
    machine = Machine(TransportError(UnknownReason.UNREACHABLE, "connection lost"))
    found = collect(machine)
    assert len(machine.asked) == 1
    assert all("connection lost" in p.problem for p in found.values())


def test_when_the_time_is_up_nothing_more_is_asked() -> None:
    machine = Machine()
    assert {p.problem for p in collect(machine, 0.5).values()} == {"not asked: the time was up"}
    assert not machine.asked


def test_long_logs_keep_ends_and_what_surrounds_known_lines() -> None:
    rows = [f"step {n} loss 2.{n}" for n in range(40_000)]
    rows[20_000] = "RuntimeError: can't start new thread"
    short = windows("\n".join(rows), 10_000)
    assert len(short) < 20_000
    for kept in ("step 0 ", "step 39999 ", "can't start new thread", "step 19990 ", "lines left out"):
        assert kept in short
    assert windows("a\nb", 10) == "a\nb"
