#!/usr/bin/env python3
"""Streams one chat completion to the terminal: stream_chat.py URL MESSAGE.

Exits 0 only when the stream was whole: some text, a finish_reason, usage and [DONE]. Standard library only.
"""
import json
import sys
import urllib.request


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    url, message = sys.argv[1:3]
    body = {"messages": [{"role": "user", "content": message}], "temperature": 0, "max_tokens": 64,
            "stream": True, "stream_options": {"include_usage": True}}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    text, finish, usage, done = "", None, None, False
    # Straight to the server: a proxy set for the internet has no way to it.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=120) as response:
        for line in response:
            if not line.startswith(b"data: "):
                continue
            data = line[6:].strip()
            if data == b"[DONE]":
                done = True
                break
            event = json.loads(data)
            if "error" in event:
                print(f"\nerror: {event['error']['message']}", file=sys.stderr)
                return 1
            usage = event.get("usage") or usage
            for choice in event["choices"]:
                piece = choice["delta"].get("content") or ""
                text += piece
                finish = choice["finish_reason"] or finish
                print(piece, end="", flush=True)
    print(f"\n[{finish}; {usage}]")
    return 0 if text and finish and usage and done else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as failure:
        print(f"no answer from the server: {failure}", file=sys.stderr)
        sys.exit(1)
