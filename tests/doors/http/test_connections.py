"""Connections that hold a server up: half-sent requests, too many at once, clients that leave."""

import logging
import socket
import time

import pytest

from peerage.doors.http import AppSettings
from peerage.doors.http.gate import BodyLimits, ConnectionLimits, _client_key
from tests.shared.waiting import wait_until

POST = b"POST /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
QUICK = ConnectionLimits(request_s=0.4)
WAIT_S = 60.0  # a loaded machine is slow, not wrong


def connect(server):
    url = server.client.base_url
    return socket.create_connection((url.host, url.port), timeout=WAIT_S)


def rest_of(connection):
    """Everything that comes until the server closes the connection."""
    parts = []
    try:
        while part := connection.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def drip(connection, data, every_s=0.1):
    """Send bytes one by one until the other side has closed; what it said."""
    connection.settimeout(every_s)
    said = b""
    for _ in range(int(WAIT_S / every_s)):
        try:
            connection.sendall(data)
            part = connection.recv(65_536)
        except TimeoutError:
            continue
        except OSError:
            return said
        if not part:
            return said
        said += part
    raise AssertionError("the server never closed the connection")


def test_a_request_whose_head_does_not_come_ends(serving):
    with serving(connections=QUICK) as server:
        for begun in (b"", b"G", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-"):
            with connect(server) as connection:
                connection.sendall(begun)
                assert rest_of(connection).startswith(b"HTTP/1.1 408")
        with connect(server) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\n")
            assert drip(connection, b"X: y\r\n").startswith(b"HTTP/1.1 408")
        with connect(server) as connection:  # the second request of one connection
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert b"200 OK" in connection.recv(65_536)
            connection.sendall(b"GET /heal")
            assert b"HTTP/1.1 408" in rest_of(connection)
        assert server.client.get("/healthz").status_code == 200


def test_a_request_whose_body_does_not_come_ends(serving):
    limits = BodyLimits(piece_s=30.0, total_s=0.4, min_bytes_per_s=1_000_000)
    with serving(connections=QUICK, settings=AppSettings(body_limits=limits)) as server:
        with connect(server) as connection:
            connection.sendall(POST + b"Content-Length: 1000\r\n\r\n")
            assert drip(connection, b" ").startswith(b"HTTP/1.1 408")
        with connect(server) as connection:  # refused before its body was read
            head = POST.replace(b"/api/sessions", b"/nothing").replace(
                b"127.0.0.1", b"evil.example"
            )
            connection.sendall(head + b"Content-Length: 1000\r\n\r\n")
            assert drip(connection, b" ").startswith(b"HTTP/1.1 421")


def test_a_large_body_that_comes_at_a_good_rate_is_taken(serving):
    limits = BodyLimits(piece_s=30.0, total_s=30.0, min_bytes_per_s=1_000_000)
    with serving(connections=QUICK, settings=AppSettings(body_limits=limits)) as server:
        query = "Why? " + "x" * 50_000
        with connect(server) as connection:
            body = f'{{"query": "{query}"}}'.encode()
            head = POST + f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            connection.sendall(head)
            for place in range(0, len(body), 10_000):
                time.sleep(0.1)  # longer in all than a head may take
                connection.sendall(body[place : place + 10_000])
            assert rest_of(connection).startswith(b"HTTP/1.1 202")


def test_there_is_a_cap_on_connections_in_all(serving):
    with serving(connections=ConnectionLimits(in_all=5, request_s=30.0)) as server:
        held = [connect(server) for _ in range(5)]
        for connection in held:
            connection.sendall(b"GET /healthz HTTP/1.1\r\n")
        with connect(server) as one_more:
            assert rest_of(one_more).startswith(b"HTTP/1.1 503")
        for connection in held:
            connection.close()
        wait_until(lambda: server.client.get("/healthz").status_code == 200)


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("127.0.0.1", ""),
        ("::1", ""),
        ("10.0.0.9", ""),  # a proxy
        ("", ""),
    ],
)
def test_connections_are_counted_by_who_makes_them(address, key):
    assert _client_key(address, ConnectionLimits(proxies=("10.0.0.0/24",))) == key


def test_there_is_a_cap_on_connections_of_one_address(serving):
    limits = ConnectionLimits(per_address=3, request_s=30.0, uncounted=())
    with serving(connections=limits) as server:
        held = [connect(server) for _ in range(3)]
        with connect(server) as one_more:
            assert rest_of(one_more).startswith(b"HTTP/1.1 503")
        for connection in held:
            connection.close()


def logged(caplog):
    return [one for one in caplog.records if hasattr(one, "fields")]


@pytest.mark.parametrize("path", ["/api/sessions", "/api/imports?as=reviews"])
def test_a_client_that_leaves_in_mid_body_is_one_quiet_line(serving, caplog, path):
    caplog.set_level(logging.INFO)
    with serving() as server:
        with connect(server) as connection:
            head = POST.replace(b"/api/sessions", path.encode())
            connection.sendall(head + b"Content-Length: 1000\r\n\r\n" + b"{")
            time.sleep(0.2)
        wait_until(lambda: logged(caplog))
    (line,) = logged(caplog)
    assert line.fields["path"] == path.partition("?")[0]
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []
