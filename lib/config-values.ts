import ipaddr from "ipaddr.js";
import { z } from "zod";

// Forms that settings have, with the sentence that says what would be right.

export const url = (protocols: readonly string[]) =>
  z.string().refine((text) => URL.canParse(text) && protocols.includes(new URL(text).protocol), {
    error: `must be a URL that starts with ${protocols.map((p) => `${p}//`).join(" or ")}`,
  });
/** One address or several, separated by commas; those after the first may leave the protocol out. */
export const addresses = (protocols: readonly string[]) =>
  z.string().refine((text) => url(protocols).safeParse(text.split(",", 1)[0]?.trim()).success, {
    error: `must be a URL that starts with ${protocols.map((p) => `${p}//`).join(" or ")}, or several separated by commas`,
  });
/** MongoDB's addresses may list several servers, which no other URL may; the driver checks the rest. */
export const mongoUrl = z
  .string()
  .regex(
    /^mongodb(\+srv)?:\/\/([^/?#@\s]+@)?[^/?#@\s]+(\/[^/?#\s]*)?(\?\S*)?$/,
    "must be a URL that starts with mongodb:// or mongodb+srv://",
  );
export const secret = z.string().min(12, "must have at least 12 characters");
export const whole = (minimum: number, maximum: number) => {
  const error = `must be a whole number from ${minimum} to ${maximum}`;
  return z.coerce.number({ error }).int(error).min(minimum, error).max(maximum, error);
};
export const list = z.string().transform((text) =>
  text
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean),
);
/** IP addresses and CIDR ranges. */
export const networks = list.pipe(
  z.array(
    z.string().refine((entry) => ipaddr.isValid(entry) || ipaddr.isValidCIDR(entry), {
      error: "must be a comma-separated list of IP addresses and CIDR ranges",
    }),
  ),
);
