"""The llm package, with the models file of docs/clients.md."""

import json
import os
import tempfile
from pathlib import Path

from _client_report import QUESTION, UNKNOWN, URL, Judgement, error_of, report
from openai import NotFoundError

MODEL = """\
- model_id: {0}
  model_name: {0}
  api_base: "{1}"
  supports_schema: true
"""

with tempfile.TemporaryDirectory() as folder:
    models = "".join(MODEL.format(name, URL) for name in ("council", UNKNOWN))
    Path(folder, "extra-openai-models.yaml").write_text(models)
    os.environ["LLM_USER_PATH"] = folder
    import llm  # reads the file

    model = llm.get_model("council")
    structured = model.prompt(QUESTION, schema=Judgement, stream=False)
    report(
        chat=model.prompt(QUESTION, stream=False).text(),
        streamed="".join(model.prompt(QUESTION)),
        structured=json.loads(structured.text()),
        error=error_of(llm.get_model(UNKNOWN).prompt(QUESTION, stream=False).text, NotFoundError),
    )
