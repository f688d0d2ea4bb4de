import { readFileSync } from "node:fs";
import { describe, expect, test } from "@jest/globals";
import { routesOf } from "../../lib/contract.ts";
import { catalogue } from "../../services/catalogue.ts";
import { contracts } from "../../services/contracts.ts";
import { rawRoutes } from "../../services/gateway/raw-routes.ts";
import { Router } from "../../services/gateway/router.ts";

/** All routes of the three documents, but for those of the provider, which the product calls. */
const documented = readFileSync(new URL("./routes.tsv", import.meta.url), "utf8")
  .trim()
  .split("\n")
  .slice(1)
  .map((line) => line.split("\t"))
  .filter(([, section]) => !section!.includes("not served"))
  .map(([, , method, path]) => ({ method: method!, path: path! }));

/** Routes that the product serves today. This list may only grow. */
const promised = [
  "GET /index/",
  "POST /auth/admin/login",
  "GET /auth/admin/logout",
  "GET /agent/admin/app",
  "POST /agent/admin/app",
  "PATCH /agent/admin/app",
  "DELETE /agent/admin/app",
  "POST /agent/admin/run",
  "PUT /agent/admin/run/{id}",
  "GET /aigc/admin/storyboard",
  "POST /aigc/admin/storyboard",
  "PATCH /aigc/admin/storyboard",
  "DELETE /aigc/admin/storyboard",
  "POST /common/cloudvendor-oss/create-folder",
  "POST /common/cloudvendor-oss/upload-file",
  "DELETE /common/cloudvendor-oss/delete-file",
  "GET /common/cloudvendor-oss/list-files",
  "POST /admin/cloudvendor/oss/getDirectUploadUrl",
  "GET /mcp/tools",
  "POST /mcp/tools/call",
  "GET /mcp/jobs/{id}",
  "GET /mcp/resources",
  "GET /mcp/prompts",
  "POST /compose-timeline-ffmpeg",
  "GET /jobs/{job_id}",
  "POST /compose",
  "POST /enhance",
];

const router = new Router(routesOf(contracts), rawRoutes);
const hosted = new Set(
  Object.values(catalogue)
    .flat()
    .flatMap(({ contract, hosts = [] }) => [contract, ...hosts])
    .flatMap((contract) =>
      Object.keys(contract.actions).map((action) => `${contract.name}.${action}`),
    ),
);

/** What answers a documented route: a hosted action or a raw route. */
function serverOf({ method, path }: { method: string; path: string }): string | undefined {
  try {
    const example = path.replace(/\{\w+\}/g, "01a1fc12-d17f-7813-8d40-6d0199bf1886");
    const { target } = router.resolve(method, example);
    if (target.raw) return `raw ${target.raw.path}`;
    return hosted.has(target.spec.action) ? target.spec.action : undefined;
  } catch {
    return undefined;
  }
}

describe("routes of the documents", () => {
  test.each(promised)("%s is in the documents and served", (text) => {
    const [method, path] = text.split(" ") as [string, string];
    expect(documented).toContainEqual({ method, path });
    expect(serverOf({ method, path })).toBeDefined();
  });

  test("what is served beyond the promise is added to it, and the rest is counted", () => {
    const served = documented
      .filter((route) => serverOf(route) !== undefined)
      .map(({ method, path }) => `${method} ${path}`);
    expect([...new Set(served)].sort()).toEqual([...promised].sort());
    expect({ documented: documented.length, notYet: documented.length - served.length }).toEqual({
      documented: 286,
      notYet: 259,
    });
  });

  test("every route of a contract is hosted by some role", () => {
    const orphans = routesOf(contracts)
      .filter(({ action }) => !hosted.has(action))
      .map(({ method, path, action }) => `${method} ${path} -> ${action}`);
    expect(orphans).toEqual([]);
  });
});
