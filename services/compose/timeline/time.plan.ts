/** Frames per second as a fraction in lowest terms. */
export interface Rate {
  num: number;
  den: number;
}

/** Times are whole microseconds between the schema and the frame grid, so that sums stay exact. */
export type Us = number;

const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b));

/** Reads `25` or `"30000/1001"`. */
export function parseRate(fps: number | string): Rate {
  const [num = 0, den = 1] = String(fps).split("/").map(Number);
  const divisor = gcd(num, den);
  return { num: num / divisor, den: den / divisor };
}

export const rateText = ({ num, den }: Rate): string => (den === 1 ? `${num}` : `${num}/${den}`);

export const toUs = (seconds: number): Us => Math.round(seconds * 1e6);

/** The frame boundary nearest to a time; the one place where time is rounded. */
export const frameAt = (us: Us, { num, den }: Rate): number =>
  Math.floor((us * num + den * 500_000) / (den * 1_000_000));

/** Start of a frame in microseconds, rounded. */
export const frameUs = (frame: number, { num, den }: Rate): Us =>
  Math.round((frame * den * 1e6) / num);

/** Sample position of a frame boundary. */
export const sampleAt = (frame: number, { num, den }: Rate, sampleRate: number): number =>
  Math.round((frame * den * sampleRate) / num);

/** Seconds with microseconds, as FFmpeg reads them; never in scientific notation. */
export const secondsText = (us: Us): string => {
  const text = (us / 1e6).toFixed(6);
  return text.replace(/\.?0+$/, "");
};
