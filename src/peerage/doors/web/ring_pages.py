"""Voting rings among the opinions of a community, stored or simulated, and their graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from peerage.doors.http.access import READ, Serving
from peerage.doors.render.phrases import flag_text
from peerage.doors.web.community_pages import PEOPLE, simulated_tables
from peerage.doors.web.templating import COMMUNITY, PageRoute, page, without_backticks
from peerage.reports import Reports
from peerage.reports.options import RingsOptions
from peerage.stats.clusters import generator

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[READ])

MAX_PAIRS = 40  # how many of the pairs that support each other most are drawn with the rings
N_STEPS = 300
COOLING = 0.985


class Node(NamedTuple):
    """A person in the graph; the position is in percent of the graph's width and height."""

    name: str
    x: float
    y: float
    ring: int | None
    is_low: bool  # whether the point is in the lower half of its ring and has its name below it


class Edge(NamedTuple):
    """A line of the graph: how often one person supported another."""

    source: Node
    target: Node
    n: int
    inside: bool


@router.get("/rings")
async def rings(
    request: Request, service: Serving, source: str = "stored", category: str = "", seed: int = 7
) -> Response:
    """Return the rings among the stored opinions, or in a simulated community."""

    def values() -> dict[str, Any]:
        reports = service.reports
        if source == "simulated":
            reports = Reports(service.settings, simulated_tables(PEOPLE))
        report = reports.rings(RingsOptions(category=category or None))
        flags = [flag_text(flag) for flag in report.flags]
        return {
            "document": report.document(),
            "hint": without_backticks(report.hint),
            "flags": flags,
        }

    parts = await service.read(values)
    nodes, edges = await service.read(graph, parts["document"], seed)
    parts |= {"source": source, "category": category, "seed": seed, "nodes": nodes, "edges": edges}
    return await page(request, "rings.html", here=COMMUNITY, **parts)


def graph(document: Mapping[str, Any], seed: int) -> tuple[list[Node], list[Edge]]:
    """Return the graph of support; the seed determines the positions."""
    support: dict[tuple[str, str], int] = {}
    ring_by_name: dict[str, int] = {}
    for number, ring in enumerate(document["rings"]):
        ring_by_name |= dict.fromkeys(ring["members"], number)
        support |= {(one["from"], one["to"]): one["n"] for one in ring["evidence"]["support"]}
    for pair in document["pairs"][:MAX_PAIRS]:
        support.setdefault((pair["a"], pair["b"]), pair["n"])
    names = sorted({name for pair in support for name in pair} | ring_by_name.keys())
    places = dict(zip(names, laid_out(names, list(support), seed), strict=True))
    heights: dict[int, list[float]] = defaultdict(list)
    for name, ring in ring_by_name.items():
        heights[ring].append(places[name][1])
    nodes = {}
    for name, (x, y) in places.items():
        ring = ring_by_name.get(name)
        nodes[name] = Node(name, x, y, ring, ring is not None and y > fmean(heights[ring]))
    edges = [
        Edge(nodes[a], nodes[b], n, ring_by_name.get(a, -1) == ring_by_name.get(b, -2))
        for (a, b), n in sorted(support.items())
    ]
    return list(nodes.values()), edges


def laid_out(
    names: Sequence[str], pairs: Sequence[tuple[str, str]], seed: int
) -> list[tuple[float, float]]:
    """Return positions from 5 to 95 percent; neighbours attract each other, and all repel."""
    n = len(names)
    if n < 2:
        return [(50.0, 50.0)] * n
    at = generator("rings", seed).random((n, 2))
    place = {name: i for i, name in enumerate(names)}
    pull = np.zeros((n, n))
    for a, b in pairs:
        pull[place[a], place[b]] = pull[place[b], place[a]] = 1.0
    degree = np.maximum(pull.sum(axis=1), 1.0)
    pull /= np.sqrt(np.outer(degree, degree))  # keeps a densely connected block from collapsing
    usual, step = 1 / np.sqrt(n), 0.1
    for _ in range(N_STEPS):
        apart = at[:, None, :] - at[None, :, :]
        distance = np.maximum(np.linalg.norm(apart, axis=2), 1e-3)
        force = usual**2 / distance**2 - pull * distance / usual
        move = (apart * force[:, :, None]).sum(axis=1) + (0.5 - at) * 0.5
        length = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-9)
        at = at + move / length * np.minimum(length, step)
        step *= COOLING
    low, high = at.min(axis=0), at.max(axis=0)
    spread = np.maximum(high - low, 1e-9)
    percent = 5 + 90 * (at - low) / spread
    return [(round(float(x), 1), round(float(y), 1)) for x, y in percent]
