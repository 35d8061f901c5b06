"""container-death over SSH on a host with a real systemd: rebooted, its engine upgraded or stopped, a unit in charge."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.engine.actions import risks
from runbooks.container.diagnose import Limits, diagnose
from runbooks.core.containers_config import ManagedContainer
from runbooks.core.fleet import Fleet
from runbooks.core.knowledge import load_runbook
from runbooks.core.plan import Risk
from runbooks.core.verdict import Diagnosis, State
from tasks.container.act_engine import stop_unit
from tasks.container.read import gather_container_death
from tasks.context import ActionRefused, Context
from tasks.transport.open import HostPool
from tests.faults.real import RealWorld, outcome
from tests.support.engine_rig import Rig
from tests.support.printed import printed
from tests.support.systemd_host import SystemdHost, systemd_host
from tests.support.watch_room import KINDS
from tests.tasks.container.world import confirmed

pytestmark = pytest.mark.soak
QUICK = {"steady_s": 0.5, "young_life_s": 1}
ENGINE = ("docker", "-H", "unix:///run/docker.sock")
START = "docker run -d --pull=never --network=host --stop-timeout=1 --name %s bb:1 sleep infinity"
UNIT = (
    "[Service]\\nExecStart=/usr/bin/docker -H unix:///run/docker.sock start -a %s\\nRestart=always\\nRestartSec=30\\n"
)


@pytest.fixture(scope="module")
def host() -> Iterator[SystemdHost]:
    with systemd_host() as found:
        yield found


def box(name: str) -> ManagedContainer:
    return ManagedContainer(name=name, node="far", engine=ENGINE, socket="/run/docker.sock", daemon_pidfile="/run/docker.pid",
                            daemon_start=("systemctl", "start", "docker"), match="sleep infinity")  # fmt: skip


def judge(host: SystemdHost, name: str) -> Diagnosis:
    values = load_runbook("container-death").limit_values(QUICK)
    fleet, pool = Fleet(nodes=(host.sshd.node(user="root"),), containers=(box(name),)), HostPool()
    try:
        context = Context(fleet=fleet, target="far", open_host=pool, limits=values)
        return diagnose(gather_container_death(context), Limits(**values))
    finally:
        pool.close_all()


def world_of(host: SystemdHost, rig: Rig, folder: Path, name: str) -> RealWorld:
    fleet = {
        "nodes": [host.sshd.node(user="root").model_dump(mode="json", exclude_defaults=True)],
        "containers": [box(name).model_dump(mode="json", exclude_defaults=True)],
        "limits": {"container-death": QUICK},
    }
    return RealWorld(rig, folder, "container-death", "far", fleet, KINDS)


def test_rebooted_and_brought_back_by_the_engine(host: SystemdHost, rig: Rig, tmp_path: Path) -> None:
    host.run(START % "w1")
    host.run(START % "w0")
    host.run("docker stop w0")
    old, boot = host.run("docker inspect -f '{{.Id}}' w1"), host.run("cat /proc/sys/kernel/random/boot_id")
    host.reboot()
    assert host.run("cat /proc/sys/kernel/random/boot_id") != boot
    found = judge(host, "w1")
    assert confirmed(found) == ["host-rebooted"]
    assert "the shutdown began at" in str(found.causes[0].evidence)
    by_hand = judge(host, "w0")
    assert confirmed(by_hand) == []
    assert [(c.slug, c.certainty.value) for c in by_hand.causes if c.slug in ("host-rebooted", "stopped-on-purpose")] == [
        ("stopped-on-purpose", "possible"), ("host-rebooted", "ruled-out"),
    ], by_hand.causes  # fmt: skip
    assert by_hand.plans == ()
    assert "oom" not in str([c.slug for c in found.causes])
    world = world_of(host, rig, tmp_path, "w1")
    assert outcome(world.run("auto")) == "fixed"
    assert host.run("docker inspect -f '{{.State.Status}}' w1") == "running"
    assert host.run("docker inspect -f '{{.Id}}' w1") != old
    assert host.run("docker inspect -f '{{.HostConfig.RestartPolicy.Name}}' w1.dead-" + old[:12]) == "no"


def test_a_unit_in_charge_is_named_and_one_that_rests_is_told(host: SystemdHost, rig: Rig, tmp_path: Path) -> None:
    host.run(START % "u1")
    host.run(f"printf '{UNIT % 'u1'}' >/etc/systemd/system/u1.service; systemctl daemon-reload")
    host.run(
        "systemd-run --wait --unit=chronyd echo System clock was stepped by 3.2 seconds"
    )  # only the journal has it
    host.run("docker update --restart=unless-stopped u1; docker kill u1")
    rests = judge(host, "u1")
    said = " ".join(f.issue for f in rests.findings)
    assert "stepped by 3.2 seconds" in said
    assert "restart policy unless-stopped" in said
    assert confirmed(rests) == ["killed-through-engine"], rests.unknowns or (
        "a unit that neither runs nor starts at a boot restarts nothing"
    )
    assert rests.plans[-1].name == "recreate"
    host.run("systemctl start u1")
    host.wait("docker ps | grep -qw u1")
    stopped_by_a_person(host)
    host.run("printf '[Install]\\nWantedBy=host.target\\n' >>/etc/systemd/system/u1.service; systemctl enable u1")
    rests_until_the_boot(host, world_of(host, rig, tmp_path, "u1"))
    stopped_with_its_unit(host)
    started_by_a_timer(host)
    host.run("systemctl disable u1; rm /etc/systemd/system/u1.*; systemctl daemon-reload")


def rests_until_the_boot(host: SystemdHost, world: RealWorld) -> None:
    """It finds the container by its name at the boot: the recreated one, and never the one that was set aside."""
    found, old = judge(host, "u1"), host.run("docker inspect -f '{{.Id}}' u1")
    assert confirmed(found) == ["killed-through-engine"]
    assert any("UnitFileState enabled" in f.issue and "a boot starts it" in f.issue for f in found.findings)
    assert outcome(world.run("auto")) == "fixed"
    new = host.run("docker inspect -f '{{.Id}}' u1")
    host.reboot()
    host.wait("systemctl is-active u1 && docker ps | grep -qw u1")
    assert host.run("docker ps --no-trunc --format '{{.ID}}' --filter name=u1").split() == [new]
    assert new != old
    running = judge(host, "u1")
    assert [c.subject.split()[1] for c in running.causes if c.slug == "second-supervisor"] == ["u1.service"]


def stopped_with_its_unit(host: SystemdHost) -> None:
    """`docker start -a` passes the signal on: no stop request is seen, yet a person stopped it."""
    host.run("docker rm -f u1; docker run -d --pull=never --network=host --name u1 bb:1 sh -c "
             "'trap \"exit 0\" TERM; while :; do sleep 0.2; done'; systemctl restart u1; sleep 1; systemctl stop u1")  # fmt: skip
    found = judge(host, "u1")
    assert confirmed(found) == ["stopped-on-purpose"], found.causes
    assert found.state is State.HEALTHY
    assert found.plans == ()


def started_by_a_timer(host: SystemdHost) -> None:
    """The service rests, its timer does not: the timer is what is stopped, by a person's word."""
    host.run(START % "t1")
    host.run(f"printf '{UNIT % 't1'}' >/etc/systemd/system/t1.service; printf '[Timer]\\nOnActiveSec=1h\\n' "
             ">/etc/systemd/system/t1.timer; systemctl daemon-reload; systemctl start t1.timer; docker kill t1")  # fmt: skip
    found = judge(host, "t1")
    assert [s.kind for s in found.plans[0].steps] == ["stop-unit", "recreate-container"], found
    assert found.plans[0].steps[0].args["unit"] == "t1.timer"
    pool = HostPool()
    context = Context(fleet=Fleet(nodes=(host.sshd.node(user="root"),)), target="far", open_host=pool)
    assert "t1.timer is inactive" in stop_unit(found.plans[0].steps[0], context).said[0]
    pool.close_all()


def stopped_by_a_person(host: SystemdHost) -> None:
    host.run("docker kill u1")  # the unit waits half a minute before it starts it again
    found = judge(host, "u1")
    assert [s.kind for s in found.plans[0].steps] == ["stop-unit", "recreate-container"]
    assert risks()["stop-unit"] is Risk.DESTRUCTIVE, "never automatic"
    step, pool = found.plans[0].steps[0], HostPool()
    context = Context(fleet=Fleet(nodes=(host.sshd.node(user="root"),)), target="far", open_host=pool)
    other = step.model_copy(update={"args": {**step.args, "life": "0" * 32}})
    with pytest.raises(ActionRefused, match="started again"):
        stop_unit(other, context)
    life = host.run("systemctl show -p InvocationID --value u1")
    said = stop_unit(step.model_copy(update={"args": {**step.args, "life": life}}), context).said
    pool.close_all()
    assert "u1.service is inactive" in said[0] or "u1.service is failed" in said[0]


def test_what_is_printed_stops_a_unit(host: SystemdHost) -> None:
    """In the life that was judged, and in no other; another unit runs on."""
    host.run(START % "t2")
    host.run(f"printf '{UNIT % 't2'}' >/etc/systemd/system/t2.service; printf '[Timer]\\nOnActiveSec=1h\\n' "
             ">/etc/systemd/system/t2.timer; systemctl daemon-reload; systemctl start t2.timer; docker kill t2")  # fmt: skip
    unit = judge(host, "t2").plans[0].steps[0]
    host.run("systemctl restart t2.timer")
    host.run(f"{printed([unit])} || true")
    assert host.run("systemctl is-active t2.timer") == "active"
    unit = judge(host, "t2").plans[0].steps[0]
    assert (unit.kind, unit.args["unit"]) == ("stop-unit", "t2.timer")
    host.run(printed([unit]))
    assert host.run("systemctl is-active t2.timer || true") == "inactive"
    assert host.run("systemctl is-active docker") == "active"
    assert [s.kind for s in judge(host, "t2").plans[-1].steps] == ["recreate-container"]
    host.run("rm /etc/systemd/system/t2.*; systemctl daemon-reload; docker rm t2")


def test_a_stopped_engine_is_started_and_its_upgrade_named(host: SystemdHost, rig: Rig, tmp_path: Path) -> None:
    host.run(START % "w2")
    host.run("systemctl stop docker")
    host.run('echo "$(date "+%F %T") upgrade docker.io:amd64 20.10.24+dfsg1-1 20.10.25+dfsg1-1" >>/var/log/dpkg.log')
    found = judge(host, "w2")
    assert confirmed(found) == ["daemon-upgraded"]
    assert found.state is State.UNHEALTHY
    world = world_of(host, rig, tmp_path, "w2")
    assert outcome(world.run("auto")) in ("fixed", "not-fixed")
    assert host.run("systemctl is-active docker") == "active"
    again = judge(host, "w2")
    assert confirmed(again)[0] == "daemon-upgraded", "it names why the container ended with it"
