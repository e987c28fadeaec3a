#!/bin/sh
# backlog process --ndays 1 --stream -- examples/stream.sh
# The work is a single line: it appends the record to sent.jsonl.
read -r hello # {"backlog":1,"queue":"default","table":"BACKLOG","id":["ID"],"columns":["ID",...]}
case $hello in '{"backlog":1,'*) ;; *) echo "start me with --stream" >&2; exit 1 ;; esac
while read -r record; do
    id=${record##*'"backlog_id":'}
    id=${id%'}'} # with its quotes
    if error=$(printf '%s\n' "$record" 2>&1 >>sent.jsonl); then
        echo "{\"id\":$id,\"outcome\":\"success\"}"
    else
        echo "$error" >&2
        echo "{\"id\":$id,\"outcome\":\"failure\",\"error\":\"could not write\"}"
    fi
done
