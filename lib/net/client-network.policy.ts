import ipaddr from "ipaddr.js";

/** The client behind an address: an IPv6 host has a whole /64 to choose addresses from, an IPv4 host one address. */
export function clientNetworkOf(address: string): string {
  if (!ipaddr.IPv6.isValid(address)) return address;
  const parts = ipaddr.IPv6.parse(address).parts.slice(0, 4);
  return `${parts.map((part) => part.toString(16)).join(":")}::/64`;
}
