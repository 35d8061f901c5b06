"""The tests' own rig: what would make the tests of another file fail, and not these."""

import threading

from prefect.settings import PREFECT_API_URL

from tests.support.engine_rig import Rig


def test_every_thread_of_the_test_process_asks_the_rigs_server(rig: Rig) -> None:
    found: list[str | None] = []
    thread = threading.Thread(target=lambda: found.append(PREFECT_API_URL.value()))
    thread.start()
    thread.join()
    assert found == [rig.state.api]
