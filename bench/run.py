#!/usr/bin/env python3
"""What backlog costs, as ratios against a floor in the same run.

    cargo build --release && bench/run.py [--large]

Each comparison runs its commands in turn, several times, and takes medians:
machines are noisy, ratios of neighbours less so. --large adds a table of ten
million rows (1 GB in the temporary directory). Never part of the tests.
"""

import argparse
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BACKLOG = os.path.join(ROOT, "target", "release", "backlog")
NOW = 1795219200  # 2026-11-21T00:00:00Z
SPAWN_LOOP = r"""
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
extern char **environ;
static int count;
static void *work(void *unused) {
  char *argv[] = {"/bin/true", 0};
  for (int i = 0; i < count; i++) {
    pid_t pid;
    if (posix_spawn(&pid, argv[0], 0, 0, argv, environ)) exit(1);
    waitpid(pid, 0, 0);
  }
  return unused;
}
int main(int argc, char **argv) {
  pthread_t workers[2];
  count = atoi(argv[1]) / 2;
  for (int i = 0; i < 2; i++) pthread_create(&workers[i], 0, work, 0);
  for (int i = 0; i < 2; i++) pthread_join(workers[i], 0);
  return argc < 2;
}
"""

CO_PROCESS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
  static char line[1 << 16];
  while (fgets(line, sizeof line, stdin)) {
    if (strncmp(line, "{\"ID\":", 6)) continue;
    printf("{\"id\":%ld,\"outcome\":\"success\"}\n", atol(line + 6));
    fflush(stdout);
  }
  return 0;
}
"""
PYTHON_HANDLER = r"""
import json, sys
sys.stdin.readline()
for line in sys.stdin:
    record = json.loads(line)
    print(json.dumps({"id": record["ID"], "outcome": "success"}), flush=True)
"""


def seconds(command, before=None, **options):
    """The wall time of one run of a command."""
    if before:
        before()
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)
    return time.perf_counter() - began


def medians(runs, *measures):
    """The median of each measure, all of them taken in turn."""
    times = [[measure() for measure in measures] for _ in range(runs + 1)][1:]
    return [statistics.median(column) for column in zip(*times)]


def backlog(db, *args, **options):
    return seconds([BACKLOG, args[0], "--db", db, "--now", f"@{NOW}", *args[1:]], **options)


def table(db, finished, due=0):
    """A table of schema.sql with finished rows and due ones on top."""
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(db + suffix):
            os.unlink(db + suffix)
    backlog(db, "init")
    connection = sqlite3.connect(db)
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
    insert = "INSERT INTO BACKLOG (STATUS, DATE_INSERTED, PAYLOAD) "
    row = "SELECT ?, strftime('%Y-%m-%dT%H:%M:%SZ', ? - i * ?, 'unixepoch'), '{\"order\":' || i || '}' FROM n"
    for status, count, step in (("SUCCESS", finished, 3), ("NEW", due, 1)):
        if count:
            connection.execute(insert + numbers + row, (count, status, NOW, step))
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def compiled(tmp, name, source):
    program = os.path.join(tmp, name)
    subprocess.run(["cc", "-O2", "-x", "c", "-", "-o", program, "-lpthread"], input=source, text=True, check=True)
    return program


def spawning(tmp, records=10_000):
    loop = compiled(tmp, "loop", SPAWN_LOOP)
    db = os.path.join(tmp, "spawn.db")
    fill = lambda: table(db, 0, records)
    numbers = "\n".join(map(str, range(records)))
    xargs = ["xargs", "-P2", "-n1", "/bin/true"]
    process = lambda *mode: backlog(db, "process", *mode, "--jobs", "2", "--", "/bin/true", before=fill)
    floor, xargs, ndays, fibonacci = medians(
        5,
        lambda: seconds([loop, str(records)]),
        lambda: seconds(xargs, input=numbers, text=True),
        lambda: process("--ndays", "1"),
        lambda: process("--fibonacci"),
    )
    print(f"\n{records:,} records through /bin/true, two at a time, every outcome durable")
    for name, taken in (("bare posix_spawn loop", floor), ("xargs -P2 -n1", xargs), ("--ndays 1", ndays), ("--fibonacci", fibonacci)):
        print(f"  {name:24} {records / taken:8,.0f}/s   {floor / taken:5.2f} of the loop   {xargs / taken:5.2f} of xargs")


def commits(db, records, rows=100):
    """The least that can be done: one prepared UPDATE by id, so many rows a commit."""
    connection = sqlite3.connect(db, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    update = "UPDATE BACKLOG SET STATUS = 'SUCCESS' WHERE ID = ? AND STATUS = 'NEW'"
    began = time.perf_counter()
    for first in range(1, records, rows):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(update, ((id,) for id in range(first, first + rows)))
        connection.execute("COMMIT")
    taken = time.perf_counter() - began
    connection.close()
    return taken


def streaming(tmp, records=100_000):
    co_process = compiled(tmp, "co-process", CO_PROCESS)
    python = os.path.join(tmp, "handler.py")
    with open(python, "w") as file:
        file.write(PYTHON_HANDLER)
    db = os.path.join(tmp, "stream.db")

    def wal(count=records):
        table(db, 0, count)
        connection = sqlite3.connect(db)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.close()

    def floor():
        wal()
        return commits(db, records)

    stream = lambda mode, *handler: backlog(db, "process", *mode, "--stream", "--window", "256", "--", *handler, before=wal)
    ndays = ["--ndays", "2"]
    few = records // 20
    floor, c, counted, python, spawn = medians(
        5,
        floor,
        lambda: stream(ndays, co_process),
        lambda: stream(["--fibonacci"], co_process),
        lambda: stream(ndays, sys.executable, python),
        lambda: backlog(db, "process", *ndays, "--", "/bin/true", before=lambda: wal(few)),
    )
    spawn *= records / few
    print(f"\n{records:,} records through one co-process, --window 256, every outcome durable (WAL, FULL)")
    for name, taken in (
        ("100 rows a commit", floor),
        ("--stream, trivial handler", c),
        ("... failures counted", counted),
        ("--stream, Python handler", python),
        ("/bin/true for each", spawn),
    ):
        print(f"  {name:26} {records / taken:8,.0f}/s   {floor / taken:5.2f} of the floor   {spawn / taken:6.1f} x a process each")


def nothing_due(tmp, rows=1_000_000):
    db = os.path.join(tmp, "finished.db")
    table(db, rows)
    select, ndays, fibonacci = medians(
        50,
        lambda: seconds(["sqlite3", db, "select 1"]),
        lambda: backlog(db, "process", "--ndays", "1", "--", "/bin/true"),
        lambda: backlog(db, "process", "--fibonacci", "--", "/bin/true"),
    )
    print(f"\nnothing due among {rows:,} rows, the whole process")
    for name, taken in (("sqlite3 'select 1'", select), ("--ndays 1", ndays), ("--fibonacci", fibonacci)):
        print(f"  {name:24} {taken * 1000:8.2f} ms   {taken / select:5.2f}")


def waiting(tmp, rows=1_000_000):
    db = os.path.join(tmp, "waiting.db")
    table(db, 0, rows)
    connection = sqlite3.connect(db)
    failed = "STATUS = 'ERROR', FAILURES = 5 + ID % 10, LAST_FAILURE = strftime('%Y-%m-%dT%H:%M:%SZ', ?, 'unixepoch')"
    connection.execute(f"UPDATE BACKLOG SET {failed}", (NOW - 60,))
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    count = "select count(*) from BACKLOG where STATUS in ('NEW', 'ERROR')"
    select, fibonacci, even = medians(
        10,
        lambda: seconds(["sqlite3", db, count]),
        lambda: backlog(db, "process", "--fibonacci", "--", "/bin/false"),
        lambda: backlog(db, "process", "--policy", "even", "--", "/bin/false"),
    )
    print(f"\n{rows:,} waiting rows, none due, the whole process")
    for name, taken in (("sqlite3 'count(*)'", select), ("--fibonacci", fibonacci), ("--policy even", even)):
        print(f"  {name:24} {taken * 1000:8.2f} ms   {taken / select:5.2f}")


def simulating():
    policies = ["buckets", "sidekiq", "buckets:spread=100%", "even"]
    args = [arg for policy in policies for arg in ("--policy", policy)]
    command = [BACKLOG, "simulate", "--records", "100000", "--every", "1s", "--for", "24h", *args]
    (taken,) = medians(3, lambda: seconds(command))
    print(f"\n100,000 records under four policies for 24 hours, simulated in {taken:.1f} s")


def thousand_due(tmp, sizes):
    dbs = [(size, os.path.join(tmp, f"{size}.db")) for size in sizes]
    for size, db in dbs:
        table(db, size, 1000)
    reset = "UPDATE BACKLOG SET STATUS = 'NEW', FAILURES = 0, LAST_FAILURE = NULL WHERE ID > (SELECT max(ID) FROM BACKLOG) - 1000"

    def again(db):
        connection = sqlite3.connect(db)
        connection.execute(reset)
        connection.commit()
        connection.close()

    measure = lambda db: lambda: backlog(db, "process", "--ndays", "1", "--jobs", "2", "--", "/bin/true", before=lambda: again(db))
    taken = medians(5, *[measure(db) for _, db in dbs])
    print("\n1,000 due among finished rows")
    for (size, _), seconds_taken in zip(dbs, taken):
        print(f"  {size:24,} {seconds_taken * 1000:8.1f} ms   {seconds_taken / taken[0]:5.2f}")


def adding(tmp, lines=1_000_000):
    text = "".join(f'{{"order":{i}}}\n' for i in range(lines))
    jsonl, csv, db = (os.path.join(tmp, name) for name in ("in.jsonl", "in.csv", "add.db"))
    with open(jsonl, "w") as file:
        file.write(text)
    with open(csv, "w") as file:
        for i, line in enumerate(text.splitlines()):
            file.write(f"{i + 1}\tNEW\t2026-11-21T00:00:00Z\t{line}\t0\t\t\n")
    fill = lambda: table(db, 0)
    script = f".mode ascii\n.separator \"\\t\" \"\\n\"\n.import {csv} BACKLOG\n"
    floor, add = medians(
        3,
        lambda: seconds(["sqlite3", db], before=fill, input=script, text=True),
        lambda: backlog(db, "add", "-", before=fill, stdin=open(jsonl)),
    )
    print(f"\n{lines:,} records added from standard input")
    for name, taken in (("sqlite3 .import", floor), ("backlog add -", add)):
        print(f"  {name:24} {lines / taken:8,.0f}/s   {floor / taken:5.2f}")


def server():
    """A cluster of its own, from the distribution's PostgreSQL; the test harness starts it."""
    command = ["cargo", "run", "--release", "--quiet", "--features", "bench", "--example", "bench-postgres"]
    output = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True).stdout
    rates = {}
    for line in output.splitlines():
        what, tab, rate = line.partition("\t")
        if tab:
            rates.setdefault(what, []).append(int(rate))
    floor, *_ = (statistics.median(rates[what]) for what in rates)
    print("\n40,000 records on a PostgreSQL server, no-op handler")
    for what, all_rates in rates.items():
        rate = statistics.median(all_rates)
        print(f"  {what:28} {rate:8,.0f}/s   {rate / floor:5.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true", help="also a table of 10,000,000 rows")
    parser.add_argument("only", nargs="*", choices=[[], "spawning", "streaming", "nothing_due", "waiting", "thousand_due", "adding", "simulating", "server"])
    args = parser.parse_args()
    if not os.path.exists(BACKLOG):
        sys.exit("run: cargo build --release")
    sizes = [10_000, 1_000_000] + [10_000_000] * args.large
    wanted = lambda name: not args.only or name in args.only
    with tempfile.TemporaryDirectory() as tmp:
        if wanted("spawning"):
            spawning(tmp)
        if wanted("streaming"):
            streaming(tmp)
        if wanted("nothing_due"):
            nothing_due(tmp)
        if wanted("waiting"):
            waiting(tmp)
        if wanted("thousand_due"):
            thousand_due(tmp, sizes)
        if wanted("adding"):
            adding(tmp)
        if wanted("simulating"):
            simulating()
    if wanted("server"):
        server()


main()
