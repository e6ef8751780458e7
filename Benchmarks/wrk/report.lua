-- report: the end of every workload: one line that scripts/bench reads.
-- RESULT requests microseconds p50 p99 refused broken    (latencies in microseconds)

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    'RESULT %d %d %d %d %d %d\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout
  ))
end
