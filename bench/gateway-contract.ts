import { z } from "zod";
import { action, defineContract } from "../lib/contract.ts";
import { implementService, type NodeEnv } from "../lib/service.ts";

const Item = z.object({
  id: z.string(),
  name: z.string(),
  state: z.string(),
  tags: z.array(z.string()),
  width: z.int(),
  height: z.int(),
  createdAt: z.int(),
});
const Id = z.object({ id: z.string().min(1).max(64) });

/** The actions that every contestant serves: small, so that what is measured is the way to them. */
export const benchContract = defineContract({
  name: "bench.item",
  about: "Items of the benchmark",
  actions: {
    open: action({
      summary: "One item, for everybody; cached",
      rest: "GET /bench/items/{id}",
      access: "public",
      input: Id,
      output: Item,
      idempotent: true,
    }),
    guarded: action({
      summary: "One item, for agents",
      rest: "GET /bench/guarded/{id}",
      access: ["agent"],
      input: Id,
      output: Item,
      idempotent: true,
    }),
    create: action({
      summary: "Takes an item",
      rest: "POST /bench/items",
      access: "public",
      input: z.object({
        name: z.string().min(1).max(100),
        tags: z.array(z.string().max(40)).max(20),
        width: z.int().min(1).max(8_192),
        height: z.int().min(1).max(8_192),
      }),
      output: Item,
    }),
  },
});

export const itemOf = (id: string, given: Partial<z.output<typeof Item>> = {}) => ({
  id,
  name: "A short video about the sea",
  state: "published",
  tags: ["sea", "morning", "calm"],
  width: 1_080,
  height: 1_920,
  createdAt: 1_700_000_000_000,
  ...given,
});

const definition = implementService(benchContract, {
  handlers: {
    open: ({ params }) => itemOf(params.id),
    guarded: ({ params }) => itemOf(params.id),
    create: ({ params }) => itemOf("new", params),
  },
});

/** The service with its one cached action. */
export const benchService = {
  contract: benchContract,
  schema(env: NodeEnv) {
    const schema = definition.schema(env);
    const { open } = schema.actions as Record<string, object>;
    Object.assign(open as object, { cache: { keys: ["id"] } });
    return schema;
  },
};
