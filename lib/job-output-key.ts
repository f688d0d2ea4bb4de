/** Where the objects of a job lie in the product's bucket: one folder an attempt, so that losers can be told apart. */
export const outputsOf = (jobId: string): string => `jobs/${jobId}/`;

export const outputPrefix = ({ jobId, attempt }: { jobId: string; attempt: number }): string =>
  `${outputsOf(jobId)}${attempt}/`;
