import ipaddr from "ipaddr.js";

/** Hosts and ranges that may be reached although they are private (`FETCH_ALLOW`). */
export interface FetchAllow {
  hosts: ReadonlySet<string>;
  ranges: readonly [ipaddr.IPv4 | ipaddr.IPv6, number][];
}

const withoutBrackets = (host: string): string => host.replace(/^\[|\]$/g, "").replace(/\.$/, "");

/** Reads `FETCH_ALLOW`: host names, addresses and CIDR ranges. */
export function readFetchAllow(entries: readonly string[]): FetchAllow {
  const hosts = new Set<string>();
  const ranges: [ipaddr.IPv4 | ipaddr.IPv6, number][] = [];
  for (const entry of entries) {
    if (ipaddr.isValidCIDR(entry)) ranges.push(ipaddr.parseCIDR(entry));
    else if (ipaddr.isValid(entry)) {
      const address = ipaddr.parse(entry);
      ranges.push([address, address.kind() === "ipv4" ? 32 : 128]);
    } else hosts.add(withoutBrackets(entry).toLowerCase());
  }
  return { hosts, ranges };
}

/** IPv4 inside IPv6 in any of its forms, so that none of them is a way around the IPv4 rules. */
function embedded(address: ipaddr.IPv4 | ipaddr.IPv6): ipaddr.IPv4 | ipaddr.IPv6 {
  if (address.kind() === "ipv4") return address;
  const six = address as ipaddr.IPv6;
  if (six.isIPv4MappedAddress()) return six.toIPv4Address();
  const bytes = six.toByteArray();
  const range = six.range();
  // 64:ff9b::/96 (NAT64) and ::/96 (compatible) end with the address; 2002::/16 (6to4) starts with it.
  if (range === "rfc6052" || bytes.slice(0, 12).every((byte) => byte === 0))
    return six.range() === "loopback" || six.range() === "unspecified"
      ? six
      : new ipaddr.IPv4(bytes.slice(12));
  if (range === "6to4") return new ipaddr.IPv4(bytes.slice(2, 6));
  return six;
}

const within = (address: ipaddr.IPv4 | ipaddr.IPv6, allow: FetchAllow): boolean =>
  allow.ranges.some(
    ([range, bits]) => range.kind() === address.kind() && address.match(range as never, bits),
  );

const words: Readonly<Record<string, string>> = {
  private: "a private address",
  loopback: "an address of the machine itself",
  linkLocal: "a link-local address",
  uniqueLocal: "a private address",
  carrierGradeNat: "a provider-internal address",
  multicast: "a multicast address",
  broadcast: "a broadcast address",
  unspecified: "no address of a host",
};

/**
 * Why an address may not be connected to; `undefined` when it may. Only addresses that are routed on the
 * public internet may be fetched from: anything else could be a service that trusts its own network.
 */
export function addressRefusal(text: string, allow: FetchAllow): string | undefined {
  const plain = withoutBrackets(text).replace(/%.*$/, "");
  if (!ipaddr.isValid(plain)) return "not an IP address";
  const given = ipaddr.parse(plain);
  const address = embedded(given);
  if (within(given, allow) || within(address, allow)) return undefined;
  const range = address.range();
  return range === "unicast" ? undefined : `${words[range] ?? `a reserved address (${range})`}`;
}

/** What can be said of a host before its name is looked up: literal addresses and names that are local by definition. */
export function hostRefusal(hostname: string, allow: FetchAllow): string | undefined {
  const host = withoutBrackets(hostname).toLowerCase();
  if (allow.hosts.has(host)) return undefined;
  if (ipaddr.isValid(host)) return addressRefusal(host, allow);
  if (host === "localhost" || host.endsWith(".localhost")) {
    return addressRefusal("127.0.0.1", allow);
  }
  return undefined;
}

/** Whether a host is named in `FETCH_ALLOW`, so that its addresses are not looked at. */
export const isAllowedHost = (hostname: string, allow: FetchAllow): boolean =>
  allow.hosts.has(withoutBrackets(hostname).toLowerCase());
