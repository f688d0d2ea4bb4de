import { describe, expect, test } from "@jest/globals";
import type { ServiceBroker } from "moleculer";
import type { Config } from "../../lib/config.ts";
import { gatewayOrigins, nodeLinkBase } from "../../services/storage/link-base.ts";

interface Node {
  id: string;
  hostname: string;
  ipList: string[];
  metadata: { gatewayUrl?: string };
}
const node = (id: string, hostname: string, ip: string, gatewayUrl?: string): Node => ({
  id,
  hostname,
  ipList: [ip],
  metadata: { gatewayUrl },
});
const gpu = node("gpu", "gpu-host", "10.0.0.9");

/** The storage service's host on node `self`, in a mesh of these nodes. */
const hostOf = (self: string, nodes: Node[], config: Partial<Config> = {}) => ({
  config: config as Config,
  broker: {
    nodeID: self,
    registry: { getNodeList: () => nodes },
  } as unknown as ServiceBroker,
});

describe("the address at which a node reaches a gateway", () => {
  const mesh = [gpu, node("edge", "edge-host", "10.0.0.2", "http://10.0.0.2:3000")];

  test("is INTERNAL_URL, else PUBLIC_URL, else what a gateway of the mesh publishes", () => {
    const PUBLIC_URL = "https://video.example.org/";
    const INTERNAL_URL = "http://gateway:3000";
    const base = (config: Partial<Config>) => nodeLinkBase(hostOf("inside", mesh, config), "gpu");
    expect(base({ PUBLIC_URL, INTERNAL_URL })).toBe("http://gateway:3000");
    expect(base({ PUBLIC_URL })).toBe("https://video.example.org");
    expect(base({})).toBe("http://10.0.0.2:3000");
  });

  test("is the storage node's own gateway before any other: the content takes no second way", () => {
    const nodes = [...mesh, node("inside", "inside-host", "10.0.0.3", "http://10.0.0.3:3000")];
    expect(nodeLinkBase(hostOf("inside", nodes), "gpu")).toBe("http://10.0.0.3:3000");
  });

  test("names the gateway's machine where the gateway knows itself by loopback only", () => {
    const edge = node("edge", "edge-host", "10.0.0.2", "http://127.0.0.1:3000");
    const near = node("near", "edge-host", "10.0.0.2");
    const host = hostOf("inside", [gpu, edge, near]);
    expect(nodeLinkBase(host, "gpu")).toBe("http://10.0.0.2:3000");
    expect(nodeLinkBase(host, "near")).toBe("http://127.0.0.1:3000");
    const six = node("edge", "edge-host", "fd00::2", "http://[::1]:3000");
    expect(nodeLinkBase(hostOf("inside", [gpu, six]), "gpu")).toBe("http://[fd00::2]:3000");
  });

  test("is a reason to come again while no gateway is there", () => {
    expect(() => nodeLinkBase(hostOf("inside", [gpu]), "gpu")).toThrow(
      expect.objectContaining({ type: "UNAVAILABLE" }),
    );
  });
});

test("the own origins are every name of every gateway, and no other host", () => {
  const nodes = [gpu, node("edge", "edge-host", "10.0.0.2", "http://127.0.0.1:3000")];
  const config = { PUBLIC_URL: "https://video.example.org/path" };
  expect(gatewayOrigins(hostOf("inside", nodes, config)).sort()).toEqual([
    "http://10.0.0.2:3000",
    "http://127.0.0.1:3000",
    "http://[::1]:3000",
    "http://localhost:3000",
    "https://video.example.org",
  ]);
});
