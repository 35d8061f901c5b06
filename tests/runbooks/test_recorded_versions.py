"""Texts of other programs as their versions really wrote them, each with its source: the same meaning out of each.

Recordings are cut to the lines and elements that are read. Whole answers stand in tests/data/versions, which also has the table of every
version that is recorded, of what this project recorded itself, and of what could not be had.

Known and not read: an "Accepted publickey" of sshd up to 6.7, which gives an MD5 fingerprint that nothing here can be held against.
"""

# ruff: noqa: E501 - a recorded line is as long as it is

import json

import pytest

from runbooks.container.start_errors import MEANS
from runbooks.core.fleet import Fleet, Node
from runbooks.core.reading import Known
from runbooks.core.rendezvous_config import Rendezvous
from runbooks.memory.parsers.kernel_ooms import parse_host_ooms
from runbooks.parsers.nvidia_smi_xml import parse_smi_xml
from runbooks.parsers.ssh_text import SshdMessage, ban_s, parse_sshd_log
from runbooks.ray.parsers.ray_job import parse_jobs
from runbooks.triage.text import error_lines, meanings
from tasks.context import Context
from tasks.rendezvous.etcd import parse_facts
from tasks.transport.local import LocalHost

KIB, MIB = 1 << 10, 1 << 20

KERNEL = {
    "2.6 by its form, no version named (pdai.tech/md/java/jvm/java-jvm-debug-tools-list.html)": (
        """[6710782.021013] java invoked oom-killer: gfp_mask=0xd0, order=0, oom_adj=0, oom_scoe_adj=0
[6710782.257588] Task in /LXC011175068174 killed as a result of limit of /LXC011175068174
[6710784.698347] Memory cgroup out of memory: Kill process 215701 (java) score 854 or sacrifice child
[6710784.707978] Killed process 215701, UID 679, (java) total-vm:11017300kB, anon-rss:7152432kB, file-rss:1232kB""",
        (215701, "java", 7153664 * KIB, True, "/LXC011175068174", None),
    ),
    "3.10.0-1160.el7 (TiDB's documentation, troubleshooting of an out-of-memory kill)": (
        """Mar 14 16:55:03 localhost kernel: tidb-server invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0
Mar 14 16:55:03 localhost kernel: CPU: 14 PID: 21966 Comm: tidb-server Kdump: loaded Not tainted 3.10.0-1160.el7.x86_64 #1
Mar 14 16:55:03 localhost kernel: Out of memory: Kill process 21945 (tidb-server) score 956 or sacrifice child
Mar 14 16:55:03 localhost kernel: Killed process 21945 (tidb-server), UID 1000, total-vm:33027492kB, anon-rss:31303276kB, file-rss:0kB, shmem-rss:0kB""",
        (21945, "tidb-server", 31303276 * KIB, False, "", None),
    ),
    "4.x (linux-mm, A. Ryabinin on waking up flushers for legacy cgroups, fixes bbef938429f5)": (
        """dd invoked oom-killer: gfp_mask=0x14000c0(GFP_KERNEL), nodemask=(null), order=0, oom_score_adj=0
Task in /test killed as a result of limit of /test
memory: usage 51200kB, limit 51200kB, failcnt 73
memory+swap: usage 51200kB, limit 9007199254740988kB, failcnt 0
kmem: usage 296kB, limit 9007199254740988kB, failcnt 0
Memory cgroup out of memory: Kill process 3861 (bash) score 88 or sacrifice child
Killed process 3876 (dd) total-vm:8484kB, anon-rss:1052kB, file-rss:1720kB, shmem-rss:0kB""",
        (3876, "dd", 2772 * KIB, True, "/test", 51200 * KIB),
    ),
    "5.0-next (linux-mm, 'mm,oom: Don't kill global init via memory.oom.group', 2019-02-01)": (
        """[   37.052923][ T9185] a.out invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[   37.110840][ T9185] memory: usage 51200kB, limit 51200kB, failcnt 125
[   37.123371][ T9185] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/test1,task_memcg=/test1,task=a.out,pid=9188,uid=0
[   37.128158][ T9185] Memory cgroup out of memory: Killed process 9188 (a.out) total-vm:14456kB, anon-rss:10324kB, file-rss:504kB, shmem-rss:0kB""",
        (9188, "a.out", 10828 * KIB, True, "/test1", 51200 * KIB),
    ),
    "5.8.0-1031-oracle (ltp mailing list, K. Kozlowski on memcg_subgroup_charge.sh)": (
        """memcg_process invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
memory: usage 132kB, limit 132kB, failcnt 9
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/ltp_19257,task_memcg=/ltp_19257,task=memcg_process,pid=19289,uid=0
Memory cgroup out of memory: Killed process 19289 (memcg_process) total-vm:2676kB, anon-rss:84kB, file-rss:1468kB, shmem-rss:4kB, UID:0 pgtables:40kB oom_score_adj:0""",
        (19289, "memcg_process", 1556 * KIB, True, "/ltp_19257", 132 * KIB),
    ),
    "6.18.44 (recorded: a container of podman at its limit; its id cut)": (
        """[36184.763252] tail invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[36184.763487] memory: usage 32768kB, limit 32768kB, failcnt 114
[36184.787960] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=libpod-a72a,mems_allowed=0,oom_memcg=/libpod_parent/libpod-a72a,task_memcg=/libpod_parent/libpod-a72a,task=tail,pid=27693,uid=0
[36184.787988] Memory cgroup out of memory: Killed process 27693 (tail) total-vm:34616kB, anon-rss:32512kB, file-rss:1328kB, shmem-rss:0kB, UID:0 pgtables:108kB oom_score_adj:0""",
        (27693, "tail", 33840 * KIB, True, "/libpod_parent/libpod-a72a", 32768 * KIB),
    ),
}  # fmt: skip


@pytest.mark.parametrize("version", KERNEL)
def test_a_kill_for_memory(version: str) -> None:
    text, wanted = KERNEL[version]
    (kill,) = parse_host_ooms(text)
    assert (kill.pid, kill.name, kill.rss, kill.cgroup, kill.group, kill.limit) == wanted
    assert kill.told


SMI = {  # influxdata/telegraf, plugins/inputs/nvidia_smi/testdata, the name of each file
    "gtx-1070-ti.xml: format 10": (
        """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v10.dtd">
<nvidia_smi_log>
<gpu id="00000000:01:00.0">
<product_name>GeForce GTX 1070 Ti</product_name>
<uuid>GPU-f9ba66fc-a7f5-94c5-da19-019ef2f9c665</uuid>
<performance_state>P8</performance_state>
<fb_memory_usage><total>4096 MiB</total><used>42 MiB</used><free>4054 MiB</free></fb_memory_usage>
<compute_mode>Default</compute_mode>
<utilization><gpu_util>0 %</gpu_util><memory_util>0 %</memory_util></utilization>
<temperature><gpu_temp>39 C</gpu_temp></temperature>
<power_readings><power_draw>N/A</power_draw></power_readings>
<clocks><graphics_clock>135 MHz</graphics_clock><sm_clock>135 MHz</sm_clock><mem_clock>405 MHz</mem_clock></clocks>
</gpu>
</nvidia_smi_log>""",
        ("", "GeForce GTX 1070 Ti", 0.0, 42 * MIB, None, None, None, (), {}),
    ),
    "a10g.xml: driver 515, format 11": (
        """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v11.dtd">
<nvidia_smi_log>
<driver_version>515.105.01</driver_version><cuda_version>11.7</cuda_version><attached_gpus>1</attached_gpus>
<gpu id="00000000:00:1E.0">
<product_name>NVIDIA A10G</product_name>
<mig_mode><current_mig>N/A</current_mig><pending_mig>N/A</pending_mig></mig_mode>
<uuid>GPU-9a9a6c50-2a47-2f51-a902-b82c3b127e94</uuid>
<performance_state>P8</performance_state>
<clocks_throttle_reasons>
<clocks_throttle_reason_gpu_idle>Active</clocks_throttle_reason_gpu_idle>
<clocks_throttle_reason_hw_slowdown>Not Active</clocks_throttle_reason_hw_slowdown>
</clocks_throttle_reasons>
<fb_memory_usage><total>23028 MiB</total><reserved>435 MiB</reserved><used>22 MiB</used><free>22569 MiB</free></fb_memory_usage>
<compute_mode>Default</compute_mode>
<utilization><gpu_util>0 %</gpu_util><memory_util>0 %</memory_util></utilization>
<ecc_errors><volatile>
<sram_correctable>0</sram_correctable><sram_uncorrectable>0</sram_uncorrectable>
<dram_correctable>0</dram_correctable><dram_uncorrectable>0</dram_uncorrectable>
</volatile></ecc_errors>
<remapped_rows>
<remapped_row_corr>0</remapped_row_corr><remapped_row_unc>0</remapped_row_unc>
<remapped_row_pending>No</remapped_row_pending><remapped_row_failure>No</remapped_row_failure>
</remapped_rows>
<power_readings><power_state>P8</power_state><power_draw>25.58 W</power_draw><power_limit>300.00 W</power_limit></power_readings>
</gpu>
</nvidia_smi_log>""",
        ("515.105.01", "NVIDIA A10G", 0.0, 22 * MIB, 25.58, 300.0, 0, ("gpu_idle",), (0, 0, False, False)),
    ),
    "a100-sxm4-v12.xml: driver 535, format 12, with MIG": (
        """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
<driver_version>535.54.03</driver_version><cuda_version>12.2</cuda_version><attached_gpus>4</attached_gpus>
<gpu id="00000000:01:00.0">
<product_name>NVIDIA A100-SXM4-80GB</product_name>
<mig_mode><current_mig>Enabled</current_mig><pending_mig>Enabled</pending_mig></mig_mode>
<mig_devices><mig_device><index>0</index>
<fb_memory_usage><total>19968 MiB</total><reserved>0 MiB</reserved><used>12 MiB</used><free>19955 MiB</free></fb_memory_usage>
</mig_device></mig_devices>
<uuid>GPU-513536b6-7d19-9063-b049-1e69664bb298</uuid>
<performance_state>P0</performance_state>
<clocks_event_reasons><clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle></clocks_event_reasons>
<fb_memory_usage><total>81920 MiB</total><reserved>869 MiB</reserved><used>50 MiB</used><free>80999 MiB</free></fb_memory_usage>
<compute_mode>Default</compute_mode>
<utilization><gpu_util>N/A</gpu_util><memory_util>N/A</memory_util></utilization>
<ecc_errors><volatile>
<sram_correctable>0</sram_correctable><sram_uncorrectable>0</sram_uncorrectable>
<dram_correctable>0</dram_correctable><dram_uncorrectable>0</dram_uncorrectable>
</volatile></ecc_errors>
<remapped_rows>N/A</remapped_rows>
<gpu_power_readings><power_state>P0</power_state><power_draw>67.03 W</power_draw><current_power_limit>500.00 W</current_power_limit></gpu_power_readings>
<module_power_readings><power_state>P0</power_state><power_draw>N/A</power_draw></module_power_readings>
</gpu>
</nvidia_smi_log>""",
        ("535.54.03", "NVIDIA A100-SXM4-80GB", None, 50 * MIB, 67.03, 500.0, 0, (), {}),
    ),
    "rtx-3060-v12.xml: driver 570, format 12": (
        """<?xml version="1.0"?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
<driver_version>570.124.04</driver_version><cuda_version>12.8</cuda_version><attached_gpus>1</attached_gpus>
<gpu id="00000000:2D:00.0">
<product_name>NVIDIA GeForce RTX 3060</product_name>
<mig_mode><current_mig>N/A</current_mig><pending_mig>N/A</pending_mig></mig_mode>
<uuid>GPU-d6889ff6-2523-9142-ca3c-1ca3f396a625</uuid>
<gpu_reset_status><reset_required>Requested functionality has been deprecated</reset_required></gpu_reset_status>
<gpu_recovery_action>None</gpu_recovery_action>
<performance_state>P8</performance_state>
<clocks_event_reasons><clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle></clocks_event_reasons>
<fb_memory_usage><total>12288 MiB</total><reserved>368 MiB</reserved><used>116 MiB</used><free>11806 MiB</free></fb_memory_usage>
<compute_mode>Default</compute_mode>
<utilization><gpu_util>0 %</gpu_util><memory_util>0 %</memory_util></utilization>
<ecc_errors><volatile>
<sram_correctable>N/A</sram_correctable><sram_uncorrectable_parity>N/A</sram_uncorrectable_parity>
<sram_uncorrectable_secded>N/A</sram_uncorrectable_secded><dram_correctable>N/A</dram_correctable>
</volatile></ecc_errors>
<remapped_rows>N/A</remapped_rows>
<gpu_power_readings>
<power_state>P8</power_state><average_power_draw>11.60 W</average_power_draw>
<instant_power_draw>11.63 W</instant_power_draw><current_power_limit>170.00 W</current_power_limit>
</gpu_power_readings>
<processes></processes>
</gpu>
</nvidia_smi_log>""",
        ("570.124.04", "NVIDIA GeForce RTX 3060", 0.0, 116 * MIB, 11.63, 170.0, None, ("gpu_idle",), {}),
    ),
    "rtx-4000-sff-ada-v13.xml: driver 595, format 13": (
        """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">
<nvidia_smi_log>
<driver_version>595.84</driver_version><cuda_version>13.2</cuda_version><attached_gpus>1</attached_gpus>
<gpu id="00000000:06:00.0">
<product_name>NVIDIA RTX 4000 SFF Ada Generation</product_name>
<display_mode>Requested functionality has been deprecated</display_mode>
<mig_mode><current_mig>N/A</current_mig><pending_mig>N/A</pending_mig></mig_mode>
<uuid>GPU-37037c3f-65c8-ec4d-24a9-420204ad8026</uuid>
<gpu_recovery_action>None</gpu_recovery_action>
<performance_state>P8</performance_state>
<clocks_event_reasons><clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle></clocks_event_reasons>
<fb_memory_usage><total>20475 MiB</total><reserved>460 MiB</reserved><used>3534 MiB</used><free>16482 MiB</free></fb_memory_usage>
<compute_mode>Default</compute_mode>
<utilization><gpu_util>0 %</gpu_util><memory_util>37 %</memory_util></utilization>
<ecc_errors><volatile>
<sram_correctable>N/A</sram_correctable><sram_uncorrectable_parity>N/A</sram_uncorrectable_parity>
</volatile></ecc_errors>
<remapped_rows>
<remapped_row_corr>0</remapped_row_corr><remapped_row_corr_inactive>0</remapped_row_corr_inactive>
<remapped_row_unc>0</remapped_row_unc><remapped_row_unc_inactive>0</remapped_row_unc_inactive>
<remapped_row_pending>No</remapped_row_pending><remapped_row_failure>No</remapped_row_failure>
</remapped_rows>
<gpu_power_readings>
<power_state>Requested functionality has been deprecated</power_state><average_power_draw>8.81 W</average_power_draw>
<instant_power_draw>8.44 W</instant_power_draw><current_power_limit>70.00 W</current_power_limit>
</gpu_power_readings>
</gpu>
</nvidia_smi_log>""",
        ("595.84", "NVIDIA RTX 4000 SFF Ada Generation", 0.0, 3534 * MIB, 8.44, 70.0, None, ("gpu_idle",), (0, 0, False, False)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("version", SMI)
def test_the_xml_of_nvidia_smi(version: str) -> None:
    text, (driver, name, use, used, power, cap, uncorrected, throttle, rows) = SMI[version]
    seen = parse_smi_xml(text)
    assert isinstance(seen, Known), seen
    (gpu,) = seen.value.gpus
    assert (seen.value.driver, gpu.name, gpu.sm_percent, gpu.used_bytes) == (driver, name, use, used)
    assert (gpu.power_w, gpu.power_limit_w, gpu.ecc_uncorrected, gpu.throttle) == (power, cap, uncorrected, throttle)
    assert seen.value.remapped == ({gpu.uuid: rows} if rows else {})
    assert gpu.mig is (True if "MIG" in version else None)


SSHD = {
    "OpenSSH before 9.8 (an auth.log of Ubuntu, host ip-172-31-35-28)": (
        "Mar  6 06:31:31 ip-172-31-35-28 sshd[620]: drop connection #10 from [65.2.161.68]:46482 on [172.31.35.28]:22 past MaxStartups",
        SshdMessage.MAX_STARTUPS, "65.2.161.68", None,
    ),
    "OpenSSH before 9.8, no such user (the same log)": (
        "Mar  6 06:31:31 ip-172-31-35-28 sshd[2327]: Invalid user admin from 65.2.161.68 port 46392",
        SshdMessage.NO_USER, "admin", None,
    ),
    "OpenSSH 9.8 and later, too slow to log in (journal of a lab's web01)": (
        "Oct 02 21:59:05 web01.lab.local sshd[913]: drop connection #0 from [192.168.56.1]:55509 on [192.168.56.11]:22 penalty: exceeded LoginGraceTime",
        SshdMessage.PENALTY, "192.168.56.1", 10,
    ),
    "OpenSSH 9.8 and later, failed log-ins (an auth.log of Ubuntu)": (
        "sshd[5090]: drop connection #13 from [192.168.133.142]:57590 on [192.168.133.132]:22 penalty: failed authentication",
        SshdMessage.PENALTY, "192.168.133.142", 5,
    ),
}  # fmt: skip
SSHD |= {
    "6.2 at most, by its date of 2013-07-04 (progrium/gitreceive#10)": (
        "Jul  4 13:40:32 du sshd[3742]: Authentication refused: bad ownership or modes for file /home/git/.ssh/authorized_keys",
        SshdMessage.STRICT_MODES, "/home/git/.ssh/authorized_keys", None,
    ),
    "7 by its form (plus3it/watchmaker's documentation)": (
        "Feb 09 12:10:50 ip-0a00dc73 sshd[2939]: input_userauth_pubkey: key type ssh-rsa not in PubkeyAcceptedKeyTypes [preauth]",
        SshdMessage.ALGORITHM, "ssh-rsa", None,
    ),
    "7.6 (termux/termux-app#774)": (
        "Authentication refused: bad ownership or modes for directory /data/data/com.termux/files/home",
        SshdMessage.STRICT_MODES, "/data/data/com.termux/files/home", None,
    ),
    "8.0, RHEL 8 (a note on Red Hat's solution 4906221)": (
        "userauth_pubkey: key type ssh-rsa not in PubkeyAcceptedKeyTypes [preauth]",
        SshdMessage.ALGORITHM, "ssh-rsa", None,
    ),
    "8.7, RHEL 9 (a note on logging in from Tera Term, 2022-12-19)": (
        "Dec 19 16:26:58 test sshd[88833]: userauth_pubkey: key type ssh-rsa not in PubkeyAcceptedAlgorithms [preauth]",
        SshdMessage.ALGORITHM, "ssh-rsa", None,
    ),
    "9.2, Debian 12 (a note on failing log-ins)": (
        "Jul 10 12:29:11 iZ2ze5f4ne9xf8n3h5Z sshd[8020]: userauth_pubkey: signature algorithm ssh-rsa not in PubkeyAcceptedAlgorithms [preauth]",
        SshdMessage.ALGORITHM, "ssh-rsa", None,
    ),
    "7.2, Ubuntu 16.04 (dev-sec/ansible-ssh-hardening#114)": (
        "May 23 18:05:21 ubuntu-xenial sshd[26236]: User myuser not allowed because account is locked",
        SshdMessage.LOCKED, "myuser", None,
    ),
    "7.2, Ubuntu 16.04, too many tries (the same)": (
        "error: maximum authentication attempts exceeded for invalid user myuser from 10.0.2.2 port 59156 ssh2 [preauth]",
        SshdMessage.TOO_MANY, "myuser", None,
    ),
    "8.0, CentOS 8 (scylladb/scylla-cluster-tests#2005)": (
        "Apr 05 20:56:17 artifacts-centos8-jenkins-db-node-5cc29a94-0-1 sshd[1735]: drop connection #11 from [10.142.0.5]:51068 on [10.142.0.17]:22 past MaxStartups",
        SshdMessage.MAX_STARTUPS, "10.142.0.5", None,
    ),
    "10.3 (jtesta/ssh-audit#349)": (
        "sshd: drop connection #2 from [127.0.0.1]:40046 on [127.0.0.1]:22 penalty: connections without attempting authentication",
        SshdMessage.PENALTY, "127.0.0.1", 1,
    ),
    "9.8 and later, which names sshd-session (a log of 2026-08-04)": (
        "2026-08-04T17:40:02 sshd-session[1893]: userauth_pubkey: signature algorithm ssh-rsa not in PubkeyAcceptedAlgorithms [preauth]",
        SshdMessage.ALGORITHM, "ssh-rsa", None,
    ),
}  # fmt: skip
PENALTIES = "crash:90 authfail:5 noauth:1 grace-exceeded:10 max:600"  # the defaults that sshd -T prints from 9.8 on


@pytest.mark.parametrize("version", SSHD)
def test_sshd_says_why(version: str) -> None:
    line, said, about, seconds = SSHD[version]
    (found,) = parse_sshd_log(line)
    assert (found.said, found.about) == (said, about)
    assert ban_s(line, PENALTIES) == seconds


DOCKER = {  # State.Error of a container whose command is not in its image
    "18, by its date of 2018-07-22 (docker/for-linux#319)": (
        r'OCI runtime create failed: container_linux.go:348: starting container process caused "exec: \"/bin/bash\": stat /bin/bash: no such file or directory": unknown'
    ),
    "18.09 or older, by its runc, 2019-07-15 (docker/for-linux#726)": (
        r'OCI runtime create failed: container_linux.go:348: starting container process caused "exec: \"db:create\": executable file not found in $PATH": unknown'
    ),
    "19.03.1, Docker Desktop 2.1.0.1 (docker-archive-public/docker.doodle#10)": (
        r'OCI runtime create failed: container_linux.go:345: starting container process caused "exec: \"/bin/sh\": stat /bin/sh: no such file or directory": unknown'
    ),
    "20.10 by its form, 2022-02-25 (mo-xiaoxi/AWD_CTF_Platform#39)": (
        'OCI runtime create failed: container_linux.go:380: starting container process caused: exec: "/tmp/run.sh": stat /tmp/run.sh: no such file or directory: unknown'
    ),
    "20.10 with runc 1.1 by its form, 2022-06-30 (caarlos0/domain_exporter#147)": (
        'failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "/usr/local/bin/domain_exporter": stat /usr/local/bin/domain_exporter: no such file or directory: unknown'
    ),
    "containerd with runc 1.2 by its form (tests of burrow-cloud)": (
        'failed to create containerd task: failed to create shim task: OCI runtime create failed: unable to start container process: error during container init: exec: "/burrowd": stat /burrowd: no such file or directory'
    ),
}  # fmt: skip


@pytest.mark.parametrize("version", DOCKER)
def test_a_command_that_is_not_in_the_image(version: str) -> None:
    assert next(iter(meanings(DOCKER[version], MEANS))) == "bad-command"


NO_SCRIPT = "python: can't open file '{}': [Errno 2] No such file or directory"
RAY = {  # message of a job's record, and the line in it that says what went wrong
    "1.13 or 2.0 by its date of 2022-07-24 (KubeRay's documentation of RayJob)": (
        f"Job failed due to an application error, last available logs:\n{NO_SCRIPT.format('/tmp/code/script.ppy')}\n",
        NO_SCRIPT.format("/tmp/code/script.ppy"),
    ),
    "2.5 by its date of 2023-07-11 (the same)": (
        "Job failed due to an application error, last available logs (truncated to 20,000 chars):\n"
        f"{NO_SCRIPT.format('/home/ray/samples/sample_code.ppy')}\n",
        NO_SCRIPT.format("/home/ray/samples/sample_code.ppy"),
    ),
    "2.x of 2026-03-16 (a cloud's documentation of its ray jobs)": (
        "Job entrypoint command failed with exit code 127, last available logs (truncated to 20,000 chars):\n"
        "2026-03-16 20:39:14,666\tINFO job_manager.py:587 -- Runtime env is setting up.\n"
        "Running entrypoint for job rayjob-1773664701-twd4-v6tz8: sleep1\n/bin/sh: 1: sleep1: not found\n",
        "Job entrypoint command failed with exit code 127, last available logs (truncated to 20,000 chars):",
    ),
}


@pytest.mark.parametrize("version", RAY)
def test_a_ray_job_that_failed(version: str) -> None:
    message, line = RAY[version]
    (job,) = parse_jobs(json.dumps([{"status": "FAILED", "submission_id": "s", "message": message}]), str)
    assert (job.status, job.message, job.exit_code) == ("FAILED", message, None)
    assert line in error_lines(job.message)


ETCD = {  # /health, /version and /v2/keys as they came, "" where the source does not show one; then healthy, version, v2, None where it does not show it
    "2.2 (a test of an etcd behind a bastion)": (
        '{"health": "true"}', '{"etcdserver":"2.2.3","etcdcluster":"2.2.0"}', "", (True, "2.2.3", None),
    ),
    "2.3.6 (a note on etcd's API)": (
        "", '{"etcdserver":"2.3.6","etcdcluster":"2.3.0"}', '{"action":"get","node":{"dir":true}}', (None, "2.3.6", True),
    ),
    "3.1 (etcd-io/etcd#6985, and the upgrade guide to 3.2)": (
        '{"health": "false"}', '{"etcdserver":"3.1.7","etcdcluster":"3.1.0"}', "", (False, "3.1.7", None),
    ),
    "3.2.15 (a manual of a scanner for etcd on CentOS 7.1)": (
        "", '{"etcdserver":"3.2.15","etcdcluster":"3.2.0"}',
        '{"action":"get","node":{"dir":true,"nodes":[{"key":"/supersecret","value":"password","modifiedIndex":6,"createdIndex":6}]}}',
        (None, "3.2.15", True),
    ),
    "3.3.8 (a note on etcd's v2 API)": (
        "", '{"etcdserver":"3.3.8","etcdcluster":"3.3.0"}',
        '{"action":"set","node":{"key":"/message","value":"Hello","modifiedIndex":4,"createdIndex":4}}', (None, "3.3.8", True),
    ),
    "3.4.23 (recorded: started with nothing but its addresses)": (
        '{"health":"true"}', '{"etcdserver":"3.4.23","etcdcluster":"3.4.0"}', "404 page not found\n", (True, "3.4.23", False),
    ),
    "3.5 with an alarm (etcd-io/etcd#12880)": ('{"health":"false","reason":"ALARM NOSPACE"}', "", "", (False, None, None)),
    "3.5 (a note on a cluster of Kubernetes 1.24, and an etcd behind Patroni)": (
        '{"health":"true","reason":""}', '{"etcdserver":"3.5.16","etcdcluster":"3.5.0"}', "", (True, "3.5.16", None),
    ),
    "3.6.12 (etcd's guide to upgrades)": (
        "", '{"etcdserver":"3.6.12","etcdcluster":"3.6.0","storage":"3.6.0"}', "", (None, "3.6.12", None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("version", ETCD)
def test_what_etcd_says_of_itself(version: str) -> None:
    health, about, keys, wanted = ETCD[version]
    place = Rendezvous(name="e", endpoints=("http://etcd:2379",), nodes=("a",))
    context = Context(fleet=Fleet(nodes=(Node(name="a", local=True),), rendezvous=(place,)), target="a", open_host=lambda n: LocalHost(n.name))
    shown = health or '{"health":"true"}'  # the reader wants one; what it makes of it counts only where the source shows it
    answer = {"health": {"status": 200, "body": shown}, "version": {"status": 200, "body": about}}
    tree = {"status": 404 if keys.startswith("404") else 200, "body": keys}
    seen = parse_facts(answer | {"dynamic": tree}, place, context)
    assert isinstance(seen, Known), seen
    read = (seen.value.healthy, seen.value.version, seen.value.v2)
    assert [r for r, w in zip(read, wanted, strict=True) if w is not None] == [w for w in wanted if w is not None]
