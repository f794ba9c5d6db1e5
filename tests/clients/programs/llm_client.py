"""The `llm` command, with the models file of docs/clients.md."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _client_report import QUESTION, UNKNOWN, URL, report

MODEL = """\
- model_id: {0}
  model_name: {0}
  api_base: "{1}"
  supports_schema: true
"""


def llm(*words: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("llm")), *words]
    environ = {**os.environ, "LLM_USER_PATH": folder}
    return subprocess.run(
        command, capture_output=True, text=True, env=environ, stdin=subprocess.DEVNULL, check=False
    )


with tempfile.TemporaryDirectory() as folder:
    models = "".join(MODEL.format(name, URL) for name in ("council", UNKNOWN))
    Path(folder, "extra-openai-models.yaml").write_text(models)
    schema = llm("-m", "council", "--schema", "answer, confidence float", QUESTION)
    report(
        chat=llm("-m", "council", "--no-stream", QUESTION).stdout.strip(),
        streamed=llm("-m", "council", QUESTION).stdout.strip(),
        structured=json.loads(schema.stdout),
        error=llm("-m", UNKNOWN, QUESTION).stderr,
    )
