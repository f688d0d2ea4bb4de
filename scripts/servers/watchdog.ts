import { argv, stdin } from "node:process";
import { cleanUpRecord } from "./run-record.ts";

// Runs beside a set of servers and does nothing until its owner has ended, however that happened: then its end of
// the pipe is closed, and what the owner has not cleaned up itself is left to do.
const [file] = argv.slice(2);
if (file === undefined) throw new Error("usage: watchdog.ts RECORD");
stdin.resume();
stdin.once("close", () => void cleanUpRecord(file));
