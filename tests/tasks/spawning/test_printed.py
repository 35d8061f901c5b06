"""The statement of a report, pasted into a shell, marks the row that it names."""

from runbooks.core.verdict import State
from tests.support.need import need_program
from tests.support.printed import by_hand
from tests.tasks.spawning.conftest import World
from tests.tasks.spawning.test_world import gone, step_of


def test_a_row_is_marked(world: World) -> None:
    need_program("psql", "postgresql-client")
    gone(world)
    step = step_of(world.look()[1], "mark-worker-row")
    done = by_hand([step])
    assert done.returncode == 0, done.stderr
    assert world.db.do("SELECT status FROM workers")[0]["status"] == "terminated"
    assert by_hand([step]).stdout.strip() == "UPDATE 0"
    assert world.look()[1].state is State.HEALTHY
