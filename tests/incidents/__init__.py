"""Public incidents rebuilt and judged: each through the readers (raw outputs, files, processes, a fake API) where one can be fed.

Every test carries `pytest.mark.incident("ZG08", came="right", fed="readers", known=True)`:
- the incident's id, as its collection names it;
- came: what the runbook says today, which the test asserts: "right", "open" (honestly *cannot tell*, or right in second
  place), "blind" (nothing of it is seen), "wrong" or "harmful" (wrong, with a plan that hurts);
- fed: "readers" (the product's own readers read the raw thing) or "evidence" (built by hand, because no reader can be fed);
- known: whether the judge was written or changed with this incident in sight;
- first: of a neighbour (neighbours.yaml), an incident that was invented with its right answer before it was judged: what the
  runbook said at first sight. It is known from the moment that its judge is mended for it;
- twin: what was changed in the incident, where this is a twin whose verdict must differ;
- source, runbook, said, round: of an incident of unseen.yaml, its thread, its runbook, what was said at first sight if not right, its set;
- outside, first_outside: of such a one that came open, how sure it is (was) of a cause outside its answer.
`python -m tests.incidents --write` runs them and publishes the counts as tests/RESULTS.md.
"""
