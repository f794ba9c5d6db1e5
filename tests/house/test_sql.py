"""No SQL is made of data: what reaches an engine is literal, or made by `peerage.engines.sql`.

The check follows a name to where it is bound. It does not have to understand everything: what
it cannot follow is a fault, so code that runs SQL stays simple enough to see through.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "peerage"
BUILDER = PACKAGE / "engines" / "sql.py"
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != BUILDER]

# Methods whose text is SQL; those of the second kind also take expressions of narwhals.
RUN = {"execute", "executemany", "executescript", "sql", "query", "project", "aggregate"}
RUN |= {"selectExpr", "expr"}
MAY_RUN = {"filter", "order", "where"}
MAKERS = {"sql", "quote_name", "join_sql"}


@cache
def makers() -> set[str]:
    """The functions that the type checker knows to return SQL, wherever they are."""
    found = set(MAKERS)
    texts = (path.read_text(encoding="utf-8") for path in MODULES)
    for text in (text for text in texts if "Sql" in text):
        for node in ast.walk(ast.parse(text)):
            returns = node.returns if isinstance(node, ast.FunctionDef) else None
            if returns is not None and ast.unparse(returns) in ("Sql", "list[Sql]"):
                found.add(node.name)
    return found


class Scope:
    """A module less its functions, or a function with what is in it: its names and its calls."""

    def __init__(self, nodes: list[ast.AST], known: set[str], outer: Scope | None = None) -> None:
        self.nodes = nodes
        self.known = known
        self.bound: dict[str, list[ast.expr | None]] = {}
        for node in nodes:
            self._bind(node)
        if outer is not None:
            self.bound = outer.bound | self.bound

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind_target(target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            self._bind_target(node.target, node.value)
        elif isinstance(node, (ast.For, ast.comprehension)):
            self._bind_target(node.target, node.iter)
        elif isinstance(node, ast.arg):
            is_sql = node.annotation is not None and "Sql" in ast.unparse(node.annotation).split()
            self.bound.setdefault(node.arg, []).append(ast.Constant("") if is_sql else None)

    def _bind_target(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self.bound.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple):
            pairs = isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts)
            for i, one in enumerate(target.elts):
                self._bind_target(one, value.elts[i] if pairs else None)  # type: ignore[union-attr]

    def is_literal(self, node: ast.expr | None, seen: frozenset[str] = frozenset()) -> bool:
        """Whether this is text of the source code, by itself or out of a table of such."""
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str)
        if isinstance(node, ast.Dict):
            return all(self.is_literal(value, seen) for value in node.values)
        if isinstance(node, ast.Subscript):
            return self.is_literal(node.value, seen)
        if isinstance(node, ast.Name) and node.id not in seen and node.id in self.bound:
            return all(self.is_literal(one, seen | {node.id}) for one in self.bound[node.id])
        return False

    def is_made(self, node: ast.expr | None, seen: frozenset[str] = frozenset()) -> bool:
        """Whether this is SQL that no data can have steered."""
        if self.is_literal(node):
            return True
        match node:
            case ast.JoinedStr():  # a pragma takes no parameters: constants of the module, in it
                return all(
                    self._is_constant(part.value)
                    for part in node.values
                    if isinstance(part, ast.FormattedValue)
                )
            case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
                template = name != "sql" or (bool(node.args) and self.is_literal(node.args[0]))
                return name in self.known and template
            case ast.Starred():
                return self.is_made(node.value, seen)
            case ast.List() | ast.Tuple():
                return all(self.is_made(one, seen) for one in node.elts)
            case ast.ListComp() | ast.GeneratorExp():
                return self.is_made(node.elt, seen)
            case ast.IfExp():
                return self.is_made(node.body, seen) and self.is_made(node.orelse, seen)
            case ast.BoolOp():
                return all(self.is_made(one, seen) for one in node.values)
            case ast.Name() if node.id not in seen and node.id in self.bound:
                return all(self.is_made(one, seen | {node.id}) for one in self.bound[node.id])
        return False

    def _is_constant(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "len":
            return self._is_constant(node.args[0])
        return isinstance(node, ast.Name) and node.id.isupper()

    def is_expression(self, node: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
        """Whether this is an expression of narwhals, which are no text."""
        if isinstance(node, ast.Name) and node.id not in seen and node.id in self.bound:
            values = self.bound[node.id]
            return all(v is not None and self.is_expression(v, seen | {node.id}) for v in values)
        is_text = isinstance(node, (ast.JoinedStr, ast.Constant))
        names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        return not is_text and "nw" in names

    def faults(self) -> Iterator[str]:
        for node in self.nodes:
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            name, of = node.func.attr, ast.unparse(node.func.value)
            if of == "np" or name not in RUN | MAY_RUN:
                continue
            texts = node.args if name not in ("execute", "executemany") else node.args[:1]
            for text in texts:
                if not (self.is_made(text) or (name in MAY_RUN and self.is_expression(text))):
                    yield f"line {node.lineno}: .{name}({ast.unparse(text)})"


def scopes(text: str, known: set[str]) -> Iterator[Scope]:
    tree = ast.parse(text)
    functions = list(outermost(tree))
    within = {id(node) for function in functions for node in ast.walk(function)}
    module = Scope([node for node in ast.walk(tree) if id(node) not in within], known)
    yield module
    for function in functions:
        yield Scope(list(ast.walk(function)), known, module)


def outermost(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield child
        else:
            yield from outermost(child)


def faults(text: str) -> list[str]:
    return [fault for scope in scopes(text, makers()) for fault in scope.faults()]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_what_an_engine_runs_is_literal_or_made_by_the_one_builder(path: Path) -> None:
    assert faults(path.read_text(encoding="utf-8")) == []


CALLBACKS = {
    "create_function", "create_aggregate", "create_window_function", "create_collation",
    "set_authorizer", "set_progress_handler", "set_trace_callback",
}  # fmt: skip


def test_no_query_of_sqlite_calls_back_into_python() -> None:
    """A query that waits for the interpreter's lock, with its connection locked, may wait for a
    thread that holds the first and waits for the second.
    """
    for path in MODULES:
        names = {
            n.attr
            for n in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(n, ast.Attribute)
        }
        assert not names & CALLBACKS, path


@pytest.mark.parametrize(
    "code",
    [
        "db.execute(f'select {name}')",
        "db.execute('select ' + name)",
        "db.execute('select %s' % name)",
        "db.execute('select {}'.format(name))",
        "db.execute(', '.join(names))",
        "db.execute(text)",
        "def run(text: str): db.sql(text)",
        "for text in texts: rows.project(text)",
        "text = f'{name}'\nrows.aggregate('a', text)",
        "rows.filter(f'{name} > 1')",
        "def pick(rows, condition: str): return rows.filter(condition)",
        "rows.order(', '.join(names))",
        "frame.selectExpr(*(f'`{name}`' for name in names))",
        "rows.project(sql(f'{name}'))",
        "rows.project(sql(name))",
        "db.execute(f'pragma x = {value}')",
        "db.execute('select 1' if ok else name)",
    ],
)
def test_sql_made_of_data_is_seen(code: str) -> None:
    assert faults(code)


@pytest.mark.parametrize(
    "code",
    [
        "db.execute('select ?', [name])",
        "rows.project(sql('{} as x', quote_name(name)))",
        "rows.project(join_sql(map(quote_name, names)))",
        "LIMIT = 3\ndb.execute(f'pragma x = {LIMIT}')",
        "frame.filter(nw.col(name) > 1)",
        "one = sql('a = {}', 1)\nrows.filter(one)",
    ],
)
def test_sql_that_is_quoted_or_bound_is_let_through(code: str) -> None:
    assert not faults(code)
