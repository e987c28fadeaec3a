#!/bin/sh
# backlog process --ndays 1 --stream -- examples/stream.sh
# The work is a single line: it appends the record to sent.jsonl.
read -r hello # {"backlog":1,...,"columns":["ID",...],"reply_with":"backlog_id"}
case $hello in '{"backlog":1,'*) ;; *) echo "start me with --stream" >&2; exit 1 ;; esac
key=${hello##*'"reply_with":'}
key=${key%'}'} # with its quotes
while read -r record; do
    id=${record##*",$key:"}
    id=${id%'}'} # with its quotes
    if error=$(printf '%s\n' "$record" 2>&1 >>sent.jsonl); then
        printf '%s\n' "{\"id\":$id,\"outcome\":\"success\"}"
    else
        echo "$error" >&2
        printf '%s\n' "{\"id\":$id,\"outcome\":\"failure\",\"error\":\"could not write\"}"
    fi
done
