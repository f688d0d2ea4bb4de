import Sequencer from "@jest/test-sequencer";

/**
 * The files that take longest, in this order: begun last, one of them would run alone in the end. Jest itself knows how
 * long a file takes only after a run on the same machine.
 */
const longest = [
  "chaos",
  "bridge-standalone",
  "scheduler-failover",
  "migrate-trouble",
  "migrate",
  "mongo-records",
  "mongo-job-store",
  "timeline-sound",
  "timeline-frames",
  "timeline-picture",
  "mongo-connection",
];

const rank = ({ path }) => {
  const at = longest.findIndex((name) => path.endsWith(`/${name}.test.ts`));
  return at < 0 ? longest.length : at;
};

export default class LongestFirst extends Sequencer {
  sort(tests) {
    return super.sort(tests).sort((a, b) => rank(a) - rank(b));
  }
}
