import ipaddr from "ipaddr.js";

type Address = ipaddr.IPv4 | ipaddr.IPv6;
/** Ranges of `TRUSTED_PROXIES`. */
export type TrustedProxies = readonly (readonly [Address, number])[];

/** Hops of X-Forwarded-For that are looked at, from the right: no honest chain of proxies is longer. */
const HOPS_MAX = 16;

/** IPv4 inside IPv6 is that IPv4 address; a zone (`%eth0`) and brackets say nothing of the client. */
function parse(text: string): Address | undefined {
  const plain = text.trim().replace(/^\[([^\]]*)\](:\d{1,5})?$/, "$1");
  // Some proxies add the port.
  const bare = plain.replace(/^(\d+\.\d+\.\d+\.\d+):\d{1,5}$/, "$1").replace(/%.*$/, "");
  if (ipaddr.IPv4.isValidFourPartDecimal(bare)) return ipaddr.IPv4.parse(bare);
  if (!ipaddr.IPv6.isValid(bare)) return undefined;
  const six = ipaddr.IPv6.parse(bare);
  return six.isIPv4MappedAddress() ? six.toIPv4Address() : six;
}

/** Reads `TRUSTED_PROXIES`, whose entries the configuration has checked. */
export const readTrustedProxies = (entries: readonly string[]): TrustedProxies =>
  entries.map((entry) => {
    if (ipaddr.isValidCIDR(entry)) return ipaddr.parseCIDR(entry);
    const address = ipaddr.process(entry);
    return [address, address.kind() === "ipv4" ? 32 : 128];
  });

const trusts = (proxies: TrustedProxies, address: Address): boolean =>
  proxies.some(
    ([range, bits]) => range.kind() === address.kind() && address.match(range as never, bits),
  );

/**
 * Where a request came from: the socket's address or, as long as the address so far is that of a trusted proxy, the
 * next one in X-Forwarded-For, counted from the right, since each proxy appends the address that it saw. What stands
 * to the left of the first address that is not trusted was written by somebody unknown.
 * @param forwarded X-Forwarded-For, all its lines joined by commas.
 * @returns The address in its shortest form; IPv4 inside IPv6 as IPv4; "unknown" where the socket has gone.
 */
export function clientAddressOf(
  socketAddress: string | undefined,
  forwarded: string | undefined,
  proxies: TrustedProxies,
): string {
  if (socketAddress === undefined) return "unknown";
  let address = parse(socketAddress);
  if (!address) return "unknown";
  if (proxies.length > 0 && forwarded !== undefined) {
    const hops = forwarded.split(",").slice(-HOPS_MAX);
    while (hops.length > 0 && trusts(proxies, address)) {
      const next = parse(hops.pop()!);
      // What a trusted proxy wrote but nobody can read: the proxy is the last one that is known.
      if (!next) break;
      address = next;
    }
  }
  return address.toString();
}
