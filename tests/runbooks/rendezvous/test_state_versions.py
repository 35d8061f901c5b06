"""States of torch's dynamic rendezvous as the classes of each version pickle them: the same meaning out of each.

Each is a pickle, by Python 3.11, of the classes in that release's own dynamic_rendezvous.py: round 3, complete, n1 and n2 take part, n3 waits."""

# ruff: noqa: E501 - a recorded state is as long as it is

from datetime import UTC, datetime

import pytest

from runbooks.rendezvous.parsers.rdzv_state import decode_state

STATES = {
    "1.13.1": "gASVXwEAAAAAAACMN3RvcmNoLmRpc3RyaWJ1dGVkLmVsYXN0aWMucmVuZGV6dm91cy5keW5hbWljX3JlbmRlenZvdXOUjBBfUmVuZGV6dm91c1N0YXRllJOUKYGUfZQojAVyb3VuZJRLA4wIY29tcGxldGWUiIwIZGVhZGxpbmWUTowGY2xvc2VklImMDHBhcnRpY2lwYW50c5R9lChoAIwJX05vZGVEZXNjlJOUKYGUfZQojARmcWRulIwCbjGUjANwaWSUS2SMCGxvY2FsX2lklEsAdWJLAGgMKYGUfZQoaA+MAm4ylGgRSwdoEksBdWJLAXWMCXdhaXRfbGlzdJSPlChoDCmBlH2UKGgPjAJuM5RoEUsJaBJLAHVikIwPbGFzdF9oZWFydGJlYXRzlH2UKGgNjAhkYXRldGltZZSMCGRhdGV0aW1llJOUQwoH6gUBDAABA9CQlIWUUpRoE2giaBhoInV1Yi4=",
    "2.0.1": "gASVXwEAAAAAAACMN3RvcmNoLmRpc3RyaWJ1dGVkLmVsYXN0aWMucmVuZGV6dm91cy5keW5hbWljX3JlbmRlenZvdXOUjBBfUmVuZGV6dm91c1N0YXRllJOUKYGUfZQojAVyb3VuZJRLA4wIY29tcGxldGWUiIwIZGVhZGxpbmWUTowGY2xvc2VklImMDHBhcnRpY2lwYW50c5R9lChoAIwJX05vZGVEZXNjlJOUKYGUfZQojARhZGRylIwCbjGUjANwaWSUS2SMCGxvY2FsX2lklEsAdWJLAGgMKYGUfZQoaA+MAm4ylGgRSwdoEksBdWJLAXWMCXdhaXRfbGlzdJSPlChoDCmBlH2UKGgPjAJuM5RoEUsJaBJLAHVikIwPbGFzdF9oZWFydGJlYXRzlH2UKGgNjAhkYXRldGltZZSMCGRhdGV0aW1llJOUQwoH6gUBDAABA9CQlIWUUpRoE2giaBhoInV1Yi4=",
    "2.2.2": "gASVXwEAAAAAAACMN3RvcmNoLmRpc3RyaWJ1dGVkLmVsYXN0aWMucmVuZGV6dm91cy5keW5hbWljX3JlbmRlenZvdXOUjBBfUmVuZGV6dm91c1N0YXRllJOUKYGUfZQojAVyb3VuZJRLA4wIY29tcGxldGWUiIwIZGVhZGxpbmWUTowGY2xvc2VklImMDHBhcnRpY2lwYW50c5R9lChoAIwJX05vZGVEZXNjlJOUKYGUfZQojARhZGRylIwCbjGUjANwaWSUS2SMCGxvY2FsX2lklEsAdWJLAGgMKYGUfZQoaA+MAm4ylGgRSwdoEksBdWJLAXWMCXdhaXRfbGlzdJSPlChoDCmBlH2UKGgPjAJuM5RoEUsJaBJLAHVikIwPbGFzdF9oZWFydGJlYXRzlH2UKGgNjAhkYXRldGltZZSMCGRhdGV0aW1llJOUQwoH6gUBDAABA9CQlIWUUpRoE2giaBhoInV1Yi4=",
    "2.13.0": "gASVoAEAAAAAAACMN3RvcmNoLmRpc3RyaWJ1dGVkLmVsYXN0aWMucmVuZGV6dm91cy5keW5hbWljX3JlbmRlenZvdXOUjBBfUmVuZGV6dm91c1N0YXRllJOUKYGUfZQojAVyb3VuZJRLA4wIY29tcGxldGWUiIwIZGVhZGxpbmWUTowGY2xvc2VklImMDHBhcnRpY2lwYW50c5R9lChoAIwJX05vZGVEZXNjlJOUKYGUfZQojARhZGRylIwCbjGUjANwaWSUS2SMCGxvY2FsX2lklEsAdWJLAGgMKYGUfZQoaA+MAm4ylGgRSwdoEksBdWJLAXWMCXdhaXRfbGlzdJSPlChoDCmBlH2UKGgPjAJuM5RoEUsJaBJLAHVikIwPcmVkdW5kYW5jeV9saXN0lI+UjA9sYXN0X2hlYXJ0YmVhdHOUfZQoaA2MCGRhdGV0aW1llIwIZGF0ZXRpbWWUk5RDCgfqBQEMAAED0JCUaB+MCHRpbWV6b25llJOUaB+MCXRpbWVkZWx0YZSTlEsASwBLAIeUUpSFlFKUhpRSlGgTaCxoGGgsdXViLg==",
}


@pytest.mark.parametrize("version", STATES)
def test_a_state_of_that_version(version: str) -> None:
    found = decode_state(STATES[version])
    assert (found.round, found.complete, found.closed) == (3, True, False)
    assert [(s.member.label, s.rank) for s in found.participants] == [("n1_100_0", 0), ("n2_7_1", 1)]
    assert [m.label for m in found.wait_list] == ["n3_9_0"]
    assert found.redundancy_list == ()
    assert {b.at for b in found.beats} == {datetime(2026, 5, 1, 12, 0, 1, 250000, tzinfo=UTC)}
    assert len(found.beats) == 3
