// Health check of a container: asks the node itself whether it can serve. Exit status 0: it can.
const port = Number(process.env["HEALTH_PORT"]) || process.env["PORT"] || 3000;
try {
  const answer = await fetch(`http://127.0.0.1:${port}/readyz`, {
    signal: AbortSignal.timeout(4_000),
  });
  if (answer.ok) process.exit(0);
  console.error(`status ${answer.status}: ${(await answer.text()).slice(0, 500)}`);
} catch (error) {
  console.error(`no answer on port ${port}: ${error.message}`);
}
process.exit(1);
