"""The Reference: pages that are made from the code, as Markdown by the name of their file."""

from __future__ import annotations

import inspect
import io
import json
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PART = re.compile(r"^([A-Z][a-z]+(?: [a-z]+)?): ", re.MULTILINE)
METRIC_PARTS = ("Of", "Formula", "Counts", "Healthy", "Assumes", "Fooled by", "Example")
RULE_PARTS = ("Formula", "Ties", "Partial ballots", "Use it", "Assumes", "Fooled by")
BALLOTS = (  # an example for every rule: marks from 1 to 10 in the order of each reviewer
    {"heron": 9, "robin": 8, "magpie": 4},
    {"heron": 8, "robin": 7, "magpie": 6},
    {"robin": 9, "magpie": 5, "heron": 4},
)
FORMULA_WIDTH = 72
MAX_DEFAULT = 40
METHODS = ("get", "post", "put", "patch", "delete")


def pages() -> dict[str, str]:
    """Return every page of the Reference that is made from the code."""
    made = {
        "commands": commands_page(),
        "options": options_page(),
        "http": http_page(),
        "json": json_page(),
        "python": python_page(),
        "plugins": plugins_page(),
        "rules/index": rules_index(),
        "metrics/index": metrics_index(),
    }
    made |= {f"rules/{name}": rule_page(name) for name in rule_names()}
    made |= {f"metrics/{name}": metric_page(name) for name in metric_names()}
    return {f"reference/{name}.md": text for name, text in made.items()}


def _cell(text: object) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def parts_of(docstring: str | None) -> dict[str, str]:
    """Return the labelled parts of a docstring, and what comes before them under ""."""
    text = inspect.cleandoc(docstring or "")
    _, *rest = pieces = PART.split(text)
    labelled = zip(rest[::2], rest[1::2], strict=True)
    return {"": pieces[0].strip()} | {label: " ".join(part.split()) for label, part in labelled}


def _formula(text: str) -> list[str]:
    """Return a formula as a block, and what its letters stand for below it."""
    formula, _, where = text.partition(", where ")
    block = textwrap.wrap(formula, FORMULA_WIDTH, break_on_hyphens=False)
    return ["```text", *block, "```", "", *([f"where {where}.", ""] if where else [])]


# -- metrics -----------------------------------------------------------------------------------


def metric_names() -> list[str]:
    """Return the built-in metrics; a plug-in has documents of its own."""
    from peerage.biases import metrics
    from peerage.biases.decision_votes import METRICS
    from peerage.types import AuditLimits

    return [*(name for name in metrics.names() if name in AuditLimits().n_min), *METRICS]


def about_metric(name: str) -> dict[str, str]:
    """Return the parts of a metric's page."""
    from peerage.biases import metrics
    from peerage.biases.decision_votes import ABOUT

    return parts_of(ABOUT[name] if name in ABOUT else metrics.get(name).findings.__doc__)


def _columns_line(name: str) -> str:
    """Return what a metric needs besides the columns that every table has."""
    from peerage.biases import metrics
    from peerage.biases.decision_votes import METRICS

    if name in METRICS:
        return "- **It needs** [votes on typed questions](../../audit.md#votes-on-typed-questions)."
    columns = ", ".join(f"`{one}`" for one in metrics.get(name).needs) or "none"
    return f"- **Columns it needs** besides reviewer, candidate and score: {columns}."


def metric_page(name: str) -> str:
    """Return what a metric measures, assumes and is fooled by, and how to read it."""
    from peerage.types import AuditLimits

    about, limits = about_metric(name), AuditLimits()
    edge, n_min = f"{limits.healthy[name]:g}", limits.n_min[name]
    finding, _, reading = about["Example"].partition(" – ")
    return "\n".join(
        [
            f"# `{name}`",
            "",
            about[""].replace("Return", "Measures", 1),
            "",
            f"- **Of**: {about['Of']}",
            f"- **Healthy**: {about['Healthy'].replace('{edge}', edge)}",
            f"- **n counts**: {about['Counts']} Fewer than {n_min} (`n_min`) are never evidence.",
            _columns_line(name),
            "",
            "## Formula",
            "",
            *_formula(about["Formula"]),
            "`level`, `scale` and the others' view are those of"
            " [one scale](../../audit.md#one-scale-before-any-comparison)."
            if re.search(r"\blevel|\bview\b", about["Formula"])
            else "",
            "",
            "## What it assumes",
            "",
            _sentence(about["Assumes"]),
            "",
            "## What would fool it",
            "",
            _sentence(about["Fooled by"]),
            "",
            "## Read it",
            "",
            "```text",
            finding.strip("`"),
            "```",
            "",
            _sentence(reading),
            "",
            "The figures in brackets are the 95% interval over queries."
            " [The audit](../../audit.md) explains statuses, q-values and how often it is right.",
            "",
            "## Settings",
            "",
            "```toml",
            "[audit.n_min]",
            f"{name} = {n_min}",
            "",
            "[audit.healthy]",
            f"{name} = {edge}",
            "```",
            "",
        ]
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def metrics_index() -> str:
    """Return the list of metrics, with links."""
    lines = ["# Metrics of the audit", ""]
    lines += ["Each page has the formula, what it assumes, what would fool it, and an example."]
    lines += ["[The audit](../../audit.md) says what to do about a finding.", ""]
    lines += ["| metric | what it measures |", "|---|---|"]
    for name in metric_names():
        about = about_metric(name)[""]
        lines.append(f"| [`{name}`]({name}.md) | {_cell(about.removeprefix('Return '))} |")
    return "\n".join([*lines, ""])


# -- rules -------------------------------------------------------------------------------------


def rule_names() -> list[str]:
    """Return the built-in rules."""
    from peerage.rules import rules

    return [name for name in rules.names() if rules.get(name).values.__module__ in _built_in()]


def _built_in() -> set[str]:
    folder = ROOT / "src" / "peerage" / "rules"
    return {f"peerage.rules.{path.stem}" for path in folder.glob("*.py")}


def rule_page(name: str) -> str:
    """Return the formula of a rule, its treatment of ties, and the example of all rules."""
    from peerage.rules import rules

    rule = rules.get(name)
    about = parts_of(rule.values.__doc__)
    better = "lower" if rule.lower_is_better else "higher"
    lines = [f"# `{name}`", "", about[""].replace("Return", "The value is", 1), ""]
    lines += [f"- **Unit**: {rule.unit}; {better} is better.", f"- **Use it**: {about['Use it']}"]
    lines += [""]
    lines += ["## Formula", "", *_formula(about["Formula"])]
    for title in ("Ties", "Partial ballots"):
        lines += [f"**{title}**: {about[title]}", ""]
    lines += ["## What it assumes", "", _sentence(about["Assumes"]), ""]
    lines += ["## What would fool it", "", _sentence(about["Fooled by"]), ""]
    lines += ["## Example", "", *_example(name)]
    return "\n".join(lines)


def _example(name: str) -> Iterator[str]:
    """Yield three ballots and what the rule makes of them."""
    import peerage

    rankings = [
        {"model": f"r{i}", "parsed_ranking": {"ranking": list(marks), "scores": marks}}
        for i, marks in enumerate(BALLOTS, 1)
    ]
    answers = [{"model": model} for model in BALLOTS[0]]
    scored = peerage.score({"responses": answers, "rankings": rankings}, rule=name)
    yield "Three reviewers rank three answers (marks in parentheses):"
    yield ""
    for marks in BALLOTS:
        yield "- " + " > ".join(f"{model} ({mark})" for model, mark in marks.items())
    yield ""
    yield "| rank | candidate | value |"
    yield "|---:|---|---:|"
    for one in scored.scores:
        yield f"| {one.rank} | {one.model} | {float(one.value or 0):.4g} |"
    yield ""
    if len({one.value for one in scored.scores}) < len(scored.scores):
        yield "Of equal values, the one with more first places ranks higher."
        yield ""
    yield f"As `peerage score ballots.json --rule {name}` counts them. All rules read the same"
    yield "ballots; [Rules](../../rules.md) helps to choose one."
    yield ""


def rules_index() -> str:
    """Return the list of rules, with links."""
    from peerage.rules import rules

    lines = ["# Rules, one by one", "", "[Rules](../../rules.md) helps to choose one.", ""]
    lines += ["| rule | value | use it |", "|---|---|---|"]
    for name in rule_names():
        about = parts_of(rules.get(name).values.__doc__)
        value = about[""].removeprefix("Return ")
        lines.append(f"| [`{name}`]({name}.md) | {_cell(value)} | {_cell(about['Use it'])} |")
    return "\n".join([*lines, ""])


# -- commands ----------------------------------------------------------------------------------


def command_paths(parent: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command, those of groups included."""
    for name in parent:
        if name.startswith("-"):
            continue
        yield (*names, name)
        yield from command_paths(parent[name], (*names, name))


def commands_page() -> str:
    """Return every command with its help."""
    from peerage.doors.cli import app

    lines = ["# Commands", "", "As `peerage COMMAND --help` prints them.", ""]
    for path in command_paths(app):
        printed = io.StringIO()
        with redirect_stdout(printed):
            app.help_print(path)
        text = "\n".join(line.rstrip() for line in printed.getvalue().strip().splitlines())
        lines += [f"## peerage {' '.join(path)}", "", "```text", text, "```", ""]
    return "\n".join(lines)


# -- options ---------------------------------------------------------------------------------


def options_page() -> str:
    """Return the options of a session: what each does, its default, and who may set it."""
    from peerage.config.given import for_clients, that_score
    from peerage.config.settings import CouncilSettings

    clients, scores = for_clients(CouncilSettings), that_score(CouncilSettings)
    lines = [
        "# Options of a session",
        "",
        "`[council]` of `peerage.toml`, variables such as `PEERAGE_RULE`, and flags of",
        "`peerage ask` and `peerage run` set all of them. Requests over HTTP, MCP and OpenAI's",
        "protocol set those of clients. The log of a session keeps all of them; a replay may set",
        "those of scoring.",
        "",
        "| option | default | clients | replay | what it does |",
        "|---|---|---|---|---|",
    ]
    for name, option in CouncilSettings.model_fields.items():
        default = "" if option.default is None else f"`{json.dumps(option.default)}`"
        said = _cell(option.description)
        marks = ("yes" if name in names else "" for names in (clients, scores))
        lines.append(f"| `{name}` | {default} | {' | '.join(marks)} | {said} |")
    return "\n".join([*lines, ""])


# -- HTTP and JSON -----------------------------------------------------------------------------


def openapi() -> dict[str, Any]:
    """Return the schema that a server serves at `/openapi.json`."""
    from peerage import Council
    from peerage.doors.http import create_app
    from peerage.service import Service

    return create_app(Service(Council(needs_seats=False, store="sqlite:///:memory:"))).openapi()


def http_page() -> str:
    """Return every route with its parameters, its body and its reply."""
    lines = ["# HTTP", "", "A server answers the same as JSON Schema at `/openapi.json`.", ""]
    for path, methods in sorted(openapi()["paths"].items()):
        for method in METHODS:
            if method in methods:
                lines += _route_lines(method, path, methods[method])
    return "\n".join(lines)


def _route_lines(method: str, path: str, route: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {method.upper()} {path}"
    yield ""
    yield str(route.get("description") or route.get("summary") or "")
    yield ""
    parameters = route.get("parameters", [])
    if parameters:
        yield "| parameter | meaning |"
        yield "|---|---|"
        for one in parameters:
            kind = _type_of(one.get("schema", {}))
            kind = kind if one["in"] == "query" else f"{kind}, in the {one['in']}"
            meaning = _cell(one.get("description", ""))
            yield f"| `{one['name']}` | {meaning} ({kind}) |"
        yield ""
    if body := _content_of(route.get("requestBody", {})):
        yield f"Body: {body}"
        yield ""
    replies = [
        f"{status} {_content_of(reply) or _cell(reply.get('description', ''))}"
        for status, reply in sorted(route.get("responses", {}).items())
    ]
    if replies:
        yield f"Replies: {'; '.join(replies)}."
        yield ""


def _content_of(message: Mapping[str, Any]) -> str:
    """Return the type of a body or a reply, with a link if it has a name."""
    kinds = [
        _type_of(part["schema"], "json.md")
        for part in message.get("content", {}).values()
        if part.get("schema")
    ]
    return " or ".join(dict.fromkeys(kinds))


def _type_of(schema: Mapping[str, Any], page: str = "") -> str:
    """Return a JSON type in words."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}]({page}#{name.lower()})"
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            some = dict.fromkeys(_type_of(one, page) for one in schema[word])
            return " or ".join(some)
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(one)}`" for one in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type_of(schema.get('items', {}), page)}"
    inner = schema.get("additionalProperties")
    if kind == "object" and isinstance(inner, dict) and inner:
        return f"object of {_type_of(inner, page)}"
    return str(kind)


def json_page() -> str:
    """Return the fields of every JSON document that the server takes or sends."""
    lines = ["# JSON", ""]
    lines += ["Documents that the server takes and sends. `--json` of a command prints the same"]
    lines += ["documents: `peerage board models --json` a `ModelBoard`, `peerage show --json` a"]
    lines += ["`SessionDocument`, `peerage audit --json` an `AuditDocument`.", ""]
    for name, schema in sorted(openapi()["components"]["schemas"].items()):
        lines += [f"## {name}", "", str(schema.get("description", "")), ""]
        fields = schema.get("properties", {})
        if not fields:
            continue
        needed = schema.get("required", [])
        explained = any(one.get("description") for one in fields.values())
        more = (" meaning |", "---|") if explained else ("", "")
        lines += [f"| field | type |{more[0]}", f"|---|---|{more[1]}"]
        for field, one in fields.items():
            star = "" if field in needed else " (optional)"
            meaning = f" {_cell(one.get('description', ''))} |" if explained else ""
            lines.append(f"| `{field}`{star} | {_type_of(one)} |{meaning}")
        lines.append("")
    return "\n".join(lines)


# -- Python and plug-ins -----------------------------------------------------------------------


def python_page() -> str:
    """Return every public name of the package with its signature and docstring."""
    import peerage

    lines = ["# Python: every public name", "", "[Python](../python.md) has examples.", ""]
    for name in sorted(peerage.__all__, key=str.lower):
        if name != "__version__":
            lines += _object_lines(f"peerage.{name}", getattr(peerage, name))
    return "\n".join(lines)


def _object_lines(name: str, thing: Any, level: str = "##") -> Iterator[str]:
    yield f"{level} {name}"
    yield ""
    about = inspect.getdoc(thing) or ""
    generated = about.startswith(f"{name.rpartition('.')[2]}(")  # of a dataclass without its own
    if callable(thing) and not (isinstance(thing, type) and issubclass(thing, Exception)):
        yield "```python"
        yield _call(name, thing)
        yield "```"
        yield ""
    if about and not generated:
        summary, _, rest = about.partition("\n\n")
        yield " ".join(summary.split())
        yield ""
        if rest:
            yield "```text"
            yield rest
            yield "```"
            yield ""
    if isinstance(thing, type) and level == "##":
        for method, function in vars(thing).items():
            if not method.startswith("_") and (
                inspect.isfunction(function) or isinstance(function, classmethod)
            ):
                yield from _object_lines(f"{name}.{method}", getattr(thing, method), "###")


def _call(name: str, thing: Any) -> str:
    """Return how a function or class is called, with an argument on each line if it is long."""
    short = name.rpartition(".")[2] if name.count(".") > 1 else name
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return f"{short}(…)"
    words, by_name = [], False
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not by_name:
            words.append("*")
            by_name = True
        if one.name != "self":
            words.append(_parameter(one))
    returned = signature.return_annotation
    arrow = (
        ""
        if isinstance(thing, type) or returned is signature.empty
        else f" -> {_annotation(returned)}"
    )
    line = f"{short}({', '.join(words)}){arrow}"
    return line if len(line) <= 80 else "\n".join([f"{short}(", *_indented(words), f"){arrow}"])


def _indented(words: list[str]) -> list[str]:
    return [f"    {word}," for word in words]


def _parameter(one: inspect.Parameter) -> str:
    stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    kind = "" if one.annotation is one.empty else f": {_annotation(one.annotation)}"
    if one.default is one.empty:
        return f"{stars}{one.name}{kind}"
    default = repr(one.default)
    return f"{one.name}{kind} = {default if len(default) <= MAX_DEFAULT else '…'}"


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def plugins_page() -> str:
    """Return the kinds of plug-ins, the names that are built in, and what an extension imports."""
    import peerage.plugins
    from peerage.biases import metrics
    from peerage.council.safety import moderators
    from peerage.imports.formats import formats
    from peerage.providers import providers
    from peerage.rules import rules
    from peerage.stores import stores

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = ["# Plug-ins: every kind and every name", ""]
    lines += ["[Extend](../extending.md) shows a package with one of each kind.", ""]
    lines += ["| entry point | kind | built in |", "|---|---|---|"]
    for registry in (rules, metrics, providers, moderators, stores, formats):
        names = ", ".join(f"`{name}`" for name in registry.names())
        lines.append(f"| `{registry.package}` | {registry.kind} | {names} |")
    lines += ["", f"An extension of {project['name']} {project['version']} imports from"]
    lines += ["`peerage.plugins`:", ""]
    for name in peerage.plugins.__all__:
        lines += _object_lines(f"peerage.plugins.{name}", getattr(peerage.plugins, name))
    return "\n".join(lines)
