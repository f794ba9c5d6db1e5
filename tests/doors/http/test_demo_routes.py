"""The demo over HTTP: started, followed to its end, read and deleted by a program."""

from tests.doors.http.test_openapi import check_reply
from tests.shared.waiting import wait_until


def test_a_program_runs_the_demo_and_reads_what_was_planted_and_found(server):
    client = server.client
    document = client.get("/openapi.json").json()
    before = client.get("/api/demo").json()
    assert (before["state"], before["done"], before["results"]) == ("not_started", 0, None)
    started = client.post("/api/demo")
    assert (started.status_code, started.json()["state"]) == (202, "running")
    wait_until(lambda: client.get("/api/demo").json()["state"] != "running")
    reply = client.get("/api/demo")
    check_reply(document, "/api/demo", reply)
    demo = reply.json()
    assert (demo["state"], demo["done"]) == ("finished", demo["sessions"])
    results = demo["results"]
    assert results["board_order"] == results["planted_order"]
    fault_by_metric = {one["metric"]: one for one in results["faults"]}
    for metric, name in (("self_preference", "charlie"), ("position", "baker")):
        fault = fault_by_metric[metric]
        assert (fault["reviewer"], fault["is_found"]) == (name, True)
        assert {one["subject"] for one in fault["findings"]} == {name}
    assert results["fair"] == ["able", "delta", "echo"]
    page = client.get("/demo").text
    assert all(one["planted"] in page for one in results["faults"])
    assert client.delete("/api/demo").json() == before
