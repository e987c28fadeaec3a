#!/usr/bin/env node
// backlog process --ndays 1 --stream -- examples/stream.mjs: --window records are at work at a time
import { appendFile } from "node:fs/promises";
import { createInterface } from "node:readline";

const lines = createInterface({ input: process.stdin });
const reply = (it) => process.stdout.write(JSON.stringify(it) + "\n");
lines.once("line", (hello) => { // the first line says what comes: queue, table, id and columns
  if (JSON.parse(hello).backlog !== 1) throw new Error("start me with --stream");
  lines.on("line", (line) => {
    const id = JSON.parse(line).backlog_id; // text, because numbers from 2^53 on lose digits
    appendFile("sent.jsonl", line + "\n").then(
      () => reply({ id, outcome: "success" }),
      (error) => reply({ id, outcome: "failure", error: error.message }),
    );
  });
});
