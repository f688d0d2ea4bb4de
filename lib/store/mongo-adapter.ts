import MongooseDbAdapter from "moleculer-db-adapter-mongoose";
import type { Connection, Document } from "mongoose";
import type { DependencyReporter } from "../dependency-state.ts";
import { acquireMongo, type MongoHandle } from "../mongo/connection.ts";
import type { MongoRow, RecordModel } from "./mongo-schema.ts";

type MongoDocument = Document & MongoRow;

/**
 * moleculer-db's mongoose adapter under the record store: its model, cursors, counts and removals are used. Its
 * connection is replaced, since it uses one global connection, which the first service to stop closes for all; its
 * single writes are not used, since they know neither versions nor our errors.
 */
export class SharedMongooseAdapter extends MongooseDbAdapter<MongoDocument> {
  readonly #modelOn: (connection: Connection) => RecordModel;
  readonly #reporter: DependencyReporter | undefined;
  #handle: MongoHandle | undefined;

  constructor(
    url: string,
    modelOn: (connection: Connection) => RecordModel,
    reporter?: DependencyReporter,
  ) {
    super(url);
    this.#modelOn = modelOn;
    this.#reporter = reporter;
  }

  override async connect(): Promise<void> {
    this.#handle ??= await acquireMongo(this.uri, this.#reporter);
    this.model = this.#modelOn(this.connection) as unknown as typeof this.model;
    this.db = this.connection.db!;
  }

  override async disconnect(): Promise<void> {
    await this.#handle?.release();
  }

  get connection(): Connection {
    return this.#handle!.connection;
  }

  /** The model by the form of what is stored, for reads and writes of plain objects. */
  get records(): RecordModel {
    return this.model as unknown as RecordModel;
  }
}
