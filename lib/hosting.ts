import type { Config, Role } from "./config.ts";

/** A role whose data have one writer while they lie in a directory. */
interface Claim {
  role: Role;
  /** A service that tells that the role is served already. */
  service: string;
  /** Settings without which this role keeps its data in DATA_DIR. */
  missing: (config: Config) => string[];
}

const absent = (config: Config, ...names: ("MONGO_URL" | "S3_ENDPOINT")[]) =>
  names.filter((name) => config[name] === undefined);

export const claims: readonly Claim[] = [
  {
    role: "platform",
    service: "auth",
    missing: (config) => absent(config, "MONGO_URL", "S3_ENDPOINT"),
  },
  {
    role: "scheduler",
    service: "schedulerElection",
    missing: (config) => absent(config, "MONGO_URL"),
  },
];

/** What a node tells the mesh: roles that it hosts, and those of them whose data lie in its own directory. */
export interface Hosting {
  roles: readonly Role[];
  local: readonly Role[];
}

export function hostingOf(config: Config): Hosting {
  return {
    roles: config.SERVICES,
    local: claims
      .filter(({ role, missing }) => config.SERVICES.includes(role) && missing(config).length > 0)
      .map(({ role }) => role),
  };
}
