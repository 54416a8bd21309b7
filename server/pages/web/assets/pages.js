// Keys, dialogs and questions before what cannot be taken back. Everything
// works without it but for these; nothing here makes HTML from text.
(() => {
  "use strict";
  const rows = () => [...document.querySelectorAll("[data-row]")].filter((r) => r.offsetParent !== null);
  const typing = (e) => /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName) || e.target.isContentEditable;
  let pending = "";

  const move = (step) => {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((r) => r.classList.contains("current") || r.contains(document.activeElement));
    const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step))];
    all.forEach((r) => r.classList.remove("current"));
    next.classList.add("current");
    const target = next.querySelector("a[data-open-row], a, button") || next;
    target.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  };
  const show = (id) => { const d = document.getElementById(id); if (d && !d.open) d.showModal(); };
  const go = (path) => { window.location.assign(path); };
  const places = { s: "/sessions", f: "/fleet", u: "/usage", t: "/store" };

  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    // A browser would empty the field of a search, and with it what was found.
    if (e.key === "Escape" && typing(e)) { if (!e.target.closest("dialog")) { e.preventDefault(); e.target.blur(); } return; }
    if (typing(e) || document.querySelector("dialog[open]")) return;
    if (pending === "g") {
      pending = "";
      if (places[e.key]) { e.preventDefault(); go(places[e.key]); }
      return;
    }
    const own = document.querySelector(`[data-key="${CSS.escape(e.key)}"]`);
    switch (e.key) {
      case "/": { const s = document.querySelector("input[type=search]"); if (s) { e.preventDefault(); s.focus(); s.select(); } break; }
      case "j": e.preventDefault(); move(1); break;
      case "k": e.preventDefault(); move(-1); break;
      case "o": { const r = document.querySelector("[data-row].current a, [data-row]:focus-within a"); if (r) { e.preventDefault(); r.click(); } break; }
      case "g": pending = "g"; setTimeout(() => { pending = ""; }, 1500); break;
      case "b": { const b = document.querySelector("[data-back]"); if (b) { e.preventDefault(); b.click(); } break; }
      case "?": e.preventDefault(); show("keys"); break;
      default: if (own) { e.preventDefault(); own.click(); if (own.tagName === "INPUT") own.focus(); }
    }
  });

  document.addEventListener("click", (e) => {
    const opener = e.target.closest("[data-open]");
    if (opener) show(opener.dataset.open);
    const closer = e.target.closest("[data-close]");
    if (closer) closer.closest("dialog").close();
    const copier = e.target.closest("[data-copy]");
    if (copier && navigator.clipboard) navigator.clipboard.writeText(copier.dataset.copy);
  });

  // A form that asks first: data-confirm says what would happen, data-danger
  // that a word has to be typed.
  document.addEventListener("submit", (e) => {
    const form = e.target, ask = form.dataset.confirm;
    if (!ask || form.dataset.sure) return;
    e.preventDefault();
    e.stopImmediatePropagation();
    const box = document.getElementById("confirm");
    if (!box) return;
    const word = form.dataset.danger || "", input = box.querySelector("input"), yes = box.querySelector("[value=yes]");
    box.querySelector("p").textContent = ask;
    box.querySelector("label").hidden = !word;
    box.querySelector("label code").textContent = word;
    input.value = "";
    const check = () => { yes.disabled = word !== "" && input.value !== word; };
    input.oninput = check;
    check();
    box.onclose = () => {
      if (box.returnValue !== "yes" || yes.disabled) return;
      const typed = form.querySelector("input[data-word]");
      if (typed) typed.value = word;
      form.dataset.sure = "1";
      form.requestSubmit(e.submitter || undefined);
      delete form.dataset.sure;
    };
    box.returnValue = "";
    box.showModal();
    (word ? input : yes).focus();
  }, true);

  // The page of a session: it opens at its end, keeps its place when older
  // entries come in above, and follows new ones while the end is in view.
  const entries = document.getElementById("entries"), newest = document.getElementById("newest");
  if (entries && newest) {
    const root = document.documentElement, query = new URLSearchParams(location.search);
    const toLinked = () => {
      const linked = /^#e(\d+)$/.exec(location.hash);
      if (!linked || document.getElementById("e" + linked[1]) || query.get("at") === linked[1]) return;
      query.set("at", linked[1]);
      query.delete("before");
      location.replace(location.pathname + "?" + query + location.hash);
    };
    toLinked();
    window.addEventListener("hashchange", toLinked);
    const toEnd = () => newest.scrollIntoView({ block: "end" });
    let atEnd = !location.hash && !query.has("at") && !query.has("before") && !query.has("find");
    if (atEnd || location.hash === "#newest") { atEnd = true; toEnd(); }
    const button = document.querySelector(".to-newest");
    new IntersectionObserver((seen) => {
      atEnd = seen[seen.length - 1].isIntersecting;
      if (button) button.classList.toggle("seen", atEnd);
    }, { rootMargin: "0px 0px 80px 0px" }).observe(newest);
    // What comes in above is laid out as it comes near, and only then has its
    // height: the place is kept for some frames.
    let held = null;
    const keep = (frames) => {
      window.scrollBy(0, held.el.getBoundingClientRect().top - held.top);
      if (frames > 0) { requestAnimationFrame(() => keep(frames - 1)); return; }
      held = null;
      root.style.overflowAnchor = "";
    };
    document.addEventListener("htmx:beforeSwap", (e) => {
      if (!e.detail.target.classList.contains("older") || held) return;
      const el = [...entries.querySelectorAll(".said")].find((a) => a.getBoundingClientRect().bottom > 0);
      if (el) { held = { el, top: el.getBoundingClientRect().top }; root.style.overflowAnchor = "none"; }
    });
    // It is told once for each entry that came in.
    document.addEventListener("htmx:afterSwap", () => { if (held && !held.kept) { held.kept = true; keep(6); } });
    document.addEventListener("htmx:sseMessage", () => {
      const nothing = document.getElementById("nothing");
      if (nothing) nothing.remove();
      if (atEnd) toEnd();
    });
  }

  // A browser may keep a page that was left, and with it its stream; six of
  // them are all that it opens to one server. So the stream ends with the
  // page, and who comes back sees what is new.
  window.addEventListener("pagehide", () => {
    for (const el of document.querySelectorAll("[sse-connect]")) htmx.trigger(el, "htmx:beforeCleanupElement");
  });
  window.addEventListener("pageshow", (e) => { if (e.persisted && document.querySelector("[sse-connect]")) location.reload(); });

  // A stream that begins again may bring what is here already.
  document.addEventListener("htmx:sseBeforeMessage", (e) => {
    if (e.detail.lastEventId && document.getElementById("e" + e.detail.lastEventId)) e.preventDefault();
  });
})();
