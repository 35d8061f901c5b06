"""The published scorecard: what was done to the engine, and how often its promises held.

The fault harness notes each fault that it plants (notes.py), the server's record is audited when a test process ends
(audit.py), and `python -m tests.scorecard` runs a profile and writes tests/SCORECARD.md and tests/scorecard.json.
"""
