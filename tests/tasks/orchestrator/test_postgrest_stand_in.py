"""The stand-in of the database platform, asked through the official `postgrest` client and compared with plain SQL."""

import json
import ssl
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from postgrest import APIError, CountMethod, SyncPostgrestClient
from postgrest.utils import sanitize_param

from tests.support.orchestrator_tables import READ_ONLY, Age, orchestrator_database
from tests.support.postgres import Postgres, run_sql
from tests.support.postgrest import PostgRest, token

TLS = ssl.create_default_context()  # made once: it takes longer than a request
T0 = datetime(2026, 5, 1, 12, tzinfo=UTC)
ODD = ("plain", "", "a,b", 'say "no"', "(all)", "back\\slash", "a.b", "50% *", "In Progress", "ключ", "null", "it's")


def client(there: PostgRest, key: str | None = None, bearer: str | None = None, timeout_s: float = 10) -> Any:
    """The official client, without its repeated tries. Its own types make any JSON of what it gives."""
    key = there.service_key if key is None else key
    headers = {"apikey": key, "Authorization": f"Bearer {key if bearer is None else bearer}"}
    base = f"{there.url}/rest/v1"
    http = httpx.Client(base_url=base, headers=headers, timeout=timeout_s, verify=TLS)
    return SyncPostgrestClient(base, headers=headers, http_client=http, retry_enabled=False)


def plain(there: PostgRest, sql: str) -> list[Any]:
    """Rows of plain SQL, as JSON."""
    whole = f"SELECT coalesce(json_agg(whole_row), '[]')::text FROM ({sql}) AS whole_row"  # noqa: S608
    rows: list[Any] = json.loads(run_sql(there.database.url, whole)[0][0])
    return rows


def filled(there: PostgRest) -> Any:
    """Log lines with every odd text, worker and cycle, or without."""
    made = client(there)
    lines = [
        {"source_type": "worker", "source_id": text, "log_level": "ERROR" if n % 3 else "INFO", "message": f"{n} {text}",
         "worker_id": worker, "cycle_number": n % 7 if n % 5 else None, "timestamp": (T0 + timedelta(minutes=n)).isoformat(),
         "metadata": {"module": text, "at": {"line": n}, "list": [n, text]}}
        for n, (text, worker) in enumerate(product(ODD, (None, "w1", "w,2")))
    ]  # fmt: skip
    assert len(made.from_("system_logs").insert(lines).execute().data) == len(lines)
    return made


Ask = Callable[[Any], Any]
QUERIES: dict[str, tuple[Ask, str]] = {
    "everything": (lambda c: c.from_("system_logs").select(), "SELECT * FROM system_logs"),
    "columns": (lambda c: c.from_("system_logs").select("id", "message"), "SELECT id, message FROM system_logs"),
    "renamed and cast": (
        lambda c: c.from_("system_logs").select("number:cycle_number::text", "line:metadata->at->line", "metadata->>module"),
        "SELECT cycle_number::text AS number, metadata -> 'at' -> 'line' AS line, metadata ->> 'module' AS module FROM system_logs",
    ),
    "of a list": (lambda c: c.from_("system_logs").select("x:metadata->list->>1"), "SELECT metadata -> 'list' ->> 1 AS x FROM system_logs"),
    "eq": (
        lambda c: c.from_("system_logs").select().eq("source_id", 'say "no"'),
        """SELECT * FROM system_logs WHERE source_id = 'say "no"'""",
    ),
    "neq": (lambda c: c.from_("system_logs").select().neq("cycle_number", 3), "SELECT * FROM system_logs WHERE cycle_number <> 3"),
    "lt and gte": (
        lambda c: c.from_("system_logs").select().lt("cycle_number", 5).gte("cycle_number", 2),
        "SELECT * FROM system_logs WHERE cycle_number < 5 AND cycle_number >= 2",
    ),
    "times": (
        lambda c: c.from_("system_logs").select().gt("timestamp", T0.isoformat()).lte("timestamp", (T0 + timedelta(minutes=9)).isoformat()),
        "SELECT * FROM system_logs WHERE timestamp > '2026-05-01T12:00Z' AND timestamp <= '2026-05-01T12:09Z'",
    ),
    "in": (
        lambda c: c.from_("system_logs").select().in_("source_id", ["a,b", "(all)", 'say "no"', "back\\slash"]),
        """SELECT * FROM system_logs WHERE source_id IN ('a,b', '(all)', 'say "no"', 'back\\slash')""",
    ),
    "in nothing": (lambda c: c.from_("system_logs").select().in_("source_id", []), "SELECT * FROM system_logs WHERE false"),
    "null": (lambda c: c.from_("system_logs").select().is_("worker_id", "null"), "SELECT * FROM system_logs WHERE worker_id IS NULL"),
    "not null": (
        lambda c: c.from_("system_logs").select().not_.is_("worker_id", "null"),
        "SELECT * FROM system_logs WHERE worker_id IS NOT NULL",
    ),
    "not in": (
        lambda c: c.from_("system_logs").select().not_.in_("cycle_number", [1, 2]),
        "SELECT * FROM system_logs WHERE cycle_number NOT IN (1, 2)",
    ),
    "like": (lambda c: c.from_("system_logs").select().like("message", "1_%b"), "SELECT * FROM system_logs WHERE message LIKE '1_%b'"),
    "like with stars": (
        lambda c: c.from_("system_logs").select().like("message", "1*"), "SELECT * FROM system_logs WHERE message LIKE '1%'",
    ),
    "ilike": (
        lambda c: c.from_("system_logs").select().ilike("message", "%IN P%"), "SELECT * FROM system_logs WHERE message ILIKE '%in p%'",
    ),
    "a key": (
        lambda c: c.from_("system_logs").select().eq("metadata->>module", "In Progress"),
        "SELECT * FROM system_logs WHERE metadata ->> 'module' = 'In Progress'",
    ),
    "or": (
        lambda c: c.from_("system_logs").select().or_(
            'source_id.eq."a,b",and(cycle_number.gt.4,not.or(worker_id.is.null,worker_id.in.(w1))),id.not.gt.0'
        ),
        "SELECT * FROM system_logs WHERE source_id = 'a,b' OR (cycle_number > 4 AND NOT (worker_id IS NULL OR worker_id IN ('w1'))) "
        "OR NOT id > 0",
    ),
    "ordered": (
        lambda c: c.from_("system_logs").select("id").order("cycle_number", desc=True, nullsfirst=False).order("id"),
        "SELECT id FROM system_logs ORDER BY cycle_number DESC NULLS LAST, id",
    ),
    "ordered, empty first": (
        lambda c: c.from_("system_logs").select("id").order("cycle_number", desc=True).order("id", desc=True),
        "SELECT id FROM system_logs ORDER BY cycle_number DESC, id DESC",
    ),
    "a page": (
        lambda c: c.from_("system_logs").select().order("id").range(10, 14), "SELECT * FROM system_logs ORDER BY id LIMIT 5 OFFSET 10",
    ),
    "first": (
        lambda c: c.from_("system_logs").select().order("id").limit(3).offset(2), "SELECT * FROM system_logs ORDER BY id LIMIT 3 OFFSET 2",
    ),
    "rows of a function": (
        lambda c: c.rpc("func_get_tasks_by_status", {"status_filter": ["Queued", "In Progress"]}).select("id", "attempts").limit(5),
        "SELECT id, attempts FROM tasks WHERE status IN ('Queued', 'In Progress') ORDER BY created_at, id LIMIT 5",
    ),
}  # fmt: skip


def test_each_kind_of_query_gives_the_rows_of_the_same_sql(there: PostgRest) -> None:
    made = filled(there)
    made.from_("task_types").insert({"name": "image"}).execute()
    made.from_("tasks").insert([{"task_type": "image", "status": s} for s in ("Queued", "In Progress", "Complete")]).execute()
    for kind, (ask, sql) in QUERIES.items():
        got, wanted = ask(made).execute().data, plain(there, sql)
        if "ORDER BY" not in sql:
            got, wanted = sorted(got, key=json.dumps), sorted(wanted, key=json.dumps)
        assert got == wanted, kind
        assert wanted or kind == "in nothing", f"{kind}: proves nothing on no rows"


TEXT = st.sampled_from(ODD) | st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=4)
SIGNS = {"eq": "=", "neq": "<>", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
Filter = tuple[str, str, Any]
COMPARED = st.tuples(st.sampled_from(["source_id", "worker_id", "metadata->>module"]), st.sampled_from(sorted(SIGNS)), TEXT)
NUMBERS = st.tuples(st.just("cycle_number"), st.sampled_from(sorted(SIGNS)), st.integers(-1, 8))
LISTED = st.tuples(st.sampled_from(["source_id", "worker_id"]), st.just("in"), st.lists(TEXT, min_size=2, max_size=4))
ALIKE = st.tuples(st.sampled_from(["message", "source_id"]), st.just("like"), TEXT.filter(lambda x: "\\" not in x).map(lambda x: f"%{x}%"))
EMPTY = st.tuples(st.sampled_from(["worker_id", "cycle_number"]), st.just("is"), st.just("null"))
ANY = COMPARED | NUMBERS | LISTED | ALIKE | EMPTY


def as_sql(found: Filter, negated: bool, values: list[Any]) -> str:
    """The filter with bound values."""
    column, op, value = found
    column = "metadata ->> 'module'" if "->" in column else column
    if op == "is":
        sql = f"{column} IS NULL"
    else:
        values.append(value.replace("*", "%") if op == "like" else value)
        sql = f"{column} = ANY (${len(values)})" if op == "in" else f"{column} {SIGNS.get(op, 'LIKE')} ${len(values)}"
    return f"NOT ({sql})" if negated else sql


def as_said(found: Filter, negated: bool) -> str:
    """The filter within an `or`."""
    column, op, value = found
    value = f"({','.join(map(sanitize_param, value))})" if op == "in" else value if op == "is" else sanitize_param(value)
    return f"{column}.{'not.' * negated}{op}.{value}"


@given(
    each=st.lists(st.tuples(ANY, st.booleans()), max_size=3),
    either=st.lists(st.tuples(ANY, st.booleans()), max_size=3),
    down=st.booleans(),
    page=st.tuples(st.integers(0, 40), st.integers(0, 20)),
)
@settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_filters_give_the_rows_of_the_same_sql(
    there: PostgRest, each: list[tuple[Filter, bool]], either: list[tuple[Filter, bool]], down: bool, page: tuple[int, int]
) -> None:
    """Every operator with odd texts, negated or not, joined by *and* and by *or*, ordered and cut into a page."""
    if not run_sql(there.database.url, "SELECT FROM system_logs LIMIT 1"):
        filled(there)
    ask = client(there).from_("system_logs").select("id", count=CountMethod.exact)
    for (column, op, value), negated in each:
        kept = ask.not_ if negated else ask
        ask = getattr(kept, {"in": "in_", "is": "is_"}.get(op, op))(column, value)
    if either:
        ask = ask.or_(",".join(as_said(*x) for x in either))
    values: list[Any] = []
    wanted = [as_sql(*x, values) for x in each] + [f"({' OR '.join(as_sql(*x, values) for x in either)})"] * bool(either)
    where = f" WHERE {' AND '.join(wanted)}" if wanted else ""
    sql = f"SELECT id FROM system_logs{where} ORDER BY id{' DESC' * down}"  # noqa: S608
    ids = [r["id"] for r in run_sql(there.database.url, sql, *values)]
    offset = min(page[1], len(ids))
    got = ask.order("id", desc=down).limit(page[0]).offset(offset).execute()
    assert ([r["id"] for r in got.data], got.count) == (ids[offset:][: page[0]], len(ids))


def test_a_list_is_cut_in_silence_and_only_the_count_tells(there: PostgRest) -> None:
    made = filled(there)
    there.rest.max_rows = 20
    all_of_it = len(ODD) * 3
    got = made.from_("system_logs").select("id", count=CountMethod.exact).limit(5000).execute()
    assert (len(got.data), got.count) == (20, all_of_it)
    got = made.from_("system_logs").select("id").execute()
    assert (len(got.data), got.count) == (20, None)
    pages = [made.from_("system_logs").select("id").order("id").range(n, n + 19).execute().data for n in (0, 20)]
    assert [len(p) for p in pages] == [20, all_of_it - 20]
    head = made.from_("system_logs").select("id", count=CountMethod.exact, head=True).execute()
    assert (head.data, head.count) == ([], all_of_it)


def test_ranges_and_their_headers(there: PostgRest) -> None:
    filled(there)
    n = len(ODD) * 3
    keys = {"apikey": there.service_key, "Authorization": f"Bearer {there.service_key}"}
    cases: list[tuple[dict[str, str], str, tuple[int, str | None]]] = [
        ({}, "limit=3", (200, "0-2/*")),
        ({"Prefer": "count=exact"}, "limit=3&offset=1", (206, f"1-3/{n}")),
        ({"Prefer": "count=exact"}, "", (200, f"0-{n - 1}/{n}")),
        ({"Range-Unit": "items", "Range": "5-9"}, "", (200, "5-9/*")),
        ({"Range": "30-"}, "", (200, f"30-{n - 1}/*")),
        ({"Prefer": "count=exact"}, "id=lt.0", (200, "*/0")),
        ({"Prefer": "count=exact"}, f"offset={n + 1}", (416, None)),
    ]
    for headers, query, wanted in cases:
        got = httpx.get(f"{there.url}/rest/v1/system_logs?{query}", headers=keys | headers, verify=TLS)
        assert (got.status_code, got.headers.get("Content-Range")) == wanted, (headers, query)
    assert got.json()["code"] == "PGRST103"


def test_rows_are_made_and_changed_and_given_back(there: PostgRest) -> None:
    made = client(there)
    fresh = made.from_("workers").insert({"id": "w1", "status": "spawning", "metadata": {"runpod_id": "p1"}}).execute().data
    assert fresh == plain(there, "SELECT * FROM workers")
    assert fresh[0]["last_heartbeat"] is None  # since 2026; before, a new row looked alive
    changed = made.from_("workers").update({"status": "error", "last_heartbeat": T0.isoformat()}).eq("metadata->>runpod_id", "p1").execute()
    assert changed.data == plain(there, "SELECT * FROM workers WHERE status = 'error'") != []
    assert made.from_("workers").update({"status": "active"}).eq("status", "spawning").execute().data == []
    with pytest.raises(APIError, match="contains 0 rows"):
        made.from_("workers").update({"status": "active"}).eq("id", "w9").select().single().execute()
    assert made.from_("workers").select().eq("id", "w1").single().execute().data["status"] == "error"
    assert made.from_("workers").select().eq("id", "w9").maybe_single().execute() is None
    assert Counter(c.method for c in there.changing()) == {"POST": 1, "PATCH": 3}


REFUSED: dict[str, tuple[Ask, int, str, str]] = {
    "no such table": (lambda c: c.from_("nothing").select(), 404, "PGRST205", "public.nothing"),
    "no such column": (lambda c: c.from_("workers").select("pod"), 400, "42703", "column workers.pod does not exist"),
    "no such column to write": (
        lambda c: c.from_("tasks").update({"error_details": "x"}).eq("attempts", 1), 400, "PGRST204", "error_details"
    ),
    "no row": (lambda c: c.from_("workers").select().single(), 406, "PGRST116", "single JSON object"),
    "unknown state": (lambda c: c.from_("tasks").select().eq("status", "in progress"), 400, "22P02", "task_status"),
    "twice": (lambda c: c.from_("task_types").insert([{"name": "a"}, {"name": "a"}]), 409, "23505", "duplicate key"),
    "of nobody": (lambda c: c.from_("tasks").insert({"task_type": "unknown"}), 409, "23503", "foreign key"),
    "no such function": (lambda c: c.rpc("count_tasks", {}), 404, "PGRST202", "count_tasks without parameters"),
    "wrong argument": (
        lambda c: c.rpc("func_reset_orphaned_tasks", {"timeout_minutes": 5}), 404, "PGRST202", "func_reset_orphaned_tasks(timeout_minutes)"
    ),
    "missing argument": (lambda c: c.rpc("func_mark_task_failed", {"error_message_param": "x"}), 404, "PGRST202", "func_mark_task_failed"),
    "overloads": (lambda c: c.rpc("func_worker_heartbeat_with_logs", {"worker_id_param": "w"}), 300, "PGRST203", "best candidate"),
    "a writer read": (lambda c: c.rpc("auto_fail_stale_tasks", {}, get=True), 405, "25006", "read-only transaction"),
    "no operator": (lambda c: c.from_("workers").select().filter("id", "is like", "x"), 400, "PGRST100", "parse filter"),
    "another schema": (lambda c: c.schema("internal").from_("queue").select(), 406, "PGRST106", "internal"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused_is_refused_in_the_words_of_the_real_one(there: PostgRest, kind: str) -> None:
    ask, status, code, words = REFUSED[kind]
    seen: list[int] = []
    made = client(there)
    made.session.event_hooks["response"] = [lambda r: seen.append(r.status_code)]
    with pytest.raises(APIError) as e:
        ask(made).execute()
    assert (seen[-1], e.value.code) == (status, code)
    assert words in (e.value.message or "")


def test_keys_and_roles(there: PostgRest, new_url: str) -> None:
    """The gateway looks at the key, PostgREST at the token, PostgreSQL at the role; row security hides tasks without a word."""
    client(there).from_("task_types").insert({"name": "image"}).execute()
    client(there).from_("tasks").insert({"task_type": "image"}).execute()
    base = f"{there.url}/rest/v1/tasks"
    assert httpx.get(base).json()["message"] == "No API key found in request"
    assert httpx.get(base, headers={"apikey": "sb_other_project"}).json()["message"] == "Invalid API key"
    assert httpx.get(base, params={"apikey": there.anon_key}).json() == []
    anonymous = client(there, there.anon_key)
    assert anonymous.from_("tasks").select().execute().data == []
    for bearer, code in ((token("service_role", lives_s=-5), "PGRST301"), (token("service_role", secret=b"another"), "PGRST301")):
        with pytest.raises(APIError) as e:
            client(there, bearer=bearer).from_("tasks").select().execute()
        assert e.value.code == code
    for asked in (anonymous, client(there, bearer=token("authenticated"))):
        with pytest.raises(APIError) as e:
            asked.from_("workers").select().execute()
        assert (e.value.code, e.value.message) == ("42501", "permission denied for table workers")
        with pytest.raises(APIError, match="permission denied for function"):
            asked.rpc("func_cleanup_old_logs", {}).execute()
    with PostgRest(new_url, anonymous=False) as closed:
        assert httpx.get(f"{closed.url}/rest/v1/tasks", headers={"apikey": closed.anon_key}).json()["code"] == "PGRST302"


def test_the_database_s_own_states_are_told(there: PostgRest, server: Postgres) -> None:
    with PostgRest(orchestrator_database(server, Age.NEW, checked=True), statement_timeout_ms=80) as strict:
        with pytest.raises(APIError) as e:
            client(strict).from_("workers").insert({"id": "w1", "status": "spawning"}).execute()
        assert e.value.code == "23514"
        run_sql(strict.database.url, "CREATE VIEW slow AS SELECT pg_sleep(5) IS NULL AS x")
        run_sql(strict.database.url, "GRANT SELECT ON slow TO service_role")
        with pytest.raises(APIError) as e:
            client(strict).from_("slow").select("x").execute()
        assert e.value.code == "57014"
    with PostgRest("postgresql://app@127.0.0.1:1/gone") as gone, pytest.raises(APIError) as e:
        client(gone).from_("workers").select().execute()
    assert e.value.code == "PGRST000"


def test_a_function_is_found_without_being_called(there: PostgRest) -> None:
    """OPTIONS tells readers from writers, and the root lists both: the classification of calls rests on the same."""
    ask = client(there).session
    paths = ask.get("/").json()["paths"]
    listed = {p.removeprefix("/rpc/") for p in paths if p.startswith("/rpc/")}
    reads = {f for f in listed if "GET" in ask.options(f"/rpc/{f}").headers["Allow"]}
    assert reads == READ_ONLY < listed
    assert ask.options("/rpc/func_claim_available_task").json()["code"] == "PGRST202"
    assert "/workers" in paths
    assert "PATCH" in ask.options("/workers").headers["Allow"]
    assert there.changing() == []


def test_the_stand_in_says_what_it_does_not_know(there: PostgRest) -> None:
    """A test must not take its answer for one of the real server."""
    made = client(there)
    for ask in (
        made.from_("workers").delete().eq("id", "x"),
        made.from_("workers").select("*, tasks(*)"),
        made.from_("workers").select("id", count=CountMethod.planned),
        made.from_("workers").select().eq("tasks.id", "x"),
    ):
        with pytest.raises(APIError) as e:
            ask.execute()
        assert e.value.code == "STAND-IN"
