# ruff: noqa: S608 - every value is written by `literal`, every name by `name`
"""Tables and functions of a real PostgreSQL by PostgREST's rules: SQL writes the JSON, SQL's own errors get PostgREST's status."""

import json
import re
from dataclasses import dataclass, field
from typing import Any, Protocol

import asyncpg

from tests.support.connections import Connections
from tests.support.postgrest_query import OPERATORS, RESERVED, Query, Refused, literal, name, parse, unknown_here

ONE = "application/vnd.pgrst.object+json"
STATUS = {"42P17": 500, "23503": 409, "23505": 409, "25006": 405, "42883": 404, "42P01": 404, "P0001": 400, "53400": 500} | {
    "08": 503, "28": 403, "0L": 403, "0P": 403, "53": 503, "09": 500, "25": 500, "2D": 500, "38": 500, "39": 500, "3B": 500,
    "40": 500, "54": 500, "55": 500, "57": 500, "58": 500, "F0": 500, "HV": 500, "P0": 500, "XX": 500,
}  # fmt: skip
"""HTTP status of a PostgreSQL error, by its code or the code's class; any other is 400 (PostgREST's documentation, Errors)."""
FUNCTION = (
    "SELECT proname, provolatile::text AS volatile, proretset AS many, pronargdefaults AS defaults, prorettype::regtype::text AS gives, "
    "coalesce(proargnames, '{}') AS names, coalesce(proargmodes::text[], '{}') AS modes, ARRAY(SELECT format_type(x, NULL) "
    "FROM unnest(proargtypes) WITH ORDINALITY AS a (x, i) ORDER BY i) AS types "
    "FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proname = $1 ORDER BY pronargs"
)


class Headers(Protocol):
    """By their names in any case."""

    def get(self, key: str, /) -> str | None:
        """Its text."""


@dataclass(frozen=True)
class Asked:
    """A request, its path below the interface's own."""

    method: str
    path: str
    pairs: tuple[tuple[str, str], ...]
    headers: Headers
    body: bytes
    role: str = "anon"

    def prefers(self, what: str) -> bool:
        """In its Prefer header."""
        return what in re.split(r"\s*,\s*", self.headers.get("Prefer") or "")


@dataclass(frozen=True)
class Answer:
    """Status, JSON text (or none) and headers."""

    status: int
    text: str = ""
    headers: dict[str, str] = field(default_factory=dict)


class Rest:
    """One database. No answer holds more than `max_rows`, and none says so."""

    def __init__(self, database: Connections, max_rows: int) -> None:
        self.database, self.max_rows = database, max_rows

    def answer(self, asked: Asked) -> Answer:
        """What PostgREST says. Never raises."""
        try:
            return self.database.run(lambda c: self._answer(c, asked))
        except Refused as e:
            return Answer(e.status, json.dumps(e.body))
        except (OSError, asyncpg.CannotConnectNowError) as e:
            message = "Database connection error. Retrying the connection."
            return Answer(503, json.dumps({"code": "PGRST000", "details": str(e), "hint": None, "message": message}))
        except asyncpg.PostgresError as e:
            code, said = e.sqlstate or "", str(e.args[0]).replace("column t.", f"column {asked.path}.")
            status = (401 if asked.role == "anon" else 403) if code == "42501" else STATUS.get(code, STATUS.get(code[:2], 400))
            return Answer(status, json.dumps({"code": code, "details": e.detail, "hint": e.hint, "message": said}))

    async def _answer(self, c: Any, asked: Asked) -> Answer:
        if (schema := asked.headers.get("Accept-Profile") or "public") != "public":
            raise Refused(406, "PGRST106", f"Invalid schema: {schema}", None, "Only the following schemas are exposed: public")
        kind, _, called = asked.path.partition("/")
        if not asked.path:
            return await self._root(c)
        return await (self._call(c, asked, called) if kind == "rpc" else self._table(c, asked, asked.path))

    async def _root(self, c: Any) -> Answer:
        """The paths of the OpenAPI description; what else it holds is left out."""
        rpc = await c.fetch("SELECT DISTINCT proname AS n FROM pg_proc WHERE pronamespace = 'public'::regnamespace")
        tables = await c.fetch("SELECT relname AS n FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v')")
        paths: dict[str, Any] = {f"/{r['n']}": {} for r in tables} | {f"/rpc/{r['n']}": {} for r in rpc}
        return Answer(200, json.dumps({"swagger": "2.0", "paths": paths}))

    async def _table(self, c: Any, asked: Asked, table: str) -> Answer:
        sql = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped"
        columns = {r["attname"] for r in await c.fetch(sql, f"public.{name(table)}")}
        if not columns:
            raise Refused(404, "PGRST205", f"Could not find the table 'public.{table}' in the schema cache")
        query, place = parse(asked.pairs), f"public.{name(table)}"
        match asked.method:
            case "GET" | "HEAD":
                return await self._rows(c, asked, f"{place} AS t", query, read_only=True)
            case "POST" | "PATCH":
                return await self._write(c, asked, place, query, columns)
            case "OPTIONS":
                return Answer(200, headers={"Allow": "OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE"})
        raise unknown_here(f"{asked.method} of a table")

    async def _write(self, c: Any, asked: Asked, place: str, query: Query, columns: set[str]) -> Answer:
        """INSERT or UPDATE from the body, by the columns that its first object names."""
        given = _json(asked.body)
        rows = given if isinstance(given, list) else [given]
        if not rows or not all(isinstance(r, dict) and r.keys() == rows[0].keys() for r in rows) or not rows[0]:
            raise Refused(400, "PGRST102", "All object keys must match")
        for key in rows[0].keys() - columns:
            shown = place.partition(".")[2].strip('"')
            raise Refused(400, "PGRST204", f"Could not find the '{key}' column of '{shown}' in the schema cache")
        names, source = [name(k) for k in rows[0]], f"json_populate_recordset(NULL::{place}, {literal(json.dumps(rows))})"
        if asked.method == "POST":
            change = f"INSERT INTO {place} ({', '.join(names)}) SELECT {', '.join(names)} FROM {source} RETURNING *"
        else:
            if isinstance(given, list) or query.limit is not None:
                raise unknown_here("PATCH with a list or a limit")
            sets = ", ".join(f"{n} = b.{n}" for n in names)
            change = f"UPDATE {place} AS t SET {sets} FROM {source} AS b{query.where} RETURNING t.*"
        answer = await self._rows(c, asked, "changed AS t", Query(query.columns, "", "", None, 0), first=f"WITH changed AS ({change}) ")
        whole = asked.prefers("return=representation")
        if asked.method == "POST":
            return Answer(201, answer.text if whole else "", {"Content-Range": "*/*"})
        return Answer(200, answer.text, answer.headers) if whole else Answer(204, "", answer.headers)

    async def _call(self, c: Any, asked: Asked, called: str) -> Answer:
        found = await c.fetch(FUNCTION, called)
        if asked.method == "OPTIONS" and found:
            return Answer(200, headers={"Allow": "OPTIONS,POST" if found[0]["volatile"] == "v" else "OPTIONS,GET,HEAD,POST"})
        if asked.method not in ("GET", "HEAD", "POST", "OPTIONS"):
            raise Refused(405, "PGRST101", f"Cannot use the {asked.method} method on RPC")
        given = _json(asked.body or b"{}") if asked.method == "POST" else _arguments(asked.pairs)
        if not isinstance(given, dict):
            raise unknown_here("a call without names")
        function = await _matching(c, found, called, given)
        types = _types(function)
        body = literal(json.dumps(given))

        def value(n: str) -> str:
            """Of the body by its JSON, of the query by its text."""
            if asked.method != "POST":
                return f"{literal(given[n])}::{types[n]}"
            return f"(SELECT b.{name(n)} FROM json_to_record({body}) AS b ({name(n)} {types[n]}))"

        call = f"public.{name(called)}({', '.join(f'{name(n)} := {value(n)}' for n in given)})"
        read_only = asked.method != "POST" or function["volatile"] != "v"
        if function["many"]:
            pairs = tuple(p for p in asked.pairs if asked.method == "POST" or p[0] not in given)
            return await self._rows(c, asked, f"{call} AS t", parse(pairs), read_only=read_only)
        async with c.transaction(readonly=read_only):
            await c.execute(f"SET LOCAL ROLE {asked.role}")
            text = await c.fetchval(f"SELECT to_json({call})::text" if function["gives"] != "void" else f"SELECT {call}::text")
        return Answer(204) if function["gives"] == "void" else Answer(200, text or "null")

    async def _rows(self, c: Any, asked: Asked, source: str, query: Query, *, read_only: bool = False, first: str = "") -> Answer:
        """A list (or the one object that was asked for) with its Content-Range."""
        offset, limit = _window(asked, query, self.max_rows)
        page = f"SELECT {query.columns} FROM {source}{query.where}{query.order} LIMIT {'ALL' if first else limit} OFFSET {offset}"
        counts = f"(SELECT count(*) FROM {source}{query.where})" if asked.prefers("count=exact") else "NULL"
        if re.search(r"count=(planned|estimated)", asked.headers.get("Prefer") or ""):
            raise unknown_here("estimated counts")
        async with c.transaction(readonly=read_only):
            await c.execute(f"SET LOCAL ROLE {asked.role}")
            wanted = f"coalesce(json_agg(whole_row), '[]')::text AS body, count(*) AS n, {counts} AS total"
            row = await c.fetchrow(f"{first}SELECT {wanted} FROM ({page}) AS whole_row")
            if ONE in (asked.headers.get("Accept") or "") and row["n"] != 1:
                why = f"The result contains {row['n']} rows"
                raise Refused(406, "PGRST116", "Cannot coerce the result to a single JSON object", why)
        total = row["total"]
        if total is not None and offset > total:
            why = f"An offset of {offset} was requested, but there are only {total} rows."
            raise Refused(416, "PGRST103", "Requested range not satisfiable", why)
        shown = f"{offset}-{offset + row['n'] - 1}" if row["n"] else "*"
        text = row["body"][1:-1] if ONE in (asked.headers.get("Accept") or "") else row["body"]
        part = total is not None and row["n"] < total
        return Answer(206 if part else 200, text, {"Content-Range": f"{shown}/{'*' if total is None else total}"})


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        raise Refused(400, "PGRST102", "Empty or invalid json") from None


def _window(asked: Asked, query: Query, most: int) -> tuple[int, int]:
    """First row and number of rows: from limit and offset, or else from the Range header of a GET."""
    asked_for = re.fullmatch(r"(\d+)-(\d*)", asked.headers.get("Range") or "") if asked.method in ("GET", "HEAD") else None
    if asked_for and query.limit is None and not query.offset:
        offset = int(asked_for[1])
        return offset, min(int(asked_for[2]) - offset + 1, most) if asked_for[2] else most
    return query.offset, most if query.limit is None else min(query.limit, most)


def _arguments(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Of a call by GET: whatever is no filter and no reserved word."""
    return {k: v for k, v in pairs if k not in RESERVED and v.partition(".")[0] not in OPERATORS}


def _types(function: Any) -> dict[str, str]:
    """Its arguments by name."""
    modes = function["modes"] or ["i"] * len(function["names"])
    return dict(zip((n for n, m in zip(function["names"], modes, strict=True) if m == "i"), function["types"], strict=True))


async def _matching(c: Any, found: list[Any], called: str, given: dict[str, Any]) -> Any:
    """The one function that takes exactly these names. Raises Refused for none and for several."""
    fit = [f for f in found if given.keys() <= _types(f).keys() and {*list(_types(f))[: len(_types(f)) - f["defaults"]]} <= given.keys()]
    if len(fit) == 1:
        return fit[0]
    if fit:
        all_of_them = ", ".join(f"public.{called}({', '.join(f'{n} => {t}' for n, t in _types(f).items())})" for f in fit)
        hint = "Try renaming the parameters or the function itself in the database so function overloading can be resolved"
        raise Refused(300, "PGRST203", f"Could not choose the best candidate function between: {all_of_them}", None, hint)
    names = ", ".join(sorted(given))
    alike = "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND left(proname, 8) = left($1, 8) ORDER BY 1 LIMIT 1"
    near = await c.fetchval(alike, called)
    shown = f"public.{called}({names})" if given else f"public.{called} without parameters"
    searched = f"with parameter{'s' * (len(given) > 1)} {names}" if given else "without parameters"
    details = f"Searched for the function public.{called} {searched}, but no matches were found in the schema cache."
    perhaps = f"Perhaps you meant to call the function public.{near}" if near else None
    raise Refused(404, "PGRST202", f"Could not find the function {shown} in the schema cache", details, perhaps)
