import { describe, expect, test } from "@jest/globals";
import { addressRefusal, hostRefusal, readFetchAllow } from "../../lib/net/address.policy.ts";

const none = readFetchAllow([]);

describe("addresses that may be fetched from", () => {
  test.each([
    ["127.0.0.1", "the machine itself"],
    ["127.255.255.254", "the machine itself"],
    ["0.0.0.0", "no address of a host"],
    ["10.1.2.3", "private"],
    ["172.16.0.1", "private"],
    ["192.168.1.1", "private"],
    ["169.254.169.254", "link-local"],
    ["100.64.0.1", "provider-internal"],
    ["100.100.100.200", "provider-internal"],
    ["192.0.0.192", "reserved"],
    ["198.18.0.1", "reserved"],
    ["203.0.113.7", "reserved"],
    ["224.0.0.1", "multicast"],
    ["240.0.0.1", "reserved"],
    ["255.255.255.255", "broadcast"],
    ["::1", "the machine itself"],
    ["::", "no address of a host"],
    ["fe80::1", "link-local"],
    ["fe80::1%eth0", "link-local"],
    ["fd00:ec2::254", "private"],
    ["fc00::1", "private"],
    ["ff02::1", "multicast"],
    ["2001:db8::1", "reserved"],
    ["::ffff:127.0.0.1", "the machine itself"],
    ["::ffff:a00:1", "private"],
    ["::7f00:1", "the machine itself"],
    ["64:ff9b::a9fe:a9fe", "link-local"],
    ["2002:7f00:1::", "the machine itself"],
    ["2002:c0a8:101::1", "private"],
  ])("%s is refused as %s", (address, reason) => {
    expect(addressRefusal(address, none)).toContain(reason);
  });

  test.each(["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])(
    "%s is on the public internet and permitted",
    (address) => {
      expect(addressRefusal(address, none)).toBeUndefined();
    },
  );

  test("what is no address is refused", () => {
    expect(addressRefusal("example.org", none)).toBe("not an IP address");
  });
});

describe("hosts before a look-up", () => {
  test.each([
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0177.0.0.1/",
    "http://127.1/",
    "http://[::ffff:7f00:1]/",
    "http://[::1]:80/",
    "http://localhost/",
    "http://LOCALHOST./",
    "http://a.localhost/",
    "http://①②⑦.0.0.1/",
  ])("%s is the machine itself, however it is written", (url) => {
    expect(hostRefusal(new URL(url).hostname, none)).toContain("the machine itself");
  });

  test("a name that could be public is left to the look-up", () => {
    expect(hostRefusal("media.example.org", none)).toBeUndefined();
  });
});

describe("FETCH_ALLOW", () => {
  test("a range permits its addresses and no others, also inside IPv6", () => {
    const allow = readFetchAllow(["10.0.0.0/8", "fd00::/8"]);
    expect(addressRefusal("10.9.8.7", allow)).toBeUndefined();
    expect(addressRefusal("::ffff:10.9.8.7", allow)).toBeUndefined();
    expect(addressRefusal("fd12::1", allow)).toBeUndefined();
    expect(addressRefusal("11.0.0.1", allow)).toBeUndefined();
    expect(addressRefusal("192.168.0.1", allow)).toContain("private");
  });

  test("a single address permits that one", () => {
    const allow = readFetchAllow(["127.0.0.1"]);
    expect(addressRefusal("127.0.0.1", allow)).toBeUndefined();
    expect(addressRefusal("127.0.0.2", allow)).toContain("the machine itself");
  });

  test("a host name permits that name, whatever its case", () => {
    const allow = readFetchAllow(["Media.Internal"]);
    expect(hostRefusal("media.internal", allow)).toBeUndefined();
    expect(hostRefusal("localhost", allow)).toContain("the machine itself");
  });
});
