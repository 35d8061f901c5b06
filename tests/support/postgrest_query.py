"""PostgREST's query grammar as SQL: which columns, which rows, in which order. What the stand-in does not know, it refuses aloud."""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

COMPARE = {"eq": "=", "neq": "<>", "gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "like": "LIKE", "ilike": "ILIKE"}
IS = {"null": "NULL", "not_null": "NOT NULL", "true": "TRUE", "false": "FALSE", "unknown": "UNKNOWN"}
OPERATORS = (*COMPARE, "in", "is", "not")  # what begins a filter
LOGIC = ("or", "and", "not.or", "not.and")
RESERVED = ("select", "order", "limit", "offset", "columns", *LOGIC)


class Refused(Exception):
    """An answer that is an error, in PostgREST's four fields."""

    def __init__(self, status: int, code: str, message: str, details: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"code": code, "details": details, "hint": hint, "message": message}


def unknown_here(what: str) -> Refused:
    """The real server knows it, the stand-in does not: a test must not take this for an answer of the real one."""
    return Refused(501, "STAND-IN", f"the stand-in does not know {what}")


def literal(text: str) -> str:
    """A constant of no type yet, as PostgREST sends one."""
    return "'" + text.replace("'", "''") + "'"


def name(text: str) -> str:
    """A table, column or function."""
    return '"' + text.replace('"', '""') + '"'


def unquoted(text: str) -> str:
    """Without double quotes and the backslashes that they need."""
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if len(text) > 1 and text[0] == text[-1] == '"' else text


def parts(text: str, mark: str = ",") -> list[str]:
    """Split where the mark stands outside quotes and parentheses."""
    found, deep, quoted, escaped = [""], 0, False, False
    for x in text:
        if not escaped and x == '"':
            quoted = not quoted
        deep += 0 if quoted else (x == "(") - (x == ")")
        if x == mark and not deep and not quoted:
            found.append("")
        else:
            found[-1] += x
        escaped = quoted and x == "\\" and not escaped
    return found


def field(text: str) -> str:
    """A column, or a path into a JSON column."""
    head, *path = re.split(r"(->>|->)", text)
    column = f"t.{name(unquoted(head))}"
    if not path:
        return column
    steps = zip(path[::2], path[1::2], strict=True)
    return f"(to_jsonb({column}){''.join(arrow + (key if key.isdecimal() else literal(unquoted(key))) for arrow, key in steps)})"


def _selected(item: str) -> str:
    if item == "*":
        return "t.*"
    if "(" in item:
        raise unknown_here(f"embedding: {item}")
    found = re.fullmatch(r"(?:(?P<alias>[^:]+):(?!:))?(?P<field>[^:]+?)(?:::(?P<cast>\w+))?", item)
    if not found:
        raise Refused(400, "PGRST100", f'"failed to parse select parameter ({item})"')
    shown = found["alias"] or re.split(r"->>?", found["field"])[-1]
    cast = f"::{found['cast']}" if found["cast"] else ""
    return f"{field(found['field'])}{cast} AS {name(unquoted(shown))}"


def condition(column: str, said: str) -> str:
    """One filter: `eq.3`, `not.is.null`, `in.(a,"b,c")`."""
    op, _, value = said.partition(".")
    sql = field(column)
    if op == "not":
        return f"NOT ({condition(column, value)})"
    if op in COMPARE:
        return f"{sql} {COMPARE[op]} {literal(value.replace('*', '%') if op.endswith('like') else value)}"
    if op == "is" and value.lower() in IS:
        return f"{sql} IS {IS[value.lower()]}"
    if op == "in" and value[:1] == "(" and value[-1:] == ")":
        values = [literal(unquoted(v)) for v in parts(value[1:-1])] if value != "()" else []
        return f"{sql} IN ({', '.join(values)})" if values else "FALSE"
    raise Refused(400, "PGRST100", f'"failed to parse filter ({said})" (line 1, column 1)', f'unexpected "{op[:1]}" expecting operator')


def logic(key: str, said: str) -> str:
    """`or=(a.eq.1,and(b.is.null,c.gt.3))`."""
    if said[:1] != "(" or said[-1:] != ")":
        raise Refused(400, "PGRST100", f'"failed to parse logic tree ({said})" (line 1, column 1)', "unexpected end of input")
    joined = f" {key.removeprefix('not.').upper()} ".join(_branch(x) for x in parts(said[1:-1]))
    return f"{'NOT ' * key.startswith('not.')}({joined})"


def _branch(said: str) -> str:
    if found := re.fullmatch(r"((?:not\.)?(?:or|and))(\(.*\))", said, re.S):
        return logic(found[1], found[2])
    column, *rest = parts(said, ".")
    if not (asked := re.fullmatch(r"((?:not\.)?\w+)\.(.*)", ".".join(rest), re.S)):
        raise Refused(400, "PGRST100", f'"failed to parse logic tree ({said})" (line 1, column 1)', "unexpected end of input")
    return condition(column, f"{asked[1]}.{unquoted(asked[2])}")


def _ordered(item: str) -> str:
    column, *how = item.split(".")
    words = {"asc": "ASC", "desc": "DESC", "nullsfirst": "NULLS FIRST", "nullslast": "NULLS LAST"}
    if not set(how) <= set(words):
        raise Refused(400, "PGRST100", f'"failed to parse order ({item})" (line 1, column 1)')
    return " ".join((field(column), *(words[w] for w in how)))


class Query(NamedTuple):
    """Parts of a SELECT from something called `t`. The limit is None where none was given."""

    columns: str
    where: str
    order: str
    limit: int | None
    offset: int


def _conditions(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    for key, said in pairs:
        if key in LOGIC:
            yield logic(key, said)
        elif key not in RESERVED:
            if len(parts(key, ".")) > 1:
                raise unknown_here(f"filters on embedded tables: {key}")
            yield condition(key, said)


def _number(text: str, key: str) -> int:
    if not text.isdecimal():
        raise Refused(400, "PGRST100", f'"failed to parse {key} ({text})"')
    return int(text)


def parse(pairs: Collection[tuple[str, str]]) -> Query:
    """What a query string asks for. Raises Refused."""
    last = dict(pairs)
    wanted = " AND ".join(_conditions(pairs))
    return Query(
        columns=", ".join(_selected(x) for x in parts(last.get("select") or "*")),
        where=f" WHERE {wanted}" if wanted else "",
        order=f" ORDER BY {', '.join(_ordered(x) for x in parts(last['order']))}" if last.get("order") else "",
        limit=_number(last["limit"], "limit") if "limit" in last else None,
        offset=_number(last.get("offset") or "0", "offset"),
    )
