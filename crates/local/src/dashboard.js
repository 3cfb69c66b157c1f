"use strict";
// The page itself is the only source: once a second it is asked for again, and what has changed is put in its place.
const main = document.querySelector("main");
let shown = main.innerHTML;
async function look() {
  if (!document.hidden) {
    try {
      const answer = await fetch("/", { cache: "no-store" });
      if (answer.ok) {
        const text = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main").innerHTML;
        if (text !== shown) {
          main.innerHTML = shown = text;
        }
        document.body.classList.remove("gone");
      }
    } catch {
      document.body.classList.add("gone");
    }
  }
  setTimeout(look, 1000);
}
setTimeout(look, 1000);
