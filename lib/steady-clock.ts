/**
 * Wall time in milliseconds as it was when this process started, plus the time since then on a clock that never jumps:
 * a machine whose time is set anew must not end leases or make jobs older.
 */
export const steadyNow = (): number => Math.round(performance.timeOrigin + performance.now());
