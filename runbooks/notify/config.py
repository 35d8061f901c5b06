"""notifications.yaml as types: channels, who gets what, quiet hours, addresses for links."""

import re
from collections.abc import Iterator
from datetime import datetime, time, timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, model_validator

from runbooks.alerts.matchers import Matcher, matches
from runbooks.core.base import Frozen
from runbooks.core.fleet import NAME
from runbooks.core.names import there_are

DAY = timedelta(days=1)
HOUR = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")


class Address(Frozen):
    """Where a channel's apprise URL is found: exactly one of these names."""

    env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    secret: str | None = None  # name of a Prefect Secret block
    file: str | None = None  # a file that only its owner can read

    @model_validator(mode="after")
    def _one(self) -> "Address":
        given = [n for n in ("env", "secret", "file") if getattr(self, n)]
        if len(given) != 1:
            raise ValueError(f"give exactly one of env, secret, file (given: {', '.join(given) or 'none'})")
        return self

    @property
    def words(self) -> str:
        """For errors: where it was looked for."""
        if self.env:
            return f"environment variable {self.env}"
        return f"Prefect Secret block {self.secret}" if self.secret else f"file {self.file}"


class Channel(Frozen):
    """One way to reach people."""

    url: Address
    person: str = Field(default="", max_length=80)  # the one person behind it: gets signed approve links

    @model_validator(mode="before")
    @classmethod
    def _no_plain_url(cls, data: Any) -> Any:
        """Here and not at `url`, so that the error does not show the value: it is most likely a secret."""
        if isinstance(data, dict) and not isinstance(data.get("url", {}), dict | Address):
            raise ValueError("url: an address is a secret and does not belong here: write {env: NAME} or {secret: BLOCK}")
        return data


class Route(Frozen):
    """Messages that match go to these channels."""

    match: tuple[Matcher, ...] = Field(min_length=1)
    to: tuple[str, ...]  # empty: nobody
    go_on: bool = False  # look at the routes below as well

    def matches(self, labels: dict[str, str]) -> bool:
        """True if every matcher holds."""
        return all(matches(m, labels) for m in self.match)


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as e:
        raise ValueError(f"no time zone {name!r}; write it as in Europe/Berlin") from e
    return name


def _hour(text: str) -> str:
    if not HOUR.fullmatch(text):
        raise ValueError('must be a time of day in quotes, "22:00"')
    return text


Hour = Annotated[str, AfterValidator(_hour)]


class Quiet(Frozen):
    """Every day from `begin` to `end`, what needs nobody is held and sent as one digest at `end`."""

    zone: Annotated[str, AfterValidator(_zone)]
    begin: Hour
    end: Hour

    @model_validator(mode="after")
    def _some_time(self) -> "Quiet":
        if self.begin == self.end:
            raise ValueError("begin and end are the same time; leave `quiet` out to have none")
        return self

    def until(self, now: datetime) -> datetime | None:
        """The end of the quiet hours that `now` lies in; None outside them."""
        zone = ZoneInfo(self.zone)
        here = now.astimezone(zone)
        for day in (here - DAY, here):
            start = datetime.combine(day.date(), time.fromisoformat(self.begin), zone)
            stop = datetime.combine(day.date(), time.fromisoformat(self.end), zone)
            if self.end < self.begin:
                stop = datetime.combine(day.date() + DAY, time.fromisoformat(self.end), zone)
            if start.timestamp() <= now.timestamp() < stop.timestamp():
                return stop
        return None


class Links(Frozen):
    """Addresses as people's phones reach them; empty: no such link."""

    ui: str = Field(default="", pattern=r"^$|^https?://[^\s<>\"]+$")  # Prefect's UI
    gateway: str = Field(default="", pattern=r"^$|^https?://[^\s<>\"]+$")  # for approve links


class Notifications(Frozen):
    """The whole file."""

    channels: dict[Annotated[str, Field(pattern=NAME)], Channel] = Field(min_length=1)
    routes: tuple[Route, ...] = ()  # the first that matches is taken
    default: tuple[str, ...] = Field(min_length=1)  # who gets what no route matches
    quiet: Quiet | None = None
    links: Links = Links()
    repeat_s: float = Field(default=4 * 3600, ge=0)  # the same news of one incident is not sent again within
    fold: int = Field(default=4, ge=2)  # this many targets of a fleet with one cause within fold_s are one message
    fold_s: float = Field(default=300, ge=0)

    @model_validator(mode="after")
    def _known_channels(self) -> "Notifications":
        for where, names in self._named():
            unknown = [n for n in names if n not in self.channels]
            if unknown:
                raise ValueError(f"{where}: no channel {unknown[0]!r}; {there_are(unknown[0], sorted(self.channels))}")
        return self

    def _named(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        yield "default", self.default
        for i, route in enumerate(self.routes):
            yield f"routes.{i}.to", route.to

    def channels_for(self, labels: dict[str, str]) -> tuple[str, ...]:
        """The channels that get a message with these labels, each once."""
        found: list[str] = []
        matched = False
        for route in self.routes:
            if route.matches(labels):
                matched = True
                found += route.to
                if not route.go_on:
                    break
        return tuple(dict.fromkeys(found if matched else self.default))
