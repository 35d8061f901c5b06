"""Reads what the provider has of what the orchestrator asks for: the type, everywhere and where the request is tied to."""

import os
import re

from runbooks.core.orchestrator_config import Orchestrator
from runbooks.core.reading import ODD_ANSWER, Absent, Known, Source, Unknown, UnknownReason
from runbooks.parsers.runpod_stock import TypeStock, Volume
from runbooks.spawning.evidence import Stock
from tasks.clients.railway import RailwayClient
from tasks.clients.runpod import NotFound, RunPodClient
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.transport.base import TransportError

MOST_OTHERS = 5
MOST_PLACES = 5
CLOUDS = {"SECURE": True, "COMMUNITY": False}
PLACE = re.compile(r"[A-Z]{2,4}(?:-[A-Z0-9]{1,4}){1,3}")


@diagnostic("RunPod stock")
def read_stock(context: Context, config: Orchestrator) -> Known[Stock] | Absent | Unknown:
    """Stock of the requested GPU type. Of the orchestrator's variables only names that the provider knows are kept."""
    source = Source(command="gpuTypes { lowestPrice { stockStatus } }", host="runpod", taken_at=context.now())
    try:
        asked = asked_for(context, config)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=f"what the orchestrator asks for: {e.detail}", source=source)
    except ODD_ANSWER as e:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=f"the variables' answer has another shape: {e}", source=source)
    if not asked["gpu_type"]:
        return Absent(
            proof=f"neither the fleet file nor {config.request.gpu_type_variable} names a GPU type", source=source
        )
    try:
        client = RunPodClient(config.runpod, context.redactor)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=source)
    try:
        return _stock(client, config, asked, source)
    except (TransportError, NotFound) as e:
        reason = e.reason if isinstance(e, TransportError) else UnknownReason.FAILED
        return Unknown(reason=reason, detail=str(e)[:300], source=source)
    finally:
        client.close()


def asked_for(context: Context, config: Orchestrator) -> dict[str, str]:
    """gpu_type, data_center, storage and cloud_type: of the fleet file, else of the orchestrator's variables. Raises TransportError."""
    r = config.request
    names = {"gpu_type": r.gpu_type_variable, "data_center": r.data_center_variable, "storage": r.storage_variable,
             "cloud_type": r.cloud_type_variable}  # fmt: skip
    given = {what: str(getattr(r, what)) for what in names}
    if given["gpu_type"]:
        return given
    found: dict[str, str] = dict(os.environ)
    if config.railway is not None:
        client = RailwayClient(config.railway, context.redactor)
        try:
            found = client.variables()
        finally:
            client.close()
    return {what: given[what] or found.get(name, "").strip()[:100] for what, name in names.items()}


def _stock(client: RunPodClient, config: Orchestrator, asked: dict[str, str], source: Source) -> Known[Stock] | Unknown:
    places, tied = _places(client, config, asked)
    cloud = asked["cloud_type"].upper() if asked["cloud_type"].upper() in CLOUDS else ""
    types = _in(client, config.request.gpus, places, CLOUDS.get(cloud))
    mine = next((t for t in types if asked["gpu_type"] in (t.id, t.name)), None)
    if mine is None:
        said = f"the provider knows no GPU type of the name that {config.request.gpu_type_variable} (or the fleet file) gives"
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=said, source=source)
    stock = Stock(gpu_type=mine.id, gpus=config.request.gpus, anywhere=mine.anywhere, data_center=", ".join(places), tied_by=tied,
                  here=mine.here, others=_others(types, mine, bool(places)), cloud=cloud, in_cloud=mine.in_cloud,
                  here_in_cloud=mine.here_in_cloud)  # fmt: skip
    return Known(value=stock, source=source)


def _in(client: RunPodClient, gpus: int, places: tuple[str, ...], secure: bool | None) -> tuple[TypeStock, ...]:
    """Every type; `here` and `here_in_cloud` are its stock in the first of the places that has any."""
    types = client.stock(gpus, places[0] if places else "", secure)
    for place in places[1:]:
        there = {t.id: t for t in client.stock(gpus, place, secure)}
        types = tuple(_either(t, there.get(t.id, t)) for t in types)
    return types


def _either(t: TypeStock, other: TypeStock) -> TypeStock:
    return t.model_copy(update={"here": t.here or other.here, "here_in_cloud": t.here_in_cloud or other.here_in_cloud})


def _places(client: RunPodClient, config: Orchestrator, asked: dict[str, str]) -> tuple[tuple[str, ...], str]:
    """(data centres, what ties the request to them). A variable that holds something else is not shown."""
    r = config.request
    if asked["storage"]:
        volumes: tuple[Volume, ...] = client.volumes()
        volume = next((v for v in volumes if asked["storage"] in (v.name, v.id)), None)
        if volume:
            place = volume.data_center
            return (place,), f"network volume {volume.name or volume.id} ({r.storage_variable}) lies in {place}"
    named = [p.strip() for p in asked["data_center"].split(",")]
    places = tuple(p for p in named if PLACE.fullmatch(p))[:MOST_PLACES]
    return places, f"{r.data_center_variable} names {', '.join(places)}" if places else ""


def _others(types: tuple[TypeStock, ...], mine: TypeStock, tied: bool) -> tuple[str, ...]:
    """Types that would do and are in stock, the smallest first."""
    fit = [
        (t.memory_gb, t.id, t.here if tied else t.anywhere)
        for t in types
        if t.id != mine.id and t.memory_gb >= mine.memory_gb
    ]
    return tuple(f"{name} ({word})" for _, name, word in sorted(fit) if word)[:MOST_OTHERS]
