"""A stub of the Messages API on loopback that gives the answers a test prepared."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

Block = dict[str, Any]


def says(text: str) -> Block:
    """Return an answer block of text."""
    return {"type": "text", "text": text}


def calls(tool: str, **arguments: Any) -> Block:
    """Return an answer block that calls a tool."""
    return {"type": "tool_use", "id": f"toolu_{uuid4().hex}", "name": tool, "input": arguments}


class Model:
    """A stub model that answers with prepared blocks in turn, and then with "done"."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = list(blocks)
        self._lock = threading.Lock()
        #: The requests of the conversation, in order.
        self.heard: list[dict[str, Any]] = []
        self.url = ""

    def answer(self, request: dict[str, Any]) -> Block:
        """Return the next prepared block.

        A request without tools does not belong to the conversation and gets no block.
        """
        if not request.get("tools"):
            return says("ok")
        with self._lock:
            self.heard.append(request)
            return self._blocks.pop(0) if self._blocks else says("done")

    def text_of(self, number: int) -> str:
        """Return the system prompt and the messages of a request as JSON."""
        return json.dumps([self.heard[number].get("system"), self.heard[number]["messages"]])


@contextmanager
def model(*blocks: Block) -> Iterator[Model]:
    """Serve a model on a free port."""
    one = Model(blocks)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Write no log."""

        def do_POST(self) -> None:
            """Answer a message as a stream of events."""
            size = int(self.headers.get("content-length", 0))
            request = json.loads(self.rfile.read(size) or "{}")
            if "/messages" not in self.path or "count_tokens" in self.path:
                self._send(b'{"input_tokens": 1}', "application/json")
                return
            block = one.answer(request)
            if request.get("stream"):
                self._send(_events(block).encode(), "text/event-stream")
            else:
                self._send(json.dumps(_message(block)).encode(), "application/json")

        def do_GET(self) -> None:
            """Answer any other request with an empty JSON object."""
            self._send(b"{}", "application/json")

        def _send(self, content: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    one.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield one
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _message(block: Block) -> dict[str, Any]:
    return {
        "id": f"msg_{uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": "stub",
        "content": [block],
        "stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 10},
    }


def _events(block: Block) -> str:
    whole = _message(block)
    if block["type"] == "tool_use":
        start = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    else:
        start = {**block, "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
            "usage": {"output_tokens": 10},
        },
        {"type": "message_stop"},
    ]
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
