"""Which runs are asked for, as a filter of the Prefect API."""

from collections.abc import Iterable
from datetime import datetime

from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterEndTime,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterName,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import StateType


def run_filter(
    tags: Iterable[str],
    states: Iterable[StateType] | None = None,
    name: str | None = None,
    name_has: str | None = None,
    since: datetime | None = None,
    before: datetime | None = None,
    ended_since: datetime | None = None,
    any_of: Iterable[str] = (),
    has_deployment: bool | None = None,
) -> FlowRunFilter:
    """Runs with all these tags (and one `any_of` those), in one of these states, of that name
    (or with `name_has` in it), planned after `since` or before `before`, made from a deployment or not."""
    made = FlowRunFilter(tags=FlowRunFilterTags(all_=list(tags), any_=list(any_of) or None))
    if states:
        made.state = FlowRunFilterState(type=FlowRunFilterStateType(any_=list(states)))
    if name is not None:
        made.name = FlowRunFilterName(any_=[name])
    if name_has is not None:
        made.name = FlowRunFilterName(like_=name_has)
    if ended_since is not None:
        made.end_time = FlowRunFilterEndTime(after_=ended_since)
    if has_deployment is not None:
        made.deployment_id = FlowRunFilterDeploymentId(is_null_=not has_deployment)
    if since is not None or before is not None:
        made.expected_start_time = FlowRunFilterExpectedStartTime(after_=since, before_=before)
    return made
