#!/usr/bin/env node
// backlog process --ndays 1 --stream -- examples/stream.mjs: handles up to --window records at the same time
import { appendFile } from "node:fs/promises";
import { createInterface } from "node:readline";

const lines = createInterface({ input: process.stdin });
const reply = (fields) => process.stdout.write(JSON.stringify(fields) + "\n");
lines.once("line", (line) => { // the first line names the queue, the table, its columns and the key of the id
  const hello = JSON.parse(line);
  if (hello.backlog !== 1) throw new Error("start me with --stream");
  lines.on("line", (line) => {
    const id = JSON.parse(line)[hello.reply_with]; // text, because JavaScript rounds numbers above 2^53
    appendFile("sent.jsonl", line + "\n").then(
      () => reply({ id, outcome: "success" }),
      (error) => reply({ id, outcome: "failure", error: error.message }),
    );
  });
});
