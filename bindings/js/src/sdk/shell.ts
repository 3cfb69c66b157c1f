/** Words for a POSIX shell. */

/** A word that a shell takes as it is. */
export function quote(word: string): string {
  if (/^[A-Za-z0-9@%+=:,./_-]+$/.test(word)) return word;
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
