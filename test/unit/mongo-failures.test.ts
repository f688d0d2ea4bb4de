import { describe, expect, test } from "@jest/globals";
import mongoose from "mongoose";
import { ConfigError } from "../../lib/config.ts";
import { AppError } from "../../lib/errors.ts";
import { mongoFailure, mongoStartFailure, overMongo } from "../../lib/mongo/mongo-errors.ts";

const { MongoServerError, MongoNetworkError, MongoWriteConcernError } = mongoose.mongo;
const URL_WITH_SECRETS = "mongodb://bob:guess-work@a.example:27017,b.example/media?authSource=x";
const answered = (code: number) => new MongoServerError({ code, errmsg: `code ${code}` });

describe("failures of MongoDB", () => {
  test.each([
    ["a server that steps down", answered(189)],
    ["a server that is no primary", answered(10107)],
    ["a server that shuts down", answered(11600)],
    ["a line that breaks", new MongoNetworkError("connection 5 to 10.0.0.1:27017 closed")],
    [
      "a majority that does not confirm in time",
      new MongoWriteConcernError({
        ok: 1,
        writeConcernError: { code: 64, errmsg: "waiting for replication timed out" },
      } as never),
    ],
    ["a user that lost its rights", answered(13)],
  ])("%s means UNAVAILABLE to a caller, without the server's words", (_, error) => {
    const failure = mongoFailure(error);
    expect(failure).toMatchObject({ type: "UNAVAILABLE", cause: error });
    expect((failure as Error).message).not.toMatch(/10\.0\.0\.1|code|replication/);
  });

  test("a full disk is told as such; what is a mistake of ours stays what it is", async () => {
    expect(mongoFailure(answered(14031))).toMatchObject({ type: "DISK_FULL" });
    const mistake = answered(2);
    expect(mongoFailure(mistake)).toBe(mistake);
    const ours = new AppError("NOT_FOUND", { what: "clip a" });
    await expect(overMongo(() => Promise.reject(ours))).rejects.toBe(ours);
  });

  test.each([
    ["the right to the database is missing", answered(13), /may not use.*role readWrite/],
    ["the password is wrong", answered(18), /refuses the user or password/],
    ["the line broke", new MongoNetworkError("socket hang up"), /no MongoDB server answers/],
  ])("%s at the start: one sentence that names setting and hosts, no secret", (_, error, text) => {
    for (const failure of [error, mongoFailure(error)]) {
      const told = mongoStartFailure(URL_WITH_SECRETS, failure) as Error;
      expect(told).toBeInstanceOf(ConfigError);
      expect(told.message).toMatch(text);
      expect(told.message).toMatch(
        /^MONGO_URL: [^\n]*mongodb:\/\/a\.example:27017,b\.example\/media/,
      );
      expect(told.message).not.toMatch(/bob|guess-work|authSource=x/);
    }
  });

  test("a mistake of ours at the start is not blamed on the setting", () => {
    const mistake = new Error("cannot read rank 300");
    expect(mongoStartFailure(URL_WITH_SECRETS, mistake)).toBe(mistake);
  });
});
