// What one exact limiter would have admitted: the requests of all nodes, in the order of their times,
// decided one after the other by the same rule.

// A rule is made for one key: admit(now) decides a request. `formula` is the most that it admits.
export const rules = {
  fixed_window: {
    formula: 'limit * windows touched',
    make: (limit, duration) => {
      let [window, count] = [-1, 0];
      return (now) => {
        const current = Math.floor(now / duration);
        if (current !== window) [window, count] = [current, 0];
        return count < limit && ++count > 0;
      };
    },
  },
  sliding_window: {
    formula: 'limit * windows touched; this window + the weighted previous one <= limit',
    make: (limit, duration) => {
      let [window, count, last] = [-1, 0, 0];
      return (now) => {
        const current = Math.floor(now / duration);
        if (current !== window) [window, count, last] = [current, 0, window === current - 1 ? count : 0];
        const weighted = Math.floor(last * (duration - now % duration) / duration);
        return count + weighted < limit && ++count > 0;
      };
    },
  },
  gcra: { // the same decisions as a token bucket
    formula: 'burst + rate * time; burst = limit, rate = limit / duration',
    make: (limit, duration) => {
      let arrival = 0;
      return (now) => {
        const after = Math.max(arrival, now) + duration / limit;
        if (after - duration > now) return false;
        arrival = after;
        return true;
      };
    },
  },
};

// The most entries of sorted times within one duration.
function mostWithin(times, duration) {
  let [most, first] = [0, 0];
  times.forEach((time, i) => {
    while (times[first] <= time - duration) ++first;
    most = Math.max(most, i - first + 1);
  });
  return most;
}

// `traces`: texts with one request per line: its time and that of its answer in ms, the key, and 1 if it was
// admitted. The exact limiter decides at the time of the request if the limiter uses the clock of the
// client; else at the time of the answer, which is nearer to the time that Redis used. Returns what was
// admitted, what one exact limiter would have admitted, and the most that was admitted of one key within
// one duration.
export function compareWithExact(traces, { rule, clock }, { limit, duration }) {
  const requests = traces.flatMap((text) => text.trimEnd().split('\n').map((line) => {
    const [asked, answered, key, wasAdmitted] = line.split(' ').map(Number);
    return [clock === 'client' ? asked : answered, key, wasAdmitted];
  }));
  requests.sort(([a], [b]) => a - b);
  const keys = new Map();
  let [admitted, exact] = [0, 0];
  for (const [now, name, wasAdmitted] of requests) {
    if (!keys.has(name)) keys.set(name, { admit: rules[rule].make(limit, duration), times: [] });
    const key = keys.get(name);
    if (key.admit(now)) ++exact;
    if (!wasAdmitted) continue;
    ++admitted;
    key.times.push(now);
  }
  const most = Math.max(...[...keys.values()].map(({ times }) => mostWithin(times, duration)));
  return { requests: requests.length, admitted, exact, most };
}
