"""An etcd that is a unit of a host with a real systemd: stopped, seen down, started again over SSH by `systemctl start`."""

from pathlib import Path

import pytest

from deployments.ports import free_port
from runbooks.core.fleet import Fleet, Reports
from tasks.context import Context
from tasks.transport.open import HostPool
from tests.support.etcd import Etcd, program_of
from tests.support.rendezvous import act, fast, look, place, slugs
from tests.support.systemd_host import systemd_host
from tests.support.waiting import until
from tests.tasks.rendezvous.test_etcd_acts import dead_run

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]
START = ("systemctl", "start", "etcd-t.service")


def test_a_unit_that_was_stopped_is_started_with_the_data_it_had(tmp_path: Path) -> None:
    """Every key is there again, and the unit's own start is what did it."""
    etcd = Etcd(tmp_path, free_port(), free_port())
    peer = f"http://127.0.0.1:{etcd.peer}"
    words = [str(program_of("3.5")), "--name=t", "--data-dir=/var/lib/etcd-t", "--enable-v2=true", f"--initial-cluster=t={peer}"]
    words += [f"--listen-client-urls={etcd.url}", f"--advertise-client-urls={etcd.url}"]
    words += [f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"]
    with systemd_host() as host:
        unit = f"[Service]\\nType=notify\\nExecStart={' '.join(words)}\\n"
        host.run(f"printf '{unit}' >/etc/systemd/system/etcd-t.service; systemctl daemon-reload; {' '.join(START)}")
        until(etcd.healthy, 60, "a healthy etcd")
        dead_run(etcd, "job")
        before = etcd.leaves()
        start = {"node": "far", "command": START, "data_dir": "/var/lib/etcd-t"}
        where = place(etcd.url, nodes=("far",), start=start)
        fleet = Fleet(nodes=(host.sshd.node(user="root"),), rendezvous=(where,), reports=Reports(folder=str(tmp_path / "reports")))
        pool = HostPool()
        host.run("systemctl stop etcd-t.service")
        context = fast(Context(fleet=fleet, target="t", open_host=pool))
        _, found = look(context)
        assert slugs(found) == ["etcd-down"], found
        said = act(found.plans[0], Context(fleet=fleet, target="t", open_host=pool))
        pool.close_all()
        assert "it knows 1 runs" in said[0].said[-1]
        assert host.run("systemctl is-active etcd-t.service") == "active"
        assert etcd.leaves() == before
