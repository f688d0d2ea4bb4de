import { execFileSync, spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "@jest/globals";
import { parse, parseAllDocuments } from "yaml";
import { describeConfig, loadConfig, roles } from "../../lib/config.ts";

const root = join(import.meta.dirname, "../..");
const deploy = join(root, "deploy");
const read = (...path: string[]) => readFileSync(join(deploy, ...path), "utf8");
const temporary = mkdtempSync(join(tmpdir(), "reelmesh-deploy-"));
afterAll(() => rmSync(temporary, { recursive: true, force: true }));

const settings = new Set(
  describeConfig(loadConfig({ DATA_DIR: temporary }, { generate: false })).map(({ name }) => name),
);
/** What a script gives its node for a stop in good order. */
const stopSeconds = (script: string) =>
  Number(
    /STOP_MS = ([\d_]+)/
      .exec(readFileSync(join(root, "scripts", script), "utf8"))?.[1]
      ?.replaceAll("_", ""),
  ) / 1000;

/** KEY=VALUE lines; what stands in a comment counts only if asked for. */
function readEnv(text: string, { comments = false } = {}): Record<string, string> {
  const line = comments ? /^(?:# )?([A-Z][A-Z0-9_]*)=(.*)$/gm : /^([A-Z][A-Z0-9_]*)=(.*)$/gm;
  return Object.fromEntries([...text.matchAll(line)].map(([, name, value]) => [name, value ?? ""]));
}
const secretValue = "s0123456789abcdefghijkl";
const filled = (env: Record<string, string>) =>
  Object.fromEntries(Object.entries(env).map(([name, value]) => [name, value || secretValue]));

/** Whether the product itself starts with these settings: unknown names and wrong values are told. */
function checkEnvironment(env: Record<string, string>): void {
  expect(Object.keys(env).filter((name) => !settings.has(name as never))).toEqual([]);
  loadConfig({ ...env, DATA_DIR: temporary }, { generate: false });
}
const storeSettings = /^(MONGO_URL|REDIS_URL|S3_|OSS_|STORAGE_SECRET|ADMIN_PASSWORD|MCP_TOKEN)/;

// biome-ignore lint/suspicious/noExplicitAny: documents of other tools, looked at field by field
type Document = any;

describe("the compose file", () => {
  const text = read("compose.yaml");
  const variables = [...text.matchAll(/(?<!\$)\$\{([A-Z0-9_]+)(?::([-?])([^}]*))?\}/g)];
  const example = readEnv(read(".env.example"), { comments: true });
  const env = filled(readEnv(read(".env.example")));
  /** As the program does it: in the values of the parsed file. */
  const interpolate = (value: Document): Document => {
    if (typeof value === "string")
      return value.replace(
        /(?<!\$)\$\{([A-Z0-9_]+)(?::([-?])([^}]*))?\}/g,
        (_, name, kind, rest) => env[name] ?? (kind === "-" ? rest : ""),
      );
    if (Array.isArray(value)) return value.map(interpolate);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, interpolate(part)]));
  };
  const { services }: Document = interpolate(parse(text, { merge: true }));
  const own = Object.entries(services).filter(
    ([, { environment }]: Document) => environment?.SERVICES,
  );

  test("names in its example of settings what it reads, and nothing else", () => {
    const named = new Set(variables.map(([, name]) => name));
    expect([...named].sort()).toEqual(Object.keys(example).sort());
    // What has no default is a secret, and is asked for; the example gives none.
    for (const [whole, name, kind] of variables)
      expect([whole, kind === "?"]).toEqual([whole, readEnv(read(".env.example"))[name!] === ""]);
  });

  test("hosts every role, gateway, scheduler and compose twice", () => {
    expect(own.map(([name]) => name).sort()).toEqual([...roles].sort());
    for (const role of ["gateway", "scheduler", "compose"])
      expect([role, services[role].deploy.replicas]).toEqual([role, 2]);
  });

  test.each(own)("starts %s with settings that the product takes", (name, service: Document) => {
    expect(service.environment.SERVICES).toBe(name);
    checkEnvironment(service.environment);
  });

  test("gives compose nodes neither database nor keys", () => {
    const names = Object.keys(services.compose.environment);
    expect(names.filter((name) => storeSettings.test(name))).toEqual([]);
  });

  test.each(Object.keys(services))("%s is looked after: health, restart, limits", (name) => {
    const service = services[name];
    expect(service.restart).toBeDefined();
    if (service.restart === "no") return;
    expect(service.deploy.resources.limits.memory).toBeDefined();
    if (!service.environment?.SERVICES) return expect(service.healthcheck.test).toBeDefined();
    // Health is the image's own; the stop needs more time than the node takes.
    expect(Number.parseInt(service.stop_grace_period, 10)).toBeGreaterThan(stopSeconds("start.ts"));
  });

  test("mounts only files that are here", () => {
    const mounts = Object.values<Document>(services)
      .flatMap(({ volumes }) => volumes ?? [])
      .filter((volume: string) => volume.startsWith("./"));
    expect(mounts.length).toBeGreaterThan(2);
    for (const mount of mounts) expect(existsSync(join(deploy, mount.split(":")[0]))).toBe(true);
  });

  test("its images are made by the container file", () => {
    const targets = [...read("containers/Dockerfile").matchAll(/ AS (\S+)/g)].map(
      ([, name]) => name,
    );
    for (const [, { build, image }] of own as [string, Document][]) {
      expect(targets).toContain(build.target);
      expect(image).toContain(`/${build.target}:`);
    }
  });
});

describe("the container file", () => {
  const file = read("containers/Dockerfile");
  const allowed = read("containers/Dockerfile.dockerignore")
    .split("\n")
    .filter((line) => line.startsWith("!"))
    .map((line) => line.slice(1));

  test("copies what is there and what the context lets through", () => {
    const sources = [...file.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(
      ([, list]) => list?.split(" ") ?? [],
    );
    expect(sources.length).toBeGreaterThan(5);
    for (const source of sources) {
      expect([source, existsSync(join(root, source))]).toEqual([source, true]);
      expect([source, allowed.includes(source)]).toEqual([source, true]);
    }
  });

  test("runs as nobody special, with settings that exist; FFmpeg is in one image", () => {
    const stages = file.split(/^FROM /m).slice(1);
    for (const stage of stages.filter((one) => /AS (core|platform|compose)\n/.test(one)))
      expect([...stage.matchAll(/^USER (.+)$/gm)].at(-1)?.[1] ?? "1000:1000").toBe("1000:1000");
    expect(stages.filter((stage) => /install.*ffmpeg/.test(stage))).toHaveLength(1);
    const env = [...file.matchAll(/([A-Z_]+)=([^\s\\]+)/g)].map(([, name]) => name ?? "");
    const ofNode = ["NODE_ENV", "UV_THREADPOOL_SIZE", "NODE_COMPILE_CACHE"];
    expect(env.filter((name) => !settings.has(name as never) && !ofNode.includes(name))).toEqual(
      [],
    );
  });
});

describe("Kubernetes", () => {
  const files = readdirSync(join(deploy, "kubernetes")).filter((name) => name.endsWith(".yaml"));
  const all: Document[] = files.flatMap((name) =>
    parseAllDocuments(read("kubernetes", name)).map((document) => {
      expect(document.errors).toEqual([]);
      return document.toJS();
    }),
  );
  const of = (kind: string) => all.filter((one) => one.kind === kind);
  const maps = Object.fromEntries(
    of("ConfigMap").map(({ metadata, data }) => [metadata.name, data]),
  );
  /** Secrets by name, as the example file is divided. */
  const secrets = Object.fromEntries(
    read("kubernetes/secrets.env.example")
      .split(/^# (?=reelmesh-)/m)
      .slice(1)
      .map((part) => [/^[\w-]+/.exec(part)?.[0], filled(readEnv(part))]),
  );
  const deployments = of("Deployment").map((one) => [one.metadata.name, one] as const);
  const container = (deployment: Document) => deployment.spec.template.spec.containers[0];
  function environmentOf(deployment: Document): Record<string, string> {
    const { env, envFrom } = container(deployment);
    const result: Record<string, string> = {};
    for (const { configMapRef, secretRef } of envFrom) {
      const found = configMapRef ? maps[configMapRef.name] : secrets[secretRef.name];
      expect(found).toBeDefined();
      Object.assign(result, found);
    }
    for (const { name, value, valueFrom } of env) {
      const { configMapKeyRef: key, fieldRef } = valueFrom ?? {};
      result[name] = value ?? (fieldRef ? "pod-1" : maps[key.name][key.key]);
      expect([name, typeof result[name]]).toEqual([name, "string"]);
    }
    return result;
  }

  test("the kustomization lists every file, and every role has a deployment", () => {
    const { resources }: Document = of("Kustomization")[0];
    expect([...resources, "kustomization.yaml"].sort()).toEqual(files.sort());
    expect(deployments.map(([name]) => name).sort()).toEqual([...roles].sort());
  });

  test.each(deployments)("%s starts with settings that the product takes", (name, deployment) => {
    const environment = environmentOf(deployment);
    expect(environment["SERVICES"]).toBe(name);
    checkEnvironment(environment);
    if (name === "compose")
      expect(Object.keys(environment).filter((one) => storeSettings.test(one))).toEqual([]);
  });

  test.each(deployments)("%s is probed, bounded, spread, and stops in good order", (name, one) => {
    const pod = one.spec.template.spec;
    const main = container(one);
    const ports = main.ports.map(({ name: port }: Document) => port);
    for (const probe of ["startupProbe", "livenessProbe", "readinessProbe"])
      expect(ports).toContain(main[probe].httpGet.port);
    expect(main.resources.limits.memory).toBeDefined();
    expect(pod.topologySpreadConstraints.length).toBeGreaterThan(0);
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(
      main.lifecycle.preStop.sleep.seconds + stopSeconds("start.ts"),
    );
    expect(pod.securityContext.runAsNonRoot).toBe(true);
    expect(main.securityContext.readOnlyRootFilesystem).toBe(true);
    const labels = one.spec.template.metadata.labels;
    expect(one.spec.selector.matchLabels).toEqual(labels);
    const budgets = of("PodDisruptionBudget").map(({ spec }) => spec.selector.matchLabels);
    expect(budgets).toContainEqual(labels);
    expect(labels["app.kubernetes.io/component"]).toBe(name);
    // A fixed number of pods would work against the one that scales them.
    const scaled = of("HorizontalPodAutoscaler").some(
      ({ spec }) => spec.scaleTargetRef.name === name,
    );
    expect([name, one.spec.replicas === undefined]).toEqual([name, scaled]);
  });

  test("the network is closed but for what is listed, and compose nodes reach no database", () => {
    const policies = of("NetworkPolicy");
    const closed = policies.find(({ spec }) => !spec.ingress && !spec.egress);
    expect(closed.spec).toEqual({ podSelector: {}, policyTypes: ["Ingress", "Egress"] });
    const stores = policies.find(({ metadata }) => metadata.name === "stores");
    expect(stores.spec.podSelector.matchExpressions[0].values).not.toContain("compose");
  });
});

describe("systemd units", () => {
  const units = { "reelmesh@.service": "start.ts", "reelmesh-bridge.service": "bridge.ts" };
  test.each(Object.entries(units))("%s starts %s, hardened, with time to stop", (unit, script) => {
    const text = read("systemd", unit);
    expect(text).toContain(`ExecStart=/opt/reelmesh/node scripts/${script}\n`);
    expect(existsSync(join(root, "scripts", script))).toBe(true);
    const stop = Number(/^TimeoutStopSec=(\d+)$/m.exec(text)?.[1]);
    expect(stop).toBeGreaterThan(stopSeconds(script));
    const hardening = ["NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=\n"];
    for (const line of hardening) expect(text).toContain(line);
    // The engine writes machine code as it runs; with this line it could not start.
    expect(text).not.toContain("MemoryDenyWriteExecute");
    const names = [...(/^Environment=(.*)$/m.exec(text)?.[1] ?? "").matchAll(/([A-Z_]+)=/g)];
    const ofNode = ["NODE_ENV", "UV_THREADPOOL_SIZE", "NODE_COMPILE_CACHE"];
    for (const [, name = ""] of names)
      expect([name, settings.has(name as never) || ofNode.includes(name)]).toEqual([name, true]);
  });

  test("the template names every role", () => {
    const text = read("systemd", "reelmesh@.service");
    for (const role of roles) expect(text).toContain(`reelmesh@${role}`);
  });
});

describe("scripts", () => {
  const install = join(deploy, "gpu-host/install.sh");
  const run = (args: string[], env: Record<string, string> = {}) =>
    spawnSync("bash", [install, ...args], { encoding: "utf8", env: { ...process.env, ...env } });

  test("a new set of secrets is written once, whole and for its owner alone", () => {
    const folder = join(temporary, "new-env");
    cpSync(deploy, folder, { recursive: true });
    rmSync(join(folder, ".env"), { force: true });
    execFileSync("sh", [join(folder, "new-env.sh")]);
    const file = join(folder, ".env");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const env = readEnv(readFileSync(file, "utf8"));
    expect(Object.keys(env)).toEqual(Object.keys(readEnv(read(".env.example"))));
    for (const value of Object.values(env)) expect(value).toMatch(/^[a-z][A-Za-z0-9]{32}$/);
    expect(new Set(Object.values(env)).size).toBe(Object.keys(env).length);
    expect(spawnSync("sh", [join(folder, "new-env.sh")]).status).toBe(1);
    expect(readEnv(readFileSync(file, "utf8"))).toEqual(env);
  });

  test.each([
    [[], "compose or bridge"],
    [["compose"], "--transporter: missing"],
    [["--transporter", "nats://user:secret@host:4222", "compose"], "without user and password"],
    [["--transporter", "http://host", "compose"], "must be nats://"],
    [["--slots", "0", "bridge"], "--slots: must be a whole number"],
    [["--listen", "3100", "bridge"], "--listen: must be HOST:PORT"],
    [["--env-file", "/no/such/file", "bridge"], "cannot be read"],
    [["--nonsense", "bridge"], "--nonsense is not understood"],
    [["--slots"], "--slots needs a value"],
  ])("the installation of a GPU host refuses %j", (args, sentence) => {
    const { status, stderr } = run(["--dry-run", ...args]);
    expect([status, stderr]).toEqual([1, expect.stringContaining(sentence)]);
    expect(stderr).not.toContain("secret");
  });

  test("its help names every option that it knows, and the settings that it takes exist", () => {
    const text = readFileSync(install, "utf8");
    const { stdout } = run(["--help"]);
    for (const [, option = ""] of text.matchAll(/^ {6}(--[a-z-]+)\)/gm))
      expect(stdout).toContain(option);
    const taken = /FROM_ENVIRONMENT=\(([^)]*)\)/.exec(text)?.[1]?.split(" ") ?? [];
    const written = [...text.matchAll(/settings\[([A-Z_]+)\]=/g)].map(([, name]) => name ?? "");
    expect(taken.length * written.length).toBeGreaterThan(0);
    for (const name of [...taken, ...written])
      expect([name, settings.has(name as never)]).toEqual([name, true]);
    for (const part of /PARTS=\(([^)]*)\)/.exec(text)?.[1]?.split(" ") ?? [])
      expect([part, existsSync(join(root, part))]).toEqual([part, true]);
  });

  const isDebian =
    existsSync("/etc/os-release") && /debian|ubuntu/.test(readFileSync("/etc/os-release", "utf8"));
  (isDebian ? test : test.skip)(
    "a dry run tells the steps, shows no secret and changes nothing",
    () => {
      const secret = "a-secret-that-nobody-may-see";
      const { status, stdout, stderr } = run(["--dry-run", "bridge"], { BRIDGE_TOKEN: secret });
      expect([status, stderr]).toEqual([0, expect.not.stringContaining(secret)]);
      expect(stdout).toContain("reelmesh-bridge.service");
      expect(stdout).toContain("BRIDGE_TOKEN");
      expect(stdout).not.toContain(secret);
      expect(existsSync("/etc/reelmesh/bridge.env")).toBe(false);
    },
  );

  const shellcheck = spawnSync("shellcheck", ["--version"]).status === 0;
  (shellcheck ? test : test.skip)("shellcheck has nothing to say", () => {
    const files = [install, join(deploy, "new-env.sh")];
    expect(spawnSync("shellcheck", files, { encoding: "utf8" }).stdout).toBe("");
  });
});
