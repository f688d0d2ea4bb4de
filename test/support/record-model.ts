import type {
  Collection,
  Condition,
  Filter,
  Scalar,
  StoredRecord,
} from "../../lib/store/record-store.ts";
import { holdsPhrase, phrasesOf, tokensOf } from "../../lib/store/search-text.ts";

/** What a list must answer, computed the plain way from an array: the measure for every adapter. */

const at = (record: StoredRecord, field: string): unknown =>
  field.split(".").reduce<unknown>((value, part) => (value as never)?.[part], record);

/** Text goes by its bytes, as in every engine that we use, not by a language's rules. */
function compare(a: Scalar, b: Scalar): number {
  if (typeof a === "string" && typeof b === "string")
    return Buffer.compare(Buffer.from(a), Buffer.from(b));
  return Number(a) - Number(b);
}

function passes(value: unknown, condition: Condition): boolean {
  const present = value !== undefined && value !== null;
  const against = (other: Scalar) => compare(value as Scalar, other);
  const { eq, ne, gt, gte, lt, lte, exists } = condition;
  return (
    (eq === undefined || (present && value === eq)) &&
    (ne === undefined || value !== ne) &&
    (condition.in === undefined || (present && condition.in.includes(value as Scalar))) &&
    (gt === undefined || (present && against(gt) > 0)) &&
    (gte === undefined || (present && against(gte) >= 0)) &&
    (lt === undefined || (present && against(lt) < 0)) &&
    (lte === undefined || (present && against(lte) <= 0)) &&
    (exists === undefined || present === exists)
  );
}

export const modelFilter = (records: readonly StoredRecord[], filter: Filter): StoredRecord[] =>
  records.filter((record) =>
    Object.entries(filter).every(([field, condition]) =>
      passes(at(record, field), typeof condition === "object" ? condition : { eq: condition }),
    ),
  );

export function modelSort(records: readonly StoredRecord[], sort: string): StoredRecord[] {
  const keys = sort.split(",").map((part) => ({
    field: part.replace(/^-/, ""),
    sign: part.startsWith("-") ? -1 : 1,
  }));
  if (!keys.some(({ field }) => field === "id"))
    keys.push({ field: "id", sign: keys.at(-1)?.sign ?? 1 });
  return [...records].sort((a, b) => {
    for (const { field, sign } of keys) {
      const [x, y] = [at(a, field), at(b, field)];
      const absent = Number(x !== undefined && x !== null) - Number(y !== undefined && y !== null);
      if (absent !== 0) return absent * sign;
      const order = x === undefined || x === null ? 0 : compare(x as Scalar, y as Scalar);
      if (order !== 0) return order * sign;
    }
    return 0;
  });
}

export function modelSearch(
  collection: Collection,
  records: readonly StoredRecord[],
  search: string,
): StoredRecord[] {
  if (!search.trim()) return [...records];
  const phrases = phrasesOf(search);
  return records.filter((record) => {
    const texts = collection.search.map((field) => tokensOf(String(at(record, field) ?? "")));
    return (
      phrases.length > 0 &&
      phrases.every((phrase) => texts.some((text) => holdsPhrase(text, phrase)))
    );
  });
}
