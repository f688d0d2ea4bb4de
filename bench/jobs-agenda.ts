import { randomBytes } from "node:crypto";
import { MongoBackend } from "@agendajs/mongo-backend";
import { Agenda, InMemoryNotificationChannel } from "agenda";
import mongoose from "mongoose";
import type { Contestant, Load, Started } from "./jobs-measure.ts";

const JOB = "noop";

/** Agenda on a database of its own, as fast as it can be set: its worker is told of each job, and polls as well. */
async function start(address: string, { slots, clients }: Load): Promise<Started> {
  const url = new URL(address);
  url.pathname = `/agenda-${randomBytes(6).toString("hex")}`;
  const client = await mongoose.mongo.MongoClient.connect(url.href, {
    // What the product asks of the same server.
    writeConcern: { w: "majority", journal: true },
    maxPoolSize: Math.max(50, Math.min(clients, 256)),
  });
  let started = (_at: number) => {};
  let ended = () => {};
  const agenda = new Agenda({
    backend: new MongoBackend({ mongo: client.db() as never }),
    // Over MongoDB alone it would poll; in one process this channel tells the worker at once.
    notificationChannel: new InMemoryNotificationChannel(),
    processEvery: 100,
    maxConcurrency: slots,
    defaultConcurrency: slots,
  });
  agenda.define(JOB, async () => started(performance.now()), { concurrency: slots });
  // After its end is stored.
  agenda.on(`complete:${JOB}`, () => ended());
  await agenda.start();
  return {
    submit: () => agenda.now(JOB, { ms: 0 }),
    onStart: (listener) => {
      started = listener;
    },
    onEnd: (listener) => {
      ended = listener;
    },
    async stop() {
      await agenda.stop();
      await client.db().dropDatabase();
      await client.close();
    },
  };
}

/** @param address of a server of MongoDB's wire protocol. */
export const agendaContestant = (address: string | undefined): Contestant => ({
  name: "Agenda, MongoDB",
  durability: "majority and journal before the answer",
  start: async (_dataDir, load) => (address ? start(address, load) : "MONGO_URL names no server"),
});
