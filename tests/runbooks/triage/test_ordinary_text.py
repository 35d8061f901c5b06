"""Ordinary text that holds the words of faults is no fault: release notes, manuals, test lists, settings."""

from runbooks.triage.text import judge_lines

NOTES = """Release 4.2 of a toolbox
 * the copy of the window title is drawn only once now, it was drawn twice after a resize
 * remove duplicate fields of the header; jobs are listed with their state
 * the splitter no longer loses a lock that takes longer than 5 s
 * `-v -v`: the option may be given; when it is given twice, more is printed
 * the drain of the input buffer is called at the end of a stream; the helper exits with status 143 when stopped
 * updater: fix for deleted entries; the process is gone afterwards
 * copies keep their SELinux context; `restorecon` is not called any more in the ssh helper
 * lists: an empty list is accepted in the container class
 * headers: algorithms/none_of/requirements.cc, none_of_the_values.hpp, closed form timed out in one test
 * parse keys with CRLF line endings; several names in one line of the list are private to the parser
 * document inotify_add_watch and inotify_init1
 * pam_nologin: give the message to the account module first
 * clean: remove config.lineno and numbers.tmp before the next step
 * this mode is in maintenance mode, new features go elsewhere
 * branch -d: refuse to delete what is checked out; -D confuses less
 * unregistered objects get no signals; a worker thread hands them on
 * time zone table: on an old platform the check returned FALSE; the configuration parser is new
 * 12:13:31 node 7 became candidate at term 4
 * RLIMIT_MEMLOCK is described for rdma users
 * builds of the master branch use no cache; a barrier timed out in the test once
 * if lease is 0, no lease is attached to the key
 * mask reserved bits of leaf 80000006H in task switches
 * since 3.2 there is a lookup without IP addresses in the certificate
 * mark version 5 of the N-API stable (#24011)
 * this prevents issues with misaligned addresses found by a sanitizer
 * explain orphaned process groups and their adoption
 * a "gc" process that runs as a different user should be able to stop; ssh transport unchanged
 * check for uint16 overflow of offsets
 * documentation, part 1/2: checkpoint of the manual
 * remove getNetworkInterfaces (#25280) with duplicate entries
 * messages about mismatched versions of plugins
 * signature in registryd (#646403)
 * moved: all links of the old place point to the new address now
 * num_tgts must be >= 0 in scsi_debug
 * descriptors with iommu enabled
 * upgrade containerd and keep what runs
 * error handling for a file system that has no inodes
 * the filter is named after what it does while the `docker run` form is kept
 * labels that start with byte 0x05  [jpeg, json]
"""

MANUAL = """The loader checks both of two lists. Duplicate names are removed twice: once when read and once when written.
A queue is a list of jobs; a job that is done is taken off. The oldest may be 90 days old.
The process list of the window may be an empty list. Pages are HTML documents that begin with <html>.
Each cluster has endpoints. Different endpoints serve different keys.
A unit of the cluster elects a leader; when the leader is lost the others vote.
"""

SETTINGS = """loglevel notice
maxclients 10000
# replicas take over from the master while it is loading; building an index may take long
timeout 0
tcp-keepalive 300
stop-writes-on-bgsave-error yes
maxmemory-policy noeviction
"""


def test_release_notes_hold_no_cause() -> None:
    outcome = judge_lines(NOTES)
    assert [(c.slug, [line.text for line in c.evidence]) for c in outcome.causes] == []


def test_a_manual_holds_no_cause() -> None:
    outcome = judge_lines(MANUAL)
    assert [(c.slug, [line.text for line in c.evidence]) for c in outcome.causes] == []


def test_settings_hold_no_cause() -> None:
    outcome = judge_lines(SETTINGS)
    assert [(c.slug, [line.text for line in c.evidence]) for c in outcome.causes] == []
    assert outcome.verdict == "nothing"
