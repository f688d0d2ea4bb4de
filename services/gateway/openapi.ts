import { z } from "zod";
import type { ActionContract, Route } from "../../lib/contract.ts";
import { type ErrorType, errorTable } from "../../lib/errors.ts";
import packageJson from "../../package.json" with { type: "json" };
import type { RawRoute } from "./raw-route.ts";

type Json = Record<string, unknown>;

/** Errors that any action may answer with, beyond those that its contract names. */
const always: readonly ErrorType[] = [
  "INVALID_INPUT",
  "PAYLOAD_TOO_LARGE",
  "UNSUPPORTED_MEDIA_TYPE",
  "INTERNAL",
  "UNAVAILABLE",
  "TIMEOUT",
];
const guarded: readonly ErrorType[] = ["UNAUTHENTICATED", "FORBIDDEN"];

function jsonSchema(schema: z.ZodType, io: "input" | "output"): Json {
  const { $schema, ...rest } = z.toJSONSchema(schema, {
    io,
    unrepresentable: "any",
    // Definitions of one action stay inside its own schema: references must hold wherever it is put.
    reused: "inline",
    cycles: "throw",
  }) as Json;
  return rest;
}

/** The fields of an action's input, also where it is a union of objects (then none is required). */
function objectSchema(schema: Json): { properties: Json; required: string[] } {
  const alternatives = (schema["anyOf"] ?? schema["oneOf"] ?? schema["allOf"]) as
    | Json[]
    | undefined;
  if (!schema["properties"] && alternatives)
    return {
      properties: Object.assign({}, ...alternatives.map((part) => objectSchema(part).properties)),
      required: [],
    };
  return {
    properties: (schema["properties"] ?? {}) as Json,
    required: (schema["required"] ?? []) as string[],
  };
}

const pathNames = (path: string) => [...path.matchAll(/\{(\w+)\*?\}/g)].map((match) => match[1]!);
/** OpenAPI knows no placeholder for several parts; the description says so. */
const plainPath = (path: string) => path.replace(/\{(\w+)\*\}/, "{$1}");

function parametersOf(route: Route, input: Json): Json[] {
  const { properties, required } = objectSchema(input);
  const names = pathNames(route.path);
  const inPath = names.map((name) => ({
    name,
    in: "path",
    required: true,
    schema: properties[name] ?? { type: "string" },
  }));
  if (route.method !== "GET") return inPath;
  const inQuery = Object.entries(properties)
    .filter(([name]) => !names.includes(name))
    .map(([name, schema]) => ({
      name,
      in: "query",
      required: required.includes(name),
      schema,
      ...((schema as Json)["type"] === "array" ? { style: "form", explode: true } : {}),
    }));
  return [...inPath, ...inQuery];
}

function bodyOf(route: Route, input: Json): Json | undefined {
  if (route.method === "GET") return undefined;
  const names = pathNames(route.path);
  const { properties, required } = objectSchema(input);
  const isUnion = !input["properties"];
  const schema =
    isUnion || names.length === 0
      ? input
      : {
          ...input,
          properties: Object.fromEntries(
            Object.entries(properties).filter(([name]) => !names.includes(name)),
          ),
          required: required.filter((name) => !names.includes(name)),
        };
  const needed = required.some((name) => !names.includes(name));
  const multipart = {
    type: "object",
    properties: {
      ...properties,
      file: { type: "string", contentMediaType: "application/octet-stream" },
    },
  };
  return {
    required: needed,
    content: {
      "application/json": { schema },
      ...(route.contract.body === "multipart"
        ? { "multipart/form-data": { schema: multipart } }
        : {}),
    },
  };
}

const envelope = (data: Json): Json => ({
  type: "object",
  required: ["timestamp", "returnCode", "message", "responseData"],
  properties: {
    timestamp: { type: "integer", description: "Unix time of the answer, seconds" },
    returnCode: { const: 0 },
    message: { type: "string" },
    responseData: data,
  },
});

function errorResponses(types: readonly ErrorType[], form: ActionContract["form"]): Json {
  const byStatus = Map.groupBy([...new Set(types)], (type) => errorTable[type].status);
  return Object.fromEntries(
    [...byStatus]
      .sort(([a], [b]) => a - b)
      .map(([status, group]) => [
        String(status),
        {
          description: group
            .map((type) => `\`${type}\` (${errorTable[type].returnCode}): ${errorTable[type].en}`)
            .join("\n\n"),
          content: {
            "application/json": {
              schema: { $ref: `#/components/schemas/${form === "plain" ? "PlainError" : "Error"}` },
            },
          },
        },
      ]),
  );
}

const security = (access: ActionContract["access"]): Json[] =>
  access === "public" ? [{}] : (access ?? []).map((realm) => ({ [realm]: [] }));

function operation(route: Route): Json {
  const { contract } = route;
  const input = jsonSchema(contract.input, "input");
  const output = jsonSchema(contract.output, "output");
  const open = contract.access === "public";
  const types = [...always, ...(open ? [] : guarded), ...(contract.errors ?? [])];
  const requestBody = bodyOf(route, input);
  return {
    // Routes of one action differ in method or path; identifiers must differ too.
    operationId: `${route.action}.${route.method.toLowerCase()}${pathNames(route.path)
      .map((name) => `.${name}`)
      .join("")}`,
    summary: contract.summary,
    ...(contract.description ? { description: contract.description } : {}),
    tags: [route.service.about],
    security: security(contract.access),
    parameters: parametersOf(route, input),
    ...(requestBody ? { requestBody } : {}),
    responses: {
      [String(contract.successStatus ?? 200)]: {
        description: "Success",
        content: {
          "application/json": { schema: contract.form === "plain" ? output : envelope(output) },
        },
      },
      ...errorResponses(types, contract.form),
    },
  };
}

function rawOperation(route: RawRoute): Json {
  const names = pathNames(route.path);
  return {
    operationId: `raw.${route.method.toLowerCase()}.${route.path.replace(/\W+/g, ".")}`,
    summary: route.summary,
    tags: ["Streams and protocols"],
    security: security(route.access),
    parameters: names.map((name) => ({
      name,
      in: "path",
      required: true,
      schema: { type: "string" },
      ...(route.path.includes(`{${name}*}`) ? { description: "May contain slashes" } : {}),
    })),
    ...(route.requestTypes
      ? {
          requestBody: {
            content: Object.fromEntries(route.requestTypes.map((type) => [type, {}])),
          },
        }
      : {}),
    responses: { default: { description: "See the summary; errors as JSON" } },
  };
}

const errorSchema = (plain: boolean): Json => {
  const error = {
    type: "object",
    required: ["type", ...(plain ? ["message"] : [])],
    properties: {
      type: { enum: Object.keys(errorTable) },
      ...(plain ? { message: { type: "string" }, retry: { enum: ["never", "later"] } } : {}),
      data: { type: "object" },
    },
  };
  if (plain) return { type: "object", required: ["error"], properties: { error } };
  return {
    type: "object",
    required: ["timestamp", "returnCode", "message"],
    properties: {
      timestamp: { type: "integer", description: "Unix time of the answer, seconds" },
      returnCode: {
        enum: [...new Set(Object.values(errorTable).map(({ returnCode }) => returnCode))].sort(
          (a, b) => a - b,
        ),
      },
      message: { type: "string", description: "Chinese, or English by Accept-Language" },
      error,
    },
  };
};

const scheme = (description: string) => ({ type: "http", scheme: "bearer", description });

/** The OpenAPI 3.1 document of all routes. Nothing in it is written by hand besides these frames. */
export function openApiDocument(routes: readonly Route[], raw: readonly RawRoute[]): Json {
  const paths: Record<string, Json> = {};
  const put = (path: string, method: string, value: Json) => {
    paths[plainPath(path)] = { ...paths[plainPath(path)], [method.toLowerCase()]: value };
  };
  for (const route of routes) put(route.path, route.method, operation(route));
  for (const route of raw) put(route.path, route.method, rawOperation(route));
  const realms = new Set(
    [...routes.map(({ contract }) => contract.access), ...raw.map(({ access }) => access)].flatMap(
      (access) => (access === "public" || access === undefined ? [] : [...access]),
    ),
  );
  const schemes: Record<string, string> = {
    admin: "Administrator: the token from POST /auth/admin/login",
    agent: "AI agent: MCP_TOKEN",
    bridge: "Composition bridge: BRIDGE_TOKEN",
  };
  return {
    openapi: "3.1.0",
    info: {
      title: packageJson.name,
      version: packageJson.version,
      description: packageJson.description,
      license: { name: packageJson.license, identifier: packageJson.license },
    },
    servers: [{ url: "/" }],
    tags: [...new Set(routes.map(({ service }) => service.about))].map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: Object.fromEntries(
        [...realms].sort().map((realm) => [realm, scheme(schemes[realm] ?? `Realm ${realm}`)]),
      ),
      schemas: { Error: errorSchema(false), PlainError: errorSchema(true) },
    },
  };
}
