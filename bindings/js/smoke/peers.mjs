// The servers that each runtime meets: what they do wrong is chosen by the path.

/** HTTP/1.1 without TLS. */
export const PLAIN = {
  answer: { body: { size: 1000 } },
  rules: [
    { at: 'processed', when: { path: '/reset' }, do: ['reset'] },
    { at: 'processed', when: { path: '/close' }, do: ['close'] },
    { at: 'processed', when: { path: '/hold' }, do: ['hold'] },
    ...['429', '503', '502'].map((status) => answer(`/${status}`, { status: Number(status) })),
    ...['429', '503'].map((status) =>
      answer(`/${status}-after`, { status: Number(status), retry_after: { seconds: 1 } }),
    ),
    { at: { answer_body: 100 }, when: { path: '/cut' }, do: ['close'] },
  ],
};

/** HTTP/2 inside TLS. */
export const TLS = {
  answer: { body: { size: 10 } },
  rules: [
    { at: 'request', when: { path: '/refuse' }, do: ['refuse'] },
    { at: 'request', when: { path: '/goaway' }, do: [{ goaway: { last: { id: 0 }, debug: 'max_age' } }] },
  ],
};

/** The first try gets this answer, and the others are carried out. */
function answer(path, given) {
  return { at: 'received', when: { path, try: 1 }, do: [{ answer: given }] };
}
