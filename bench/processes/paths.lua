-- For wrk: GET of the paths that are the lines of a file, in turn, the figures as JSON at the end, of microseconds and a count.
local requests, at = {}, 0

function init(args)
  for path in io.lines(args[1]) do
    requests[#requests + 1] = wrk.format("GET", path)
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format(
    '\n{"count":%d,"tookUs":%d,"failed":%d,"p50Us":%d,"p99Us":%d,"spentUs":%d}\n',
    summary.requests, summary.duration, failed, latency:percentile(50), latency:percentile(99), os.clock() * 1e6
  ))
end
