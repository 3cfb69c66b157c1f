/** Who is told of each signal's abort. One listener each, however many calls share a signal: runtimes warn of more than ten. */
const told = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls back once when a signal aborts. Returns what takes that back. */
export function onAbort(signal: AbortSignal, call: () => void): () => void {
  const all = told.get(signal) ?? listenTo(signal);
  // A function of its own, so that one may be given twice.
  const own = () => call();
  all.add(own);
  return () => {
    all.delete(own);
  };
}

/** The listener stays: it holds nothing but those who have not taken theirs back. */
function listenTo(signal: AbortSignal): Set<() => void> {
  const all = new Set<() => void>();
  told.set(signal, all);
  signal.addEventListener(
    'abort',
    () => {
      const due = [...all];
      all.clear();
      for (const call of due) call();
    },
    { once: true },
  );
  return all;
}
