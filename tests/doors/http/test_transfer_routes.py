"""Files into the store and the store out, over HTTP."""

import io
import json
import zipfile

PROBLEM = "application/problem+json"
CSV = {"content-type": "text/csv"}
REVIEWS = "session_id,reviewer,candidate,rank\ns,r,a,1\ns,r,b,2\n"


def test_a_file_is_imported_whole_and_only_once(server):
    place = "/api/imports?as=reviews"
    first = server.client.post(place, content=REVIEWS, headers=CSV)
    again = server.client.post(place, content=REVIEWS, headers=CSV)
    assert (first.status_code, first.json()["n"], first.json()["already"]) == (201, 2, False)
    assert again.json()["already"]
    wrong = server.client.post(place, content="session_id,reviewer\ns,r\n", headers=CSV)
    assert (wrong.status_code, wrong.headers["content-type"]) == (422, PROBLEM)
    assert "/tmp" not in wrong.text  # noqa: S108 - where it lay is nobody's business
    nothing = server.client.post("/api/imports?as=luck", content=REVIEWS, headers=CSV)
    assert (nothing.status_code, nothing.headers["content-type"]) == (422, PROBLEM)


def test_a_format_is_recognised_named_or_mapped_as_on_the_command_line(server):
    votes = "model_a,model_b,winner\nx,y,model_a\nx,y,tie\n"
    known = server.client.post("/api/imports?file=votes.csv", content=votes, headers=CSV)
    assert (known.status_code, known.json()["format"], known.json()["name"]) == (
        201,
        "arena",
        "votes.csv",
    )
    named = server.client.post("/api/imports?as=mt-bench", content=votes + "x,y,tie\n", headers=CSV)
    assert (named.status_code, "`judge` is missing" in named.text) == (422, True)
    grades = "q,who,what,points\n1,ann,x,5\n1,ann,y,3\n"
    columns = {"map": "session_id=q,reviewer=who,candidate=what,score=points"}
    mapped = server.client.post("/api/imports", params=columns, content=grades, headers=CSV)
    assert (mapped.status_code, mapped.json()["format"]) == (201, "mapped"), mapped.text


def test_a_file_can_be_sent_as_a_form(server):
    place = "/api/imports?as=reviews"
    rows = "session_id,reviewer,candidate,rank\nform,r,a,1\nform,r,b,2\n"
    done = server.client.post(place, files={"file": ("reviews.csv", rows, "text/csv")})
    assert (done.status_code, done.json()["n"]) == (201, 2), done.text
    wrong = server.client.post(place, files={"other": ("reviews.csv", rows, "text/csv")})
    assert (wrong.status_code, wrong.json()["hint"]) == (422, "Send it in the field file.")
    broken = {"content-type": "multipart/form-data; boundary=x"}
    assert server.client.post(place, content=b"--y", headers=broken).status_code < 500


def test_an_export_holds_every_session(server):
    id_ = server.hold()
    answer = server.client.get("/api/export")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        lines = archive.read("sessions.jsonl").decode().splitlines()
        assert id_ in {json.loads(line)["session_id"] for line in lines}
        assert "export.json" in archive.namelist()
