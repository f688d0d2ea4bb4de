export default {
  testEnvironment: "node",
  transform: {},
  extensionsToTreatAsEsm: [".ts"],
  testMatch: ["<rootDir>/test/**/*.test.ts"],
  // Far more than any test takes: it ends what hangs, also where two cores do much else.
  testTimeout: 120_000,
  cacheDirectory: "<rootDir>/node_modules/.cache/jest",
  maxWorkers: 2,
  testSequencer: "<rootDir>/test/support/longest-first.mjs",
  // Servers that test files share; started when the first file asks.
  globalSetup: "<rootDir>/test/support/servers-global.ts",
  globalTeardown: "<rootDir>/test/support/servers-global-end.ts",
};
