import { type Model, Schema } from "mongoose";
import type { Realm } from "../../lib/contract.ts";
import type { DependencyReporter } from "../../lib/dependency-state.ts";
import { acquireMongo, type MongoHandle } from "../../lib/mongo/connection.ts";
import { mongoStartFailure, overMongo } from "../../lib/mongo/mongo-errors.ts";
import type { LoginToken, TokenStore } from "./token-store.ts";

interface Row extends Omit<LoginToken, "digest"> {
  /** The digest. */
  _id: string;
  /** `expiresAt` once more, in the type by which MongoDB removes what has ended. */
  endsAt: Date;
}

const NAME = "login_token";
const schema = new Schema<Row>(
  {
    _id: { type: String, required: true },
    realm: { type: String, required: true },
    accountId: { type: String, required: true },
    // Mongoose counts an empty text as missing.
    name: { type: String, default: "" },
    createdAt: { type: Number, required: true },
    expiresAt: { type: Number, required: true },
    endsAt: { type: Date, required: true },
  },
  { strict: "throw", strictQuery: "throw", versionKey: false, id: false },
);
const indexes = [
  { name: "ix_account", key: { realm: 1, accountId: 1, createdAt: 1 } },
  { name: "ix_end", key: { endsAt: 1 }, expireAfterSeconds: 0 },
] as const;

/** Login tokens in MongoDB, which all nodes share. */
export class MongoTokenStore implements TokenStore {
  readonly #handle: MongoHandle;
  readonly #model: Model<Row>;

  private constructor(handle: MongoHandle) {
    this.#handle = handle;
    const { connection } = handle;
    this.#model =
      (connection.models[NAME] as Model<Row> | undefined) ??
      connection.model<Row>(NAME, schema, NAME);
  }

  /** @throws ConfigError in one sentence that names MONGO_URL when the server cannot be used. */
  static async open(url: string, reporter?: DependencyReporter): Promise<MongoTokenStore> {
    const store = new MongoTokenStore(await acquireMongo(url, reporter));
    try {
      await store.#model.collection.createIndexes(indexes.map((index) => ({ ...index })));
      return store;
    } catch (error) {
      await store.close();
      throw mongoStartFailure(url, error);
    }
  }

  issue({ digest, ...token }: LoginToken, tokensMax: number): Promise<string[]> {
    return overMongo(async () => {
      await this.#model.create({ ...token, _id: digest, endsAt: new Date(token.expiresAt) });
      const { realm, accountId, createdAt } = token;
      const surplus = await this.#model
        .find({ realm, accountId, _id: { $ne: digest } })
        .sort({ createdAt: -1, _id: -1 })
        .skip(tokensMax - 1)
        .select({ expiresAt: 1 })
        .lean();
      if (surplus.length > 0)
        await this.#model.deleteMany({ _id: { $in: surplus.map((row) => row._id) } });
      return surplus.filter((row) => row.expiresAt > createdAt).map((row) => row._id);
    });
  }

  find(digest: string, now: number): Promise<LoginToken | undefined> {
    return overMongo(async () => {
      // The removal of what has ended runs once a minute; until then it is still there.
      const row = await this.#model.findOne({ _id: digest, expiresAt: { $gt: now } }).lean<Row>();
      if (!row) return undefined;
      const { _id, endsAt, ...token } = row;
      return { digest: _id, ...token };
    });
  }

  async revoke(digest: string): Promise<void> {
    await overMongo(() => this.#model.deleteOne({ _id: digest }));
  }

  revokeAccount(realm: Realm, accountId: string): Promise<string[]> {
    return overMongo(async () => {
      const rows = await this.#model.find({ realm, accountId }).select({ _id: 1 }).lean();
      await this.#model.deleteMany({ realm, accountId });
      return rows.map((row) => row._id);
    });
  }

  close(): Promise<void> {
    return this.#handle.release();
  }
}
