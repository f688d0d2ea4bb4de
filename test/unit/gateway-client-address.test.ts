import { describe, expect, test } from "@jest/globals";
import { loadConfig } from "../../lib/config.ts";
import { clientNetworkOf } from "../../lib/net/client-network.policy.ts";
import {
  clientAddressOf,
  readTrustedProxies,
} from "../../services/gateway/client-address.policy.ts";
import {
  clientKeyOf,
  type Lease,
  leaseOf,
  shareOf,
  take,
} from "../../services/gateway/rate-limit.policy.ts";

const proxies = readTrustedProxies([
  "127.0.0.1",
  "10.0.0.0/8",
  "2001:db8:1::/48",
  "::ffff:172.16.0.9",
]);

describe("address of a client", () => {
  test.each([
    ["the socket's own without proxies in between", "192.0.2.7", undefined, "192.0.2.7"],
    ["IPv4 inside IPv6 as IPv4", "::ffff:192.0.2.7", undefined, "192.0.2.7"],
    ["IPv4 inside IPv6, written in hex", "::ffff:c000:207", undefined, "192.0.2.7"],
    ["a stranger's header is not believed", "192.0.2.7", "198.51.100.1", "192.0.2.7"],
    ["what the trusted proxy saw", "10.1.2.3", "198.51.100.1", "198.51.100.1"],
    [
      "a trusted proxy through a socket of both families",
      "::ffff:10.1.2.3",
      "198.51.100.1",
      "198.51.100.1",
    ],
    ["a proxy that the setting writes as IPv6", "172.16.0.9", "198.51.100.1", "198.51.100.1"],
    [
      "right-most that is not trusted: the left is the client's own word",
      "127.0.0.1",
      "1.1.1.1, 198.51.100.1, 10.9.9.9",
      "198.51.100.1",
    ],
    ["all of them trusted: the first", "127.0.0.1", "10.0.0.5, 10.0.0.6", "10.0.0.5"],
    ["a proxy over IPv6", "2001:db8:1::5", "2001:DB8:0:0::9", "2001:db8::9"],
    ["with a port", "127.0.0.1", "198.51.100.1:50123", "198.51.100.1"],
    ["IPv6 in brackets with a port", "127.0.0.1", "[2001:db8::9]:443", "2001:db8::9"],
    ["a zone is dropped", "fe80::1%eth0", undefined, "fe80::1"],
    ["words that are no address end the chain", "127.0.0.1", "198.51.100.1, unknown", "127.0.0.1"],
    ["an address in another notation is none", "127.0.0.1", "0x7f.1", "127.0.0.1"],
    ["an empty header", "127.0.0.1", "", "127.0.0.1"],
    ["a socket that has gone", undefined, "198.51.100.1", "unknown"],
  ])("%s", (_, socket, forwarded, expected) => {
    expect(clientAddressOf(socket, forwarded, proxies)).toBe(expected);
  });

  test("with no proxy trusted nothing is read from the header", () => {
    expect(clientAddressOf("127.0.0.1", "198.51.100.1", [])).toBe("127.0.0.1");
  });

  test("of a long chain only the end is looked at", () => {
    const forwarded = ["198.51.100.1", ...Array<string>(5_000).fill("10.0.0.1")].join(",");
    expect(clientAddressOf("127.0.0.1", forwarded, proxies)).toBe("10.0.0.1");
  });

  test("IPv6 clients are told apart by their /64, IPv4 clients by their address", () => {
    expect(clientNetworkOf("2001:db8:1:2:aaaa::1")).toBe("2001:db8:1:2::/64");
    expect(clientNetworkOf("2001:db8:1:2:bbbb::2")).toBe("2001:db8:1:2::/64");
    expect(clientNetworkOf("2001:db8:1:3::2")).toBe("2001:db8:1:3::/64");
    expect(clientNetworkOf("::1")).toBe("0:0:0:0::/64");
    expect(clientNetworkOf("192.0.2.7")).toBe("192.0.2.7");
    expect(clientNetworkOf("unknown")).toBe("unknown");
  });

  test.each(["nonsense", "10.0.0.0/33", "proxy.example.com"])(
    "TRUSTED_PROXIES refuses %s",
    (entry) => {
      expect(() =>
        loadConfig({ TRUSTED_PROXIES: `10.0.0.1,${entry}` }, { generate: false }),
      ).toThrow(/TRUSTED_PROXIES.*comma-separated list of IP addresses and CIDR ranges/);
    },
  );
});

describe("one client of the rate limit", () => {
  test("is an account wherever it comes from, a shared token at one address, else the address", () => {
    const key = (realm: "admin" | "agent", session?: string, address = "192.0.2.7") =>
      clientKeyOf({ realm, id: "x", session }, address);
    expect(key("admin", "s1")).toBe(key("admin", "s2", "192.0.2.8"));
    expect(key("agent")).not.toBe(key("agent", undefined, "192.0.2.8"));
    expect(key("admin", "s1")).not.toBe(key("agent", "s1"));
    expect(clientKeyOf(undefined, "192.0.2.7")).toBe("address:192.0.2.7");
  });

  test("is no bridge and no node of the installation", () => {
    expect(clientKeyOf({ realm: "bridge", id: "b" }, "192.0.2.7")).toBeUndefined();
    expect(clientKeyOf({ realm: "system", id: "s" }, "192.0.2.7")).toBeUndefined();
  });
});

describe("a gateway's share of a client's allowance", () => {
  test("is 1 % of the limit, at least one request", () => {
    expect([1, 99, 250, 6_000, 10_000_000].map(shareOf)).toEqual([1, 1, 2, 60, 1_000]);
  });

  test("gateways that take in turn let exactly the limit through, whatever their shares", () => {
    for (const [limit, share] of [
      [100, 1],
      [100, 7],
      [100, 100],
      [5, 2],
    ] as const) {
      const gateways: (Lease | undefined)[] = [undefined, undefined, undefined];
      let consumed = 0;
      let through = 0;
      for (let turn = 0; turn < 10 * limit; turn += 1) {
        const at = turn % gateways.length;
        const taken = gateways[at] && take(gateways[at], 0);
        if (taken && !taken.exceeded) through += 1;
        if (taken) continue;
        consumed += share;
        gateways[at] = leaseOf(limit, share, consumed, 60_000);
      }
      expect(through).toBe(limit);
    }
  });

  test("ends with its window", () => {
    const lease = leaseOf(10, 5, 15, 1_000);
    expect(take(lease, 999)).toEqual({ remaining: 0, resetMs: 1, exceeded: true });
    expect(take(lease, 1_000)).toBeUndefined();
  });
});
