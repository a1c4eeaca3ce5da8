"""The server on the page about search: its program, started as the page says, under load."""

import http.client
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers import minilm
from helpers.guide_pages import blocks

from keras_bert_rebuild import Index

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "embed-and-search.md"
TOPICS = ["rivers", "bread", "engines", "violins", "taxes", "football", "glaciers", "grammar"]
DOCUMENTS = [
    {"id": f"{topic}-{i}", "text": f"{beginning} {topic}.", "year": 2000 + i}
    for topic in TOPICS
    for i, beginning in enumerate(["A history of", "Why children like", "What nobody says about", "The price of"])
]
QUERIES = [f"{question} {topic}" for topic in TOPICS for question in ("where to learn about", "the cost of", "who is fond of")]

WAITING = 32

pytestmark = [
    pytest.mark.slow(torch=True),
    pytest.mark.backend("torch"),  # which compiles nothing
    pytest.mark.skipif(minilm.FOLDER is None, reason="needs the wheel of MiniLM"),
]


def program(beginning):
    """The block of the page that begins with these words."""
    (block,) = (block for _, block in blocks(PAGE) if block.startswith(beginning))
    return block


class Server:
    """The program of the page as a process on a free port, with a shorter queue, which a test can fill."""

    def __init__(self, folder, index):
        text = program('"""serve.py')
        assert "WAITING, BODY = 256, " in text
        (folder / "serve.py").write_text(text.replace("= 256, ", f"= {WAITING}, "), encoding="utf-8")
        self._log = folder / "log"
        environment = os.environ | {"INDEX": str(index), "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
        with self._log.open("w") as file:
            command = [sys.executable, "-m", "uvicorn", "serve:app", "--port", "0"]
            self.process = subprocess.Popen(command, cwd=folder, env=environment, stdout=file, stderr=file)
        deadline = time.monotonic() + 300
        while (found := re.search(r"running on http://127.0.0.1:(\d+)", self.said())) is None:
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.1)
        self.port = int(found[1])

    def said(self):
        return self._log.read_text(encoding="utf-8")

    def ask(self, method, path, body=None, headers=None):
        """The status and the JSON of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"} | (headers or {}))
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def search(self, **question):
        return self.ask("POST", "/search", json.dumps(question))

    def health(self):
        status, state = self.ask("GET", "/health")
        assert status == 200
        return state


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    made = Index.open(tmp_path_factory.mktemp("served") / "index", minilm.FOLDER)
    made.add(DOCUMENTS)
    return made


@pytest.fixture(scope="module")
def server(index, tmp_path_factory):
    started = Server(tmp_path_factory.mktemp("server"), index.place)
    yield started
    started.process.kill()
    started.process.wait()


def test_sixteen_clients_at_once_get_what_a_call_alone_returns(index, server):
    expected = {}
    for query in QUERIES:
        hits = index.search([query], 4)[0]
        assert min(a.score - b.score for a, b in itertools.pairwise(hits)) > 1e-5  # so the order is that of every batch
        expected[query] = hits
    before = server.health()
    shown = program("import json\nimport time").replace("localhost:8000", f"127.0.0.1:{server.port}")
    names = {"queries": QUERIES * 16}
    exec(compile(shown, PAGE.name, "exec"), names)
    assert len(names["answers"]) == 384
    for query, found in zip(QUERIES * 16, names["answers"], strict=True):
        hits = expected[query][:3]
        assert [each["id"] for each in found] == [hit.id for hit in hits]
        assert [each["score"] for each in found] == pytest.approx([hit.score for hit in hits], abs=1e-5)
        assert [each["text"] for each in found] == [index.document(hit.id).text for hit in hits]
    after = server.health()
    assert after["queries"] - before.get("queries", 0) == 384
    assert after["searches"] - before.get("searches", 0) < 384 / 4
    assert after["waiting"] == 0


def test_questions_of_one_batch_keep_their_own_filters_and_numbers(index, server):
    questions = [{"query": QUERIES[i], "top_k": 1 + i % 3, "filter": f"year = {2000 + i % 2}"} for i in range(12)]
    with ThreadPoolExecutor(12) as clients:
        answers = [*clients.map(lambda question: server.search(**question), questions)]
    for question, (status, found) in zip(questions, answers, strict=True):
        (hits,) = index.search([question["query"]], question["top_k"], filter=question["filter"])
        assert (status, [each["id"] for each in found]) == (200, [hit.id for hit in hits])
        assert {each["metadata"]["year"] for each in found} == {int(question["filter"][-4:])}


@pytest.mark.parametrize(
    ("question", "status"),
    [
        ({"query": "x" * 1001}, 422),
        ({"query": ""}, 422),
        ({"query": ["x"]}, 422),
        ({"query": "x", "top_k": 101}, 422),
        ({"query": "x", "top_k": 0}, 422),
        ({"query": "x", "filter": "color = 'red'"}, 422),
        ({"query": "x", "filter": "year >"}, 422),
        ({"query": "x", "more": "x" * 20_000}, 413),
    ],
    ids=str,
)
def test_what_is_beyond_the_limits_is_refused_with_a_reason_and_the_next_is_answered(server, question, status):
    refused, reason = server.search(**question)
    assert refused == status
    assert reason["detail"]
    assert server.search(query="rivers", top_k=1)[0] == 200


def test_a_body_of_unsaid_length_is_refused(server):
    assert server.ask("POST", "/search", iter([b"{}"]))[0] == 413


def test_more_queries_than_may_wait_are_refused_and_no_other_is_lost(server):
    long = [f"{number} " + "rivers and bread " * 30 for number in range(4 * WAITING)]
    with ThreadPoolExecutor(len(long)) as clients:
        statuses = [status for status, _ in clients.map(lambda query: server.search(query=query, top_k=1), long)]
    assert {*statuses} == {200, 503}
    assert statuses.count(200) >= WAITING
    assert server.health()["waiting"] == 0


def test_a_changed_index_is_served_and_the_end_answers_what_was_asked(index, server):
    index.add([{"id": "new", "text": "The migration of storks in autumn.", "year": 2026}])
    deadline = time.monotonic() + 60
    while server.search(query="storks in autumn", top_k=1)[1][0]["id"] != "new":
        assert time.monotonic() < deadline
        time.sleep(0.5)
    with ThreadPoolExecutor(WAITING) as clients:
        answers = [clients.submit(server.search, query=f"{number} " + "bread " * 100) for number in range(WAITING)]
        while not (waiting := server.health()["waiting"]):
            time.sleep(0.001)
        server.process.send_signal(signal.SIGTERM)
    refused = [answer for answer in answers if answer.exception() is not None]  # they came after the signal
    assert {type(answer.exception()) for answer in refused} <= {ConnectionRefusedError, ConnectionResetError}
    assert {answer.result()[0] for answer in answers if answer not in refused} == {200}
    assert len(answers) - len(refused) > waiting
    server.process.wait(60)
    assert "Application shutdown complete" in server.said()
