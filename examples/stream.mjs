#!/usr/bin/env node
// backlog process --ndays 1 --stream -- examples/stream.mjs: --window records are at work at a time
import { appendFile } from "node:fs/promises";
import { createInterface } from "node:readline";

const lines = createInterface({ input: process.stdin });
const reply = (it) => process.stdout.write(JSON.stringify(it) + "\n");
lines.once("line", (hello) => { // the first line says what comes: queue, table, id and columns
  if (JSON.parse(hello).backlog !== 1) throw new Error("start me with --stream");
  lines.on("line", async (line) => {
    const record = JSON.parse(line);
    try {
      await appendFile("sent.jsonl", record.PAYLOAD + "\n");
      reply({ id: record.ID, outcome: "success" });
    } catch (error) {
      reply({ id: record.ID, outcome: "failure", error: error.message });
    }
  });
});
