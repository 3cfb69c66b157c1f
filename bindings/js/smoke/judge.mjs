// What an error proves, by `spec/runtime-errors.json`: written a second time, beside the package's own, so that one can judge the
// other. And what has to come of each thing that is tried.

/** A chain of more links proves nothing. */
const LINKS = 8;

const STRENGTH = { not_sent: 0, refused: 1, sent_unknown: 2 };

/** The outcome that the table gives a shape, and the row; no row: a shape that nobody has seen. */
export function judged(rows, thrown) {
  const links = [];
  for (let link = thrown; typeof link === 'object' && link !== null; link = link.cause) {
    links.push(link);
    if (Array.isArray(link.errors)) break;
  }
  if (links.length > LINKS) return { outcome: 'sent_unknown', row: undefined };
  const found = [];
  for (const link of links) {
    if (Array.isArray(link.errors)) {
      const members = link.errors.map((member) => judged(rows, member));
      const all = members.length > 0 && members.every(({ outcome }) => outcome === 'not_sent');
      found.push(all ? members.at(-1) : { outcome: 'sent_unknown', row: members[0]?.row });
      continue;
    }
    for (const row of rows)
      if (matches(row.match, link)) found.push({ outcome: row.outcome, phase: row.phase, row: row.id });
  }
  const strongest = Math.max(...found.map(({ outcome }) => STRENGTH[outcome]));
  return found.find(({ outcome }) => STRENGTH[outcome] === strongest) ?? { outcome: 'sent_unknown', row: undefined };
}

function matches({ message_contains: part, ...exact }, link) {
  if (part !== undefined && !String(link.message ?? '').includes(part)) return false;
  return Object.entries(exact).every(([name, value]) => link[name] === value);
}

/** Runtimes whose errors tell nothing apart. */
const OPAQUE = ['workers', 'chromium'];

/** Runtimes whose `fetch` speaks HTTP/1.1 alone, and so is refused no stream: that they do is judged by the server. */
export const WITHOUT_HTTP2 = ['workers'];

/** What has to come of a request of the runtime's own `fetch`. */
export function expected(runtime, name) {
  if (OPAQUE.includes(runtime)) {
    const isAnswered = WITHOUT_HTTP2.includes(runtime) && ['refused stream', 'GOAWAY'].includes(name);
    const plain = { answered: 'answered', 'HTTP/2': 'answered', abort: 'cancelled' };
    return isAnswered ? 'answered' : (plain[name] ?? 'sent_unknown');
  }
  // Bun looks at which stream it was.
  return name === 'GOAWAY' && runtime !== 'bun' ? 'sent_unknown' : EXACT[name];
}

/** What has to come of it over the native transport. */
export const EXACT = {
  answered: 'answered',
  'connection refused': 'not_sent',
  'forbidden port': 'not_sent',
  'DNS failure': 'not_sent',
  'reset after write': 'sent_unknown',
  'closed after write': 'sent_unknown',
  'body cut': 'sent_unknown',
  abort: 'cancelled',
  'HTTP/2': 'answered',
  'refused stream': 'refused',
  GOAWAY: 'refused',
};

/** The statuses that each call has to see, and the shortest wait between them in seconds. */
export const CALLS = {
  '429 with Retry-After': { statuses: [429, 200], wait: 1 },
  '429 without': { statuses: [429], wait: 0 },
  '503 with Retry-After': { statuses: [503, 200], wait: 1 },
  '503 without': { statuses: [503, 200], wait: 0.05 },
  '502 without a permit': { statuses: [502], wait: 0 },
  '502 with a permit': { statuses: [502, 200], wait: 0.05 },
};
