// The script of a page comes once the page is seen: to fetch, compile and run it takes
// a browser about as long as to paint what was asked for, and uses the same processors.
// A page that nobody looks at is not painted, and does not wait for it.
//
// It is in the page, after the style: a browser reads the page on when it has the style,
// and never lays out what it could not show.
(() => {
  "use strict";
  const script = document.createElement("script"), most = 3000;
  script.src = document.currentScript.dataset.then;
  // htmx begins when a page is parsed, and at once in one that is: then what comes after
  // it in the script would be too late for it. So it hears of that when all of it is there.
  const over = () => {
    delete document.readyState;
    document.dispatchEvent(new Event("DOMContentLoaded"));
  };
  // What a page has below the first screen or beside what it is about is in it as the text
  // of a noscript, which costs nearly nothing to read, and becomes a part of it when the rest is seen.
  // Rows go to the others of their table.
  const complete = () => {
    for (const later of document.querySelectorAll("noscript.later")) {
      const { content } = Object.assign(document.createElement("template"), { innerHTML: later.textContent });
      if (!("rows" in later.dataset)) { later.replaceWith(content); continue; }
      later.previousElementSibling.tBodies[0].append(...content.querySelectorAll("tbody > tr"));
      later.nextElementSibling.remove();
      later.remove();
    }
  };
  // Whoever is faster than the script with its first key has what they asked for when it is there.
  const early = (e) => {
    if (e.key !== "k" || !(e.ctrlKey || e.metaKey)) return;
    e.preventDefault();
    removeEventListener("keydown", early);
    script.addEventListener("load", () => setTimeout(() => document.querySelector("[data-open=palette]")?.click()));
  };
  addEventListener("keydown", early);
  script.addEventListener("load", () => removeEventListener("keydown", early));
  const begin = () => {
    if (script.isConnected) return;
    complete();
    Object.defineProperty(document, "readyState", { configurable: true, value: "loading" });
    script.addEventListener("load", over);
    script.addEventListener("error", over);
    document.head.append(script);
  };
  document.addEventListener("DOMContentLoaded", () => {
    if (document.hidden || !PerformanceObserver.supportedEntryTypes.includes("paint")) { begin(); return; }
    document.addEventListener("visibilitychange", begin);
    setTimeout(begin, most); // whatever keeps it from being painted
    new PerformanceObserver((seen) => { if (seen.getEntriesByName("first-contentful-paint").length) begin(); }).observe({ type: "paint", buffered: true });
  }, { once: true });
})();
