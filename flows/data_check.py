"""The data-check runbook as a Prefect flow."""

from flows.standard import standard_flow

data_check = standard_flow(
    "data-check",
    "Training data that does not read: JSONL and token indexes, with file, line and offset. Changes nothing. "
    "Options: data, text_key, vocabulary, log.",
    "node that holds the data.",
)
