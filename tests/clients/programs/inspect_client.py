"""Inspect: an evaluation of one sample, and a model of another name."""

import os
import tempfile

from _client_report import QUESTION, UNKNOWN, URL, report

os.environ |= {"PANEL_BASE_URL": URL, "PANEL_API_KEY": "none"}
from inspect_ai import Task, eval  # noqa: A004 - reads the variables
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes

task = Task(dataset=[Sample(input=QUESTION, target="e")], scorer=includes())
with tempfile.TemporaryDirectory() as folder:
    options = {"display": "none", "log_dir": folder, "max_retries": 0}
    (good,) = eval(task, model="openai-api/panel/council", **options)
    (bad,) = eval(task, model=f"openai-api/panel/{UNKNOWN}", **options)
    report(
        status=good.status,
        chat=good.samples[0].output.completion,
        error=bad.error.message if bad.error else "",
    )
