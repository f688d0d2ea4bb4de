import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createRequire } from "node:module";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { AppError } from "../../lib/errors.ts";
import type { RawRoute } from "./raw-route.ts";

interface Asset {
  type: string;
  plain: Buffer;
  packed: Buffer;
  etag: string;
}

const require = createRequire(import.meta.url);
const pack = promisify(gzip);

/** Files of the page, by the name in their address; nothing else of the package is served. */
const files: Record<string, string> = {
  "swagger-ui.css": "text/css; charset=utf-8",
  "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
  "favicon-32x32.png": "image/png",
};

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>reelmesh API</title>
<link rel="icon" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="api"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`;

const startScript = `SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#api",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: -1,
  filter: true,
  persistAuthorization: false,
  tryItOutEnabled: true,
  validatorUrl: null,
});
`;

/** The page brings its own files and talks to this server only. Its styles and icons are inline by design. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

async function asset(type: string, plain: Buffer): Promise<Asset> {
  const etag = `"${createHash("sha256").update(plain).digest("base64url").slice(0, 22)}"`;
  return { type, plain, packed: await pack(plain), etag };
}

/** Loaded and packed when first asked for: most runs of the product never show the page. */
const loaded = new Map<string, Promise<Asset>>();
function load(name: string, make: () => Promise<Buffer> | Buffer, type: string): Promise<Asset> {
  let found = loaded.get(name);
  if (!found) {
    found = Promise.resolve(make()).then((plain) => asset(type, plain));
    found.catch(() => loaded.delete(name));
    loaded.set(name, found);
  }
  return found;
}

function send(
  req: IncomingMessage,
  res: ServerResponse,
  { type, plain, packed, etag }: Asset,
): void {
  const headers = {
    ETag: etag,
    "Cache-Control": "no-cache",
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    Vary: "Accept-Encoding",
  };
  if (req.headers["if-none-match"] === etag) {
    res.writeHead(304, headers).end();
    return;
  }
  const isPacked = /\bgzip\b/.test(String(req.headers["accept-encoding"] ?? ""));
  const body = isPacked ? packed : plain;
  res.writeHead(200, {
    ...headers,
    "Content-Type": type,
    "Content-Length": body.length,
    ...(isPacked ? { "Content-Encoding": "gzip" } : {}),
  });
  res.end(req.method === "HEAD" ? undefined : body);
}

/**
 * The API document, a page to read it that works without the internet, and the sign of life.
 * @param document Made when first asked for, then kept: contracts do not change while the product runs.
 */
export function docsRoutes(document: () => unknown): RawRoute[] {
  return [
    {
      method: "GET",
      path: "/openapi.json",
      access: "public",
      summary: "This API as an OpenAPI 3.1 document",
      async handle(req, res) {
        const make = () => Buffer.from(JSON.stringify(document()));
        send(req, res, await load("openapi.json", make, "application/json; charset=utf-8"));
      },
    },
    {
      method: "GET",
      path: "/docs",
      access: "public",
      summary: "This API as a page to read and try",
      async handle(req, res) {
        send(req, res, await load("docs", () => Buffer.from(page), "text/html; charset=utf-8"));
      },
    },
    {
      method: "GET",
      path: "/docs/{file}",
      access: "public",
      summary: "Files of that page",
      async handle(req, res, { params }) {
        const name = params["file"]!;
        const type = Object.hasOwn(files, name) ? files[name]! : undefined;
        if (name === "start.js") {
          const script = () => Buffer.from(startScript);
          send(req, res, await load(name, script, "text/javascript; charset=utf-8"));
        } else if (type) {
          const read = () => readFile(require.resolve(`swagger-ui-dist/${name}`));
          send(req, res, await load(name, read, type));
        } else throw new AppError("ROUTE_NOT_FOUND", { method: "GET", path: `/docs/${name}` });
      },
    },
  ];
}
