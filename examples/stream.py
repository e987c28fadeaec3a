#!/usr/bin/env python3
"""backlog process --ndays 1 --stream -- examples/stream.py"""
import json
import sys

def handle(record):
    with open("sent.jsonl", "a") as sent:
        print(json.dumps(record), file=sent)

hello = json.loads(sys.stdin.readline())  # names the queue, the table, its columns and the key of the id
assert hello.get("backlog") == 1, "start me with --stream"
for record in map(json.loads, sys.stdin):
    reply = {"id": record[hello["reply_with"]], "outcome": "success"}
    try:
        handle(record)
    except Exception as error:
        reply.update(outcome="failure", error=str(error))
    print(json.dumps(reply), flush=True)
