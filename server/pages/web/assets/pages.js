// Keys, dialogs and questions before what cannot be taken back. Everything
// works without it but for these; nothing here makes HTML from text.
(() => {
  "use strict";
  const rows = () => [...document.querySelectorAll("[data-row]")].filter((r) => r.offsetParent !== null);
  const typing = (e) => /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName) || e.target.isContentEditable;
  let pending = "";
  // What opens a row, which need not be the first link in it.
  const opens = (row) => row.querySelector("a[data-open-row]") || row.querySelector("a");

  const move = (step) => {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((r) => r.classList.contains("current") || r.contains(document.activeElement));
    const seen = (r) => { const b = r.getBoundingClientRect(); return b.bottom > 80 && b.top < innerHeight; };
    const next = all[Math.min(all.length - 1, Math.max(0, at >= 0 ? at + step : step > 0 ? all.findIndex(seen) : all.findLastIndex(seen)))];
    all.forEach((r) => r.classList.remove("current"));
    next.classList.add("current");
    (opens(next) || next.querySelector("a, button") || next).focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  };
  const show = (id) => { const d = document.getElementById(id); if (d && !d.open) d.showModal(); };
  const go = (path) => { window.location.assign(path); };
  const places = { h: "/", s: "/sessions", f: "/fleet", u: "/usage", t: "/store" };

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
      case "/": {
        const s = document.querySelector("input[type=search]"), sheet = s && s.closest("[popover]");
        if (sheet && !s.offsetParent) sheet.showPopover();
        if (s) { e.preventDefault(); s.focus(); s.select(); }
        break;
      }
      case "j": e.preventDefault(); move(1); break;
      case "k": e.preventDefault(); move(-1); break;
      case "o": { const row = document.querySelector("[data-row].current, [data-row]:focus-within"), r = row && opens(row); if (r) { e.preventDefault(); r.click(); } break; }
      case "g": pending = "g"; setTimeout(() => { pending = ""; }, 1500); break;
      case "b": { const b = document.querySelector("[data-back]"); if (b) { e.preventDefault(); b.click(); } break; }
      case "?": e.preventDefault(); show("keys"); break;
      default: if (own) { e.preventDefault(); if ("focus" in own.dataset) { own.focus(); break; } own.click(); if (own.tagName === "INPUT") own.focus(); }
    }
  });

  document.addEventListener("click", (e) => {
    const opener = e.target.closest("[data-open]");
    if (opener) show(opener.dataset.open);
    const closer = e.target.closest("[data-close]");
    if (closer) closer.closest("dialog").close();
    const copier = e.target.closest("[data-copy]");
    if (copier) copy(copier, copier.dataset.copy);
    const source = e.target.closest("[data-copy-from]");
    if (source) fetch(source.dataset.copyFrom).then((r) => r.ok ? r.text() : Promise.reject(r.status)).then((text) => copy(source, text.trimEnd()), () => tell(source, "✗"));
  });
  // What was copied is told in the button for a moment.
  const tell = (button, sign) => {
    if (button.dataset.told) return;
    const was = [...button.childNodes];
    button.dataset.told = "1";
    button.replaceChildren(sign);
    setTimeout(() => { button.replaceChildren(...was); delete button.dataset.told; }, 1200);
  };
  const copy = (button, text) => navigator.clipboard && navigator.clipboard.writeText(text).then(() => tell(button, "✓"), () => tell(button, "✗"));

  // A choice that counts at once.
  document.addEventListener("change", (e) => { if (e.target.matches("[data-submit]")) e.target.form.requestSubmit(); });

  // The palette: words lead to sessions, pages, and what can be done on the page that
  // it is open on. That is what has data-palette there, under the name it has there; of
  // a choice, each value.
  const palette = document.getElementById("palette");
  if (palette) {
    const field = palette.querySelector("input"), options = () => [...palette.querySelectorAll("[role=option]:not([aria-disabled])")];
    const choose = (to) => {
      const all = options(), at = all.findIndex((o) => o.getAttribute("aria-selected") === "true");
      if (!all.length) return;
      if (at >= 0) all[at].setAttribute("aria-selected", "false");
      const next = all[(Math.max(at, to > 0 ? at : 0) + to + all.length) % all.length];
      next.setAttribute("aria-selected", "true");
      next.id ||= "palette-" + all.indexOf(next);
      field.setAttribute("aria-activedescendant", next.id);
      next.scrollIntoView({ block: "nearest" });
    };
    const press = (el) => {
      const sheet = el.closest("[popover]"), fold = el.closest("details");
      if (sheet && !el.offsetParent) sheet.showPopover();
      if (fold && el.tagName !== "SUMMARY") fold.open = true;
      if (el.matches("textarea, input")) el.focus(); else el.click();
    };
    const deeds = () => [...document.querySelectorAll("main [data-palette]"), ...document.querySelectorAll(".who [data-palette]")].flatMap((el) => {
      const name = el.dataset.palette || el.getAttribute("aria-label") || el.firstChild.textContent.trim();
      if (el.tagName !== "SELECT") return [[name, () => press(el)]];
      return [...el.options].filter((o) => !o.selected).map((o) => [name + ": " + o.text, () => { el.value = o.value; el.dispatchEvent(new Event("change", { bubbles: true })); }]);
    });
    const act = () => {
      const list = palette.querySelector("[data-actions]"), words = field.value.toLowerCase().split(/\s+/), all = deeds().filter(([name]) => words.every((w) => name.toLowerCase().includes(w)));
      if (!list) return;
      list.hidden = !all.length;
      list.replaceChildren(...all.map(([name, run]) => {
        const item = document.createElement("li"), text = document.createElement("bdi");
        text.textContent = name;
        item.setAttribute("role", "option");
        item.setAttribute("aria-selected", "false");
        item.append(text);
        item.addEventListener("click", () => { palette.close(); run(); });
        return item;
      }));
    };
    const open = () => { show("palette"); field.value = ""; field.focus(); htmx.trigger(field, "palette"); };
    document.addEventListener("keydown", (e) => {
      if ((e.ctrlKey || e.metaKey) && !e.altKey && !e.shiftKey && e.key.toLowerCase() === "k") { e.preventDefault(); if (palette.open) palette.close(); else if (!document.querySelector("dialog[open]")) open(); }
    });
    document.addEventListener("click", (e) => { if (e.target.closest("[data-open=palette]")) open(); });
    palette.addEventListener("keydown", (e) => {
      if (e.key === "ArrowDown" || e.key === "ArrowUp") { e.preventDefault(); choose(e.key === "ArrowDown" ? 1 : -1); }
      if (e.key === "Enter") { e.preventDefault(); const o = palette.querySelector("[aria-selected=true]"); if (o) (o.querySelector("a") || o).click(); }
    });
    palette.addEventListener("htmx:afterSwap", () => { field.removeAttribute("aria-activedescendant"); act(); choose(1); });
    palette.addEventListener("click", (e) => { if (e.target === palette || e.target.closest("a")) palette.close(); });
  }

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

  // An approval is sent some seconds after the click, and can be taken back until
  // then. Who answers otherwise, approves another call or leaves does not wait.
  const undo = document.getElementById("undo"), undoFor = 4000;
  let approval = null;
  const approve = async () => {
    const a = approval;
    if (!a) return null;
    approval = null;
    undo.hidden = true;
    const not = (why) => {
      undo.hidden = false;
      undo.querySelector("button").hidden = true;
      undo.querySelector("span").textContent = why;
      return null;
    };
    return fetch(a.action, { method: "POST", body: a.body, keepalive: true }).then((r) => r.ok ? r.url : not(undo.dataset.not), () => not(undo.dataset.lost));
  };
  if (undo) {
    document.addEventListener("submit", (e) => {
      const form = e.target, call = form.elements.call;
      if (!call) return;
      if (approval && approval.action === form.action && approval.body.get("call") === call.value) { approval = null; undo.hidden = true; } else approve();
      if (!("undo" in form.dataset)) return;
      e.preventDefault();
      const mine = approval = { action: form.action, body: new URLSearchParams(new FormData(form, e.submitter)) };
      undo.querySelector("span").textContent = undo.dataset.text + " " + form.closest("article").querySelector("h3").textContent;
      undo.hidden = undo.querySelector("button").hidden = false;
      setTimeout(async () => { if (approval !== mine) return; const to = await approve(); if (to && !approval) go(to); }, undoFor);
    });
    undo.addEventListener("click", (e) => { if (e.target.closest("button")) { approval = null; undo.hidden = true; } });
    window.addEventListener("pagehide", () => approve());
  }

  // What comes in is told for each of its elements; once is enough.
  const settled = (fits, then, signal) => {
    let due = false;
    document.addEventListener("htmx:afterSettle", (e) => {
      if (due || !fits(e)) return;
      due = true;
      queueMicrotask(() => { due = false; then(); });
    }, { signal });
  };

  // The page of a session: it opens at its end, keeps its place when older
  // entries come in above, and follows new ones while the end is in view.
  // Another session may take its place without a page load; what was set up for
  // the one before ends then.
  let life = new AbortController();
  const session = () => {
    const entries = document.getElementById("entries"), newest = document.getElementById("newest"), signal = life.signal;
    if (!entries || !newest) return;
    const on = (name, then) => document.addEventListener(name, then, { signal });
    const root = document.documentElement, query = new URLSearchParams(location.search);
    const toLinked = () => {
      const linked = /^#e(\d+)$/.exec(location.hash);
      if (!linked || document.getElementById("e" + linked[1]) || query.get("at") === linked[1]) return;
      query.set("at", linked[1]);
      query.delete("before");
      location.replace(location.pathname + "?" + query + location.hash);
    };
    toLinked();
    window.addEventListener("hashchange", toLinked, { signal });
    // Whether the end is followed is up to the reader: only who scrolls up leaves it. What
    // comes in, goes or gets its height by being laid out moves the end, too, and on a
    // busy machine long before anybody is told.
    let top = scrollY, held = null;
    const toEnd = () => { newest.scrollIntoView({ block: "end", behavior: "instant" }); top = scrollY; };
    // The browser keeps the place of what is read by scrolling itself; at the end, where we
    // do, that would look like a reader who scrolls.
    const anchor = () => { root.style.overflowAnchor = held || atEnd ? "none" : ""; };
    const stay = (is) => { if (atEnd !== is) { atEnd = is; anchor(); } };
    const gap = () => newest.getBoundingClientRect().bottom - innerHeight;
    let atEnd = !location.hash && !entries.dataset.at && !query.has("before") && !query.has("find");
    if (atEnd || location.hash === "#newest") { atEnd = true; toEnd(); }
    anchor();
    // A number or a day was asked for, without a link to its entry.
    if (!location.hash && entries.dataset.at) document.getElementById("e" + entries.dataset.at)?.scrollIntoView({ block: "start" });
    const button = document.querySelector(".to-newest");
    let inView = false;
    const follow = () => { if (atEnd && !held) toEnd(); };
    // Who scrolled is known by the place, too: the event comes with the next frame.
    const scrolled = () => {
      const by = scrollY - top;
      top = scrollY;
      if (held) return;
      if (by > 0 && inView) stay(true);
      if (by < 0 && atEnd && gap() > 2) stay(false);
    };
    const watch = new IntersectionObserver((seen) => {
      inView = seen[seen.length - 1].isIntersecting;
      scrolled();
      if (inView) stay(true); else follow();
      if (button) button.classList.toggle("seen", inView);
    }, { rootMargin: "0px 0px 80px 0px" });
    watch.observe(newest);
    const grows = new ResizeObserver(() => { scrolled(); follow(); });
    grows.observe(newest.parentElement);
    signal.addEventListener("abort", () => { watch.disconnect(); grows.disconnect(); });
    on("scroll", scrolled);
    addEventListener("wheel", (e) => { if (e.deltaY < 0) stay(false); }, { signal, passive: true });
    // What comes in above is laid out as it comes near, and only then has its
    // height: the place is kept for some frames, while the reader may scroll on.
    const placed = (el) => el.getBoundingClientRect().top + scrollY;
    const keep = () => {
      const off = held.el.isConnected ? placed(held.el) - held.at : 0;
      if (off) { window.scrollBy({ top: off, behavior: "instant" }); held.at += off; }
    };
    const keeps = () => {
      keep();
      if (held.frames-- > 0) { requestAnimationFrame(keeps); return; }
      held = null;
      anchor();
    };
    // It does something above what is looked at, which stays where it is.
    const unmoved = (act) => {
      const began = !held, el = parts().find((a) => a.getBoundingClientRect().bottom > 0);
      if (el) { held = { el, at: placed(el), frames: 6 }; anchor(); }
      act();
      if (held && began) keeps(); else if (held) keep();
    };
    on("htmx:sseBeforeMessage", (e) => {
      // What is new comes with the rest of what was taken out.
      if (e.target.id === "live" && entries.querySelector(":scope > .newer") && e.detail.lastEventId) { missed = Math.max(missed, +e.detail.lastEventId); e.preventDefault(); }
    });
    on("htmx:sseMessage", () => {
      const nothing = document.getElementById("nothing");
      if (nothing) nothing.remove();
      join();
      if (atEnd) toEnd();
      settle();
      listTurns();
    });
    settled((e) => entries.contains(e.target), () => { join(); settle(); }, signal);

    // The page is a window on the session: what is far from the view is taken
    // out, and a button that gets it back when it comes near stands in its place.
    // What was unfolded there, and where the focus was, is remembered.
    const mostNodes = 1000, keptNodes = 700;
    const stowed = new WeakMap(), unfolded = new Map(), ranges = new WeakMap();
    let missed = 0, focused = null;
    const parts = () => [...entries.children].filter((c) => !c.matches(".older, .newer"));
    const folds = (el) => [...(el.matches?.("details") ? [el] : []), ...el.querySelectorAll("details")].flatMap((f) => stowed.has(f) ? [f, ...folds(stowed.get(f))] : [f]);
    const numbered = (el) => /^e\d+$/.test(el.id) ? +el.id.slice(1) : 0;
    const numbers = (part) => {
      const all = [part, ...part.querySelectorAll("[id^=e]")];
      for (const f of folds(part)) if (stowed.has(f)) all.push(...stowed.get(f).querySelectorAll("[id^=e]"));
      return all.map(numbered).filter((n) => n > 0);
    };
    const size = (el) => el.querySelectorAll("*").length + 1;
    // The first and the last entry of a part; they change only when it does.
    const range = (part) => {
      let r = ranges.get(part);
      if (!r) { const all = numbers(part); ranges.set(part, r = all.length ? [Math.min(...all), Math.max(...all)] : [Infinity, 0]); }
      return r;
    };
    // The content of what is folded is kept aside until somebody unfolds it.
    const stow = (fold) => {
      if (fold.open || stowed.has(fold) || fold.dataset.result || size(fold) < 12) return;
      const content = document.createDocumentFragment();
      content.append(...[...fold.childNodes].filter((n) => n.nodeName !== "SUMMARY"));
      stowed.set(fold, content);
    };
    const unstow = (fold) => {
      const content = stowed.get(fold);
      if (!content) return;
      stowed.delete(fold);
      for (const f of content.querySelectorAll("details[open]")) unstow(f);
      fold.querySelector("summary").after(content);
    };
    entries.addEventListener("toggle", (e) => { if (e.target.open) unstow(e.target); }, true);
    const unstowAll = (el) => { for (const f of el.querySelectorAll("details:not(.context, .run)")) if (stowed.has(f)) { unstow(f); unstowAll(f); } };
    addEventListener("beforeprint", () => unstowAll(entries), { signal });

    const loader = (side, name, number) => {
      const p = document.getElementById(side).content.firstElementChild.cloneNode(true), to = (path, name) => { const u = new URL(path, location); u.searchParams.set(name, number); return u.pathname + u.search; };
      p.dataset.get = to(entries.dataset.part, name);
      p.querySelector("a").href = to(entries.dataset.page, side === "older" ? "before" : "at");
      return p;
    };
    const takeOut = (gone) => {
      for (const part of gone) {
        const first = numbers(part)[0];
        folds(part).forEach((f, i) => { if (f.open && first) unfolded.set(first + "/" + i, [first, i]); });
        if (part.contains(document.activeElement) && first) focused = [first, [...part.querySelectorAll("a, button, summary, [tabindex]")].indexOf(document.activeElement)];
        part.remove();
      }
    };
    const putBack = () => {
      const part = (number) => { const el = document.getElementById("e" + number); return el && entries.contains(el) ? parts().find((p) => p.contains(el)) : null; };
      for (const [key, [number, i]] of unfolded) { const p = part(number); if (p) { unfolded.delete(key); if (folds(p)[i]) folds(p)[i].open = true; } }
      const there = focused && part(focused[0]);
      if (!there) return;
      if (document.activeElement === document.body) { const all = there.querySelectorAll("a, button, summary, [tabindex]"); if (all[focused[1]]) all[focused[1]].focus({ preventScroll: true }); }
      focused = null;
    };
    const trim = () => {
      if (size(entries) <= mostNodes) return;
      for (const f of entries.querySelectorAll("details:not([open])")) stow(f);
      let total = size(entries);
      if (total <= mostNodes) return;
      // It is cut only where no result belongs to a call on the other side.
      const all = parts(), boxes = all.map((p) => p.getBoundingClientRect()), cuts = new Array(all.length + 1).fill(false);
      for (let i = all.length - 1, low = Infinity; i > 0; i--) { low = Math.min(low, range(all[i])[0]); cuts[i] = range(all[i])[1] > 0 && low; }
      for (let i = 0, high = 0; i < all.length; i++) { if (cuts[i] && high >= cuts[i]) cuts[i] = false; high = Math.max(high, range(all[i])[1]); }
      const far = Math.max(innerHeight * 1.5, 1000), from = boxes.findIndex((b) => b.bottom > -far), to = boxes.findLastIndex((b) => b.top < innerHeight + far);
      // What is coming in stands beside the button that it came by.
      const replaces = (side) => { const p = entries.querySelector(":scope > ." + side); if (p && p.dataset.busy) return false; p?.remove(); return true; };
      const above = () => {
        let cut = 0, left = total;
        for (let i = 1, sum = 0; i <= from && left > keptNodes; i++) { sum += size(all[i - 1]); if (cuts[i]) { cut = i; left = total - sum; } }
        if (!cut || !replaces("older")) return;
        total = left;
        unmoved(() => { all[cut].before(loader("older", "before", cuts[cut])); takeOut(all.slice(0, cut)); });
      };
      const below = () => {
        let cut = 0, left = total;
        for (let i = all.length - 1, sum = 0; i > to && left > keptNodes; i--) { sum += size(all[i]); if (cuts[i]) { cut = i; left = total - sum; } }
        if (!cut || "beside" in entries.dataset || !replaces("newer")) return;
        total = left;
        takeOut(all.slice(cut));
        entries.append(loader("newer", "onward", cuts[cut]));
      };
      if (from > all.length - 1 - to) { above(); if (total > mostNodes) below(); } else { below(); if (total > mostNodes) above(); }
    };

    // What comes near is got before it is seen. Much comes in by slices, what is nearest
    // first, so that no frame has too much to lay out; but each frame that changes the list
    // costs as much as the laying out of some 300 nodes, so they are no thinner.
    const sliceNodes = 600, again = 3000;
    const frame = () => new Promise(requestAnimationFrame);
    const near = new IntersectionObserver((seen) => { for (const s of seen) if (s.isIntersecting && s.target.isConnected) { near.unobserve(s.target); get(s.target); } }, { rootMargin: "600px 0px" });
    signal.addEventListener("abort", () => near.disconnect());
    const get = async (p) => {
      if (p.dataset.busy) return;
      p.dataset.busy = "1";
      const got = document.createElement("template");
      try {
        const r = await fetch(p.dataset.get, { signal });
        if (!r.ok) throw r.status;
        got.innerHTML = await r.text();
      } catch {
        delete p.dataset.busy;
        if (!signal.aborted) setTimeout(() => near.observe(p), again);
        return;
      }
      const up = p.matches(".older"), items = [...got.content.children], next = items.find((c) => c.matches(".older, .newer")), rest = items.filter((c) => c !== next);
      for (const f of got.content.querySelectorAll("details:not([open])")) stow(f);
      while (rest.length) {
        await frame();
        if (!p.isConnected || signal.aborted) return;
        const slice = [];
        for (let n = 0; rest.length && n < sliceNodes; n += size(slice.at(up ? 0 : -1))) if (up) slice.unshift(rest.pop()); else slice.push(rest.shift());
        if (up) unmoved(() => { p.after(...slice); join(); }); else { p.before(...slice); join(); }
        for (const el of slice) pictures(el);
      }
      await frame();
      if (!p.isConnected || signal.aborted) return;
      if (next) p.replaceWith(next); else p.remove();
      settle();
    };
    const settle = () => {
      putBack();
      trim();
      if (missed && !entries.querySelector(":scope > .newer")) {
        const last = Math.max(0, ...parts().slice(-5).map((p) => range(p)[1]));
        if (missed > last) entries.append(loader("newer", "later", last));
        missed = 0;
      }
      for (const p of entries.querySelectorAll(":scope > .older, :scope > .newer")) if (!p.dataset.busy) near.observe(p);
    };
    on("click", (e) => {
      const link = e.target.closest("[data-to-end]"), to = link && new URL(link.href);
      if (!link || e.ctrlKey || e.metaKey || e.shiftKey || to.pathname !== location.pathname || to.search !== location.search || !entries.querySelector(":scope > .newer")) return;
      e.preventDefault();
      history.replaceState(history.state, "", to);
      htmx.ajax("GET", to.pathname + to.search, { target: "#session", select: "#session", swap: "outerHTML show:none" });
    });

    // A result that came after its call goes into the row of the call.
    const changed = (el) => { while (el.parentElement && el.parentElement !== entries) el = el.parentElement; ranges.delete(el); };
    const join = () => {
      for (const row of entries.querySelectorAll("[data-result]")) {
        // A tool may use an id again: the call is the last one before its result.
        const calls = entries.querySelectorAll(`[data-call="${CSS.escape(row.dataset.result)}"]`), call = [...calls].findLast((c) => c.compareDocumentPosition(row) & Node.DOCUMENT_POSITION_FOLLOWING), output = row.querySelector(".answer"), said = row.closest(".said");
        if (!call || !output) continue;
        changed(call);
        changed(row);
        call.append(output);
        call.removeAttribute("data-call");
        call.classList.toggle("failed", row.classList.contains("failed"));
        const state = call.querySelector(".state"), took = row.dataset.at - call.dataset.at;
        state.replaceChildren(...row.querySelector(".state").childNodes);
        if (took > 0) state.prepend((took < 1000 ? took + " ms " : (took / 1000).toFixed(1) + " s "));
        row.remove();
        if (said && !said.querySelector(".text, .call, .answer, img")) { if (!output.id) output.id = said.id; said.remove(); }
      }
      // Runs that came one by one are one.
      for (const run of [...entries.querySelectorAll(".run + .run")]) {
        const first = run.previousElementSibling, count = first.querySelector("[data-count]");
        if (!first.matches(".run")) continue;
        ranges.delete(first);
        count.dataset.count = +count.dataset.count + +run.querySelector("[data-count]").dataset.count;
        count.textContent = entries.dataset.many.replace("%d", count.dataset.count);
        run.querySelector("summary").remove();
        first.append(...run.childNodes);
        run.remove();
      }
      // What a turn used stands at its end alone.
      for (const end of entries.querySelectorAll(".turn-end")) {
        let next = end.nextElementSibling;
        while (next && next.matches("span")) next = next.nextElementSibling; // the place of an entry that says nothing
        if (next && next.matches(".said:not(.user), .run, .turn-end")) end.remove();
      }
    };
    join();
    settle();

    // The answer comes word by word. A long one is laid out anew for each, so words
    // are gathered until that has had a quarter of the time: the rest is for who types.
    let words = "", drawing = false;
    const draw = () => {
      const piece = [...document.querySelectorAll("#talk .piece")].pop(), began = performance.now();
      drawing = !!(piece && words);
      if (!drawing) return;
      if (piece.lastChild) piece.lastChild.appendData(words); else piece.textContent = words;
      words = "";
      if (atEnd) toEnd();
      requestAnimationFrame(() => setTimeout(() => setTimeout(draw, Math.min(3 * (performance.now() - began), 1000))));
    };
    on("htmx:sseOpen", (e) => {
      if (e.detail.source.talks) return;
      e.detail.source.talks = true;
      e.detail.source.addEventListener("delta", (m) => {
        words += JSON.parse(m.data);
        if (!drawing) draw();
      });
    });
    // What is there already need not be drawn anew, under somebody's finger.
    on("htmx:sseBeforeMessage", (e) => {
      if (e.target.id !== "talk") return;
      words = ""; // they are in what comes
      const now = document.createElement("template");
      now.innerHTML = e.detail.data;
      if (now.innerHTML.trim() === e.target.innerHTML.trim()) e.preventDefault();
    });
    // Saying something, stopping and answering need no page. What was typed stays
    // until it is kept.
    const composer = document.getElementById("composer"), kept = "tidemark-say:" + location.pathname;
    if (composer) {
      const field = composer.querySelector("textarea"), wrong = composer.querySelector(".wrong");
      const told = (text) => { wrong.textContent = text; wrong.hidden = !text; };
      const more = composing(composer, told, signal);
      const post = async (form, body, early) => {
        told("");
        try {
          const r = await fetch(form.action, { method: "POST", body, headers: { Accept: "application/json" } });
          if (r.ok || r.status === 404 && form.matches("[action$='/stop']")) return true; // what is over need not be stopped
          if (early && r.status === 409) return false; // an answer began that this page has not heard of
          const problem = await r.json().catch(() => ({}));
          told(problem.detail || problem.title || String(r.status));
        } catch { told(composer.dataset.lost); }
        return false;
      };
      if (!field.value) field.value = sessionStorage.getItem(kept) || "";
      field.addEventListener("input", () => { if (field.value) sessionStorage.setItem(kept, field.value); else sessionStorage.removeItem(kept); });
      let sends = false;
      field.addEventListener("keydown", (e) => { sends = e.key === "Enter" && !e.shiftKey && !e.isComposing; if (sends) { e.preventDefault(); composer.requestSubmit(); } });
      field.addEventListener("beforeinput", (e) => { if (sends && e.inputType === "insertLineBreak") e.preventDefault(); });
      on("submit", async (e) => {
        const form = e.target;
        if (form !== composer && !form.matches("[data-talk]") || form.dataset.busy) { if (form.dataset.busy) e.preventDefault(); return; }
        e.preventDefault();
        form.dataset.busy = "1";
        if (form.matches("[action$='/stop']")) stopped = true;
        if (form !== composer) { await post(form, new URLSearchParams(new FormData(form, e.submitter))); delete form.dataset.busy; return; }
        const text = field.value;
        more.close();
        if (queue.length || answers()) {
          delete form.dataset.busy;
          if (more.any()) { told(composer.dataset.later); return; }
          if (queue.length >= mostQueued) return;
          queue.push(text);
          field.value = "";
          sessionStorage.removeItem(kept);
          drawQueue();
          sayNext(true);
          return;
        }
        const body = new FormData();
        body.set("text", text);
        const done = await post(form, more.any() ? more.with(body) : new URLSearchParams(body));
        delete form.dataset.busy;
        if (!done) return;
        more.forget();
        if (field.value === text) field.value = "";
        sessionStorage.removeItem(kept);
        stay(true);
        toEnd();
      });

      // What is said ahead waits here until the answer is there, and can be taken
      // back until then. What went wrong is looked at by a person first.
      const ahead = document.getElementById("ahead"), waits = kept + ":ahead", mostQueued = 20, queue = JSON.parse(sessionStorage.getItem(waits) || "[]");
      const answers = () => document.querySelector("#talk .running") !== null && document.getElementById("banner").hidden;
      let sending = false, stopped = false;
      const drawQueue = () => {
        if (queue.length) sessionStorage.setItem(waits, JSON.stringify(queue)); else sessionStorage.removeItem(waits);
        ahead.hidden = !queue.length;
        ahead.replaceChildren(...queue.map((text, i) => {
          const li = document.createElement("li"), said = document.createElement("bdi"), back = document.createElement("button");
          said.textContent = text;
          back.type = "button";
          back.textContent = ahead.dataset.back;
          back.addEventListener("click", () => { queue.splice(i, 1); field.value = field.value ? field.value + "\n" + text : text; drawQueue(); field.focus(); });
          li.append(said, back);
          return li;
        }));
      };
      const sayNext = async (asked) => {
        if (!queue.length || sending || answers() || !asked && document.querySelector("#talk .notice")) return;
        sending = true;
        stopped = false;
        const done = await post(composer, new URLSearchParams({ text: queue[0] }), true);
        if (done) { queue.shift(); drawQueue(); }
        sending = false;
        if (wrong.hidden) setTimeout(() => sayNext(asked && !done), 500); // its answer may have ended meanwhile, or the one before only now
      };
      drawQueue();
      on("htmx:sseMessage", (e) => { if (e.target.id === "talk") sayNext(stopped); });
    }

    // The menu opens for the entry that it was asked for from.
    const menu = document.getElementById("act"), openAt = (seq) => {
      menu.querySelector("#at").value = seq;
      menu.showPopover();
      menu.focus(); // not a field: the key that opened the menu would count there, too
    };
    if (menu && menu.querySelector("#at")) {
      on("click", (e) => {
        const from = e.target.closest("[data-from]");
        if (from && !e.ctrlKey && !e.metaKey && !e.shiftKey) { e.preventDefault(); openAt(from.dataset.from); }
      });
      if (location.hash === "#act") openAt(query.get("at") || "");
    }

    // Jumps and links within what is here need no page; behind it, the server
    // finds the place.
    let jumped = null;
    on("click", (e) => {
      const jump = e.target.closest("[data-jump]"), link = e.target.closest(".outline a, .hits a");
      if (e.ctrlKey || e.metaKey || e.shiftKey) return;
      if (link) {
        const there = document.getElementById(new URL(link.href).hash.slice(1));
        if (there && link.matches(".outline a")) { e.preventDefault(); closeSheet(); history.replaceState(null, "", "#" + there.id); there.scrollIntoView({ block: "start" }); }
      }
      if (!jump) return;
      const kind = jump.dataset.jump === "prompt" ? ".said.user" : ".call.failed, .said.failed";
      // Near the end of a page nothing can be scrolled to its top: while what was jumped to is in sight, it goes on by order.
      const was = jumped && jumped.isConnected && jumped.getBoundingClientRect(), again = was && was.bottom > 0 && was.top < innerHeight;
      const next = [...entries.querySelectorAll(kind)].find((el) => again ? jumped.compareDocumentPosition(el) & Node.DOCUMENT_POSITION_FOLLOWING : el.getBoundingClientRect().top > 80);
      if (next) {
        e.preventDefault();
        closeSheet();
        if (next.matches("details")) next.open = true;
        next.scrollIntoView({ block: "start" });
        next.querySelector("a, summary").focus({ preventScroll: true });
        jumped = next;
        return;
      }
      if (!document.querySelector("#entries > .newer, .to-end")) { e.preventDefault(); tell(jump, jump.dataset.none); return; }
      const last = [...entries.querySelectorAll("[id^=e]")].pop(), to = new URL(jump.href);
      if (last) to.searchParams.set("from", last.id.slice(1));
      jump.href = to;
    });
    const closeSheet = () => { const rail = document.getElementById("rail"); if (rail && rail.matches(":popover-open")) rail.hidePopover(); };

    // A prompt that comes in is listed with the others, as they are.
    const listTurns = () => {
      const list = document.querySelector("#rail .outline"), last = list && list.lastElementChild;
      if (!last || list.nextElementSibling) return; // it does not list the newest
      for (const said of entries.querySelectorAll(":scope > .said.user")) {
        const number = numbered(said), words = said.querySelector(".text"), at = said.querySelector("time");
        if (number <= +list.lastElementChild.firstElementChild.dataset.entry || !words) continue;
        const row = last.cloneNode(true), link = row.firstElementChild, to = new URL(link.href);
        to.searchParams.set("at", number);
        to.hash = "e" + number;
        link.href = to;
        link.dataset.entry = number;
        link.textContent = words.textContent.trim().slice(0, 200);
        row.querySelector(".machine")?.remove();
        if (at) row.querySelector("time").replaceWith(at.cloneNode(true));
        list.append(row);
        lastTurns();
      }
    };
    // Who reads the end of a session sees the last of its turns listed.
    const lastTurns = () => requestAnimationFrame(() => { const list = document.querySelector("#rail .outline"); if (list && atEnd) list.scrollTop = list.scrollHeight; });
    lastTurns();
    settled((e) => e.target.closest?.("#rail"), lastTurns, signal);

    // One button that copies follows the pointer and the focus from code to code.
    const copyCode = document.querySelector(".copy"), place = document.querySelector(".conversation");
    let code = null;
    const offer = (e) => {
      const pre = e.target.closest && e.target.closest("pre:not([aria-hidden])");
      if (!pre || pre === code && !copyCode.hidden) return;
      const at = (pre.closest(".numbered") || pre).getBoundingClientRect(), from = place.getBoundingClientRect();
      code = pre;
      copyCode.hidden = false;
      copyCode.style.top = at.top - from.top + 6 + "px";
      copyCode.style.left = at.right - from.left - 38 + "px";
    };
    copyCode.addEventListener("click", () => { if (code) copy(copyCode, code.textContent); });
    entries.addEventListener("pointerover", (e) => { if (e.target.closest("pre")) offer(e); else copyCode.hidden = true; });
    entries.addEventListener("focusin", offer);
    on("keydown", (e) => {
      if (e.key !== "c" || e.ctrlKey || e.metaKey || e.altKey || typing(e)) return;
      const pre = document.activeElement.closest("pre"), said = document.activeElement.closest(".said") || document.querySelector(".said.current");
      if (pre) copy(copyCode, pre.textContent);
      else if (said) { offerActs(said); said.querySelector("[data-copy-from]")?.click(); }
    });

    // So do the buttons of an entry: they stand in the one that is looked at.
    const buttons = document.getElementById("acts"), acts = [...buttons.content.children], texts = acts.map((b) => [...b.attributes].filter((a) => a.value.includes("%d")).map((a) => [a.name, a.value]));
    const offerActs = (said) => {
      const place = said && said.querySelector(":scope > .acts");
      if (!place || place === acts[0].parentElement) return;
      acts.forEach((b, i) => { for (const [name, value] of texts[i]) b.setAttribute(name, value.replace("%d", numbered(said))); });
      place.append(...acts);
    };
    for (const name of ["pointerover", "focusin"]) entries.addEventListener(name, (e) => offerActs(e.target.closest(".said")));

    // A picture opens large.
    const box = document.getElementById("lightbox");
    const enlarge = (img) => { box.querySelector("img").src = img.src; box.querySelector("img").alt = img.alt; box.showModal(); box.focus(); };
    const pictures = (root) => { for (const img of root.querySelectorAll("figure img:not(.zoom)")) { img.classList.add("zoom"); img.tabIndex = 0; img.setAttribute("role", "button"); } };
    if (box) {
      pictures(entries);
      settled((e) => entries.contains(e.target), () => pictures(entries), signal);
      entries.addEventListener("click", (e) => { if (e.target.matches(".zoom")) enlarge(e.target); });
      entries.addEventListener("keydown", (e) => { if (e.target.matches(".zoom") && (e.key === "Enter" || e.key === " ")) { e.preventDefault(); enlarge(e.target); } });
      box.addEventListener("click", () => box.close());
    }
  };
  session();

  // What was searched for is marked in what was said, without changing the text.
  const markFound = () => {
    if (!window.Highlight) return;
    const words = new Set([...document.querySelectorAll(".hits mark")].map((m) => m.textContent.toLowerCase())), entries = document.getElementById("entries"), ranges = [];
    words.delete("");
    const texts = words.size && entries && document.createTreeWalker(entries, NodeFilter.SHOW_TEXT);
    while (texts && texts.nextNode()) {
      const node = texts.currentNode, text = node.data.toLowerCase();
      if (text.length !== node.length) continue; // places differ
      for (const word of words) {
        for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
          const r = new Range();
          r.setStart(node, at);
          r.setEnd(node, at + word.length);
          ranges.push(r);
        }
      }
    }
    CSS.highlights.set("found", new Highlight(...ranges));
    document.body.classList.toggle("marked", ranges.length > 0);
  };
  markFound();
  settled((e) => e.target.closest("#main"), markFound);

  // The list of sessions beside the one that is read.
  const pane = document.getElementById("pane");
  if (pane) {
    let sought = false;
    const mark = () => {
      for (const a of pane.querySelectorAll("li a")) if (new URL(a.href).pathname === location.pathname) a.setAttribute("aria-current", "page"); else a.removeAttribute("aria-current");
      // The one that is read is in sight when the list comes in; then its place is the reader's.
      const read = pane.querySelector("[aria-current]");
      if (sought || !read) return;
      sought = true;
      seek(read, 3);
    };
    // Rows that were never drawn are as high as they may be: once they are drawn, the one
    // that is read may stand elsewhere.
    const seek = (read, times) => {
      const at = read.getBoundingClientRect(), seen = pane.getBoundingClientRect();
      // On top of a page the list is below the bar, and ends below the window.
      if (at.bottom > Math.min(seen.bottom, innerHeight) || at.top < seen.top) pane.scrollTop += at.top - seen.top - seen.height / 2;
      if (times > 1) requestAnimationFrame(() => { if (read.isConnected) seek(read, times - 1); });
    };
    // If it was in sight, it is so when the list is read anew and it has moved.
    const inSight = () => { const read = pane.querySelector("[aria-current]"), at = read && read.getBoundingClientRect(), seen = pane.getBoundingClientRect(); return read && at.bottom > seen.top && at.top < seen.bottom; };
    pane.addEventListener("htmx:beforeSwap", (e) => { if (e.target === pane && inSight()) sought = false; });
    // What was got of a long list is read anew with it.
    pane.addEventListener("htmx:configRequest", (e) => { if (e.target === pane) e.detail.parameters.rows = pane.querySelectorAll("li:not(.apart)").length; });
    const wide = matchMedia("(min-width: 64rem)"), fill = () => { if (wide.matches && !pane.childElementCount) htmx.trigger(pane, "fill"); };
    wide.addEventListener("change", fill);
    document.addEventListener("DOMContentLoaded", fill);
    settled((e) => e.target.id === "session" || pane.contains(e.target), mark);
    settled((e) => e.target.id === "session", () => {
      life.abort();
      life = new AbortController();
      session();
    });
    pane.addEventListener("keydown", (e) => {
      if (e.key !== "ArrowDown" && e.key !== "ArrowUp") return;
      const all = [...pane.querySelectorAll("li a")], at = all.indexOf(document.activeElement), next = all[at < 0 ? 0 : at + (e.key === "ArrowDown" ? 1 : -1)];
      if (next) { e.preventDefault(); next.focus(); }
    });
  }

  // On a phone, what narrows a search down would be in the way.
  const facets = () => { if (!matchMedia("(min-width: 64rem)").matches) for (const d of document.querySelectorAll(".facets")) d.open = false; };
  facets();
  settled((e) => e.target.id === "list" || e.target.id === "facets", facets);

  // Several sessions of a list at once: each is done as if it were alone. Of a list with
  // more pages, all that match can be chosen; then every has their names.
  const boxes = () => [...document.querySelectorAll("input[name=id]")], picked = () => boxes().filter((b) => b.checked);
  let every = null, doing = "", trashed = [];
  const count = () => {
    const bar = document.getElementById("bulk");
    if (!bar) return;
    const n = every ? every.length : picked().length, told = bar.querySelector("[data-picked]"), more = bar.querySelector("[value=every]");
    bar.hidden = !n && !doing;
    told.textContent = doing || told.dataset.picked.replace("%d", n);
    for (const b of bar.querySelectorAll("button")) b.disabled = !!doing;
    if (more) more.hidden = !!every || n < boxes().length;
  };
  // A list that is read anew has the same rows chosen, and the focus where it was.
  let chosen = null;
  document.addEventListener("htmx:beforeSwap", (e) => {
    if (e.target.id === "list") chosen = { ids: picked().map((b) => b.value), tags: document.querySelector("#bulk [name=tags]")?.value, focused: document.activeElement.matches("input[name=id]") ? document.activeElement.value : "" };
  });
  settled((e) => e.target.id === "list", () => {
    if (!chosen) return;
    const { ids, tags, focused } = chosen, field = document.querySelector("#bulk [name=tags]");
    chosen = null;
    for (const box of document.querySelectorAll("input[name=id]")) {
      if (ids.includes(box.value)) box.checked = true;
      if (focused && box.value === focused) box.focus({ preventScroll: true });
    }
    if (field && tags) field.value = tags;
    count();
  });
  let last = null;
  document.addEventListener("click", (e) => {
    if (!e.target.matches("input[name=id]")) return;
    const all = boxes(), a = all.indexOf(last), b = all.indexOf(e.target);
    if (e.shiftKey && a >= 0) for (const box of all.slice(Math.min(a, b), Math.max(a, b) + 1)) box.checked = e.target.checked;
    last = e.target;
    count();
  });
  document.addEventListener("change", (e) => {
    if (e.target.dataset.all) for (const box of boxes()) box.checked = e.target.checked;
    if (e.target.dataset.all || e.target.name === "id") { every = null; count(); }
  });
  // eachOf does something with sessions, and returns those that it was done with. A server
  // that does not answer is not asked for the rest.
  const step = 100;
  // The last row comes first, so that what is listed by its last change keeps its order.
  const eachOf = async (ids, what, body, tell) => {
    const done = [];
    for (let i = 0; i < ids.length; i += step) {
      tell(i);
      const did = await fetch("/sessions/several", { method: "POST", body: new URLSearchParams({ what, ids: ids.slice(i, i + step).join(" "), ...body }) }).then((r) => r.ok ? r.json() : null).catch(() => null);
      if (!did) break;
      done.push(...did);
    }
    return done;
  };
  addEventListener("beforeunload", (e) => { if (doing) e.preventDefault(); });
  // The list changes with each step then, and is read anew at the end.
  document.addEventListener("htmx:beforeRequest", (e) => { if (doing && e.target.closest?.("#list, #totals")) e.preventDefault(); });
  // What was done is told on the page that is read anew, with the way back.
  const toldBulk = () => {
    const did = JSON.parse(sessionStorage.getItem("tidemark-did") || "null");
    sessionStorage.removeItem("tidemark-did");
    if (!did || !undo) return;
    const words = undo.querySelector("span"), back = undo.querySelector("button");
    words.textContent = did.told;
    back.hidden = did.what !== "trash";
    undo.hidden = false;
    if (!back.hidden) back.addEventListener("click", async () => {
      undo.hidden = false; // until it is done
      back.hidden = true;
      const done = await eachOf(did.ids, "restore", {}, (i) => { words.textContent = did.doing.replace("%d", i).replace("%d", did.ids.length); });
      sessionStorage.setItem("tidemark-did", JSON.stringify({ what: "restore", told: did.restore.replace("%d", done.length) }));
      location.reload();
    }, { once: true });
  };
  toldBulk();
  document.addEventListener("submit", async (e) => {
    if (e.target.id !== "bulk") return;
    e.preventDefault();
    const bar = e.target, what = e.submitter.value, tags = bar.querySelector("[name=tags]"), words = bar.querySelector("[data-picked]").dataset.doing;
    if (what === "none") { for (const box of picked()) box.checked = false; every = null; count(); return; }
    if (what === "tags" && !tags.value.trim()) { tags.focus(); return; }
    if (what === "every") {
      every = await fetch(bar.dataset.names).then((r) => r.ok ? r.json() : null).catch(() => null);
      count();
      return;
    }
    const ids = every || picked().map((b) => b.value);
    if (what === "export") {
      const form = document.createElement("form"), field = document.createElement("input");
      form.method = "post";
      form.action = "/sessions/zip";
      field.type = "hidden";
      field.name = "ids";
      field.value = ids.join(" ");
      form.append(field);
      document.body.append(form);
      form.submit(); // a file: the page stays
      form.remove();
      return;
    }
    const done = await eachOf(ids.toReversed(), what, what === "tags" ? { add: tags.value } : {}, (i) => { doing = words.replace("%d", i).replace("%d", ids.length); count(); });
    doing = "";
    if (what === "trash") trashed.push(...done); // also those of a try that was cut off
    if (done.length === ids.length) {
      sessionStorage.setItem("tidemark-did", JSON.stringify({ what, ids: what === "trash" ? trashed : [], told: bar.dataset[what].replace("%d", what === "trash" ? trashed.length : done.length), doing: words, restore: bar.dataset.restore }));
      location.reload();
      return;
    }
    const left = new Set(ids);
    for (const id of done) left.delete(id);
    if (every) every = [...left]; else for (const box of boxes()) box.checked = left.has(box.value);
    count();
    const now = document.getElementById("bulk"); // the list may have been read anew
    now.hidden = false;
    now.querySelector("[data-picked]").textContent = bar.dataset.did.replace("%d", done.length).replace("%d", left.size);
  });

  // The newest weeks are seen first.
  const newest = () => { for (const h of document.querySelectorAll(".heat")) h.parentElement.scrollLeft = 1e4; };
  newest();
  settled((e) => e.target.id === "home", newest);

  // The first page tells days and hours of the reader's time zone.
  const home = document.getElementById("home"), zone = home && Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && home.dataset.zone !== zone && !document.cookie.includes("tidemark-zone=" + zone + ";") && !document.cookie.endsWith("tidemark-zone=" + zone)) {
    document.cookie = "tidemark-zone=" + zone + "; path=/; max-age=31536000; samesite=lax";
    htmx.ajax("GET", location.pathname + location.search, { target: "#home", select: "#home", swap: "outerHTML" });
  }

  // Times are told in the place of the reader, once somebody points at one: a browser
  // takes longer to learn how than to paint a page.
  const local = (d) => d.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" }); // with the zone
  document.addEventListener("pointerover", (e) => {
    const t = e.target.closest("time[datetime]:not([data-local])"), d = t && new Date(t.dateTime);
    if (t && !isNaN(d)) { t.dataset.local = "1"; t.title = local(d); }
    const drawn = e.target.closest("tspan[data-time]"), title = drawn && drawn.closest("a").querySelector("title");
    if (title && !title.dataset.local) { title.dataset.local = "1"; title.textContent += " · " + local(new Date(drawn.dataset.time)); }
  });

  // How long ago something was goes on while a page is open, by the server's clock.
  const ahead = document.body.dataset.now ? Date.now() - document.body.dataset.now : 0, units = [[6e4, 1e3, " s ago"], [36e5, 6e4, " min ago"], [1728e5, 36e5, " h ago"], [5184e6, 864e5, " days ago"]];
  setInterval(() => {
    if (document.hidden) return;
    for (const t of document.querySelectorAll("main time[datetime], main tspan[data-time]")) {
      const past = Date.now() - ahead - new Date(t.dateTime || t.dataset.time), unit = units.find(([most]) => past < most), text = unit && past >= 5000 && Math.floor(past / unit[1]) + unit[2];
      if (text && text !== t.textContent && /^now$| ago$/.test(t.textContent)) t.textContent = text;
    }
  }, 10000);

  // One stream tells what waits, and which lists are outdated. What somebody is
  // using is left alone until they are done.
  const seen = { ...document.body.dataset }, outdated = new Set();
  const waits = () => {
    const of = (name) => +document.body.dataset[name] || 0, n = of("waiting") + of("asking"), bare = document.title.replace(/^\(\d+\) /, "");
    const title = n ? "(" + n + ") " + bare : bare;
    if (document.title !== title) document.title = title;
    for (const el of document.querySelectorAll(".waits")) { el.hidden = !of(el.dataset.of); el.textContent = of(el.dataset.of); }
  };
  const refresh = () => {
    let waits = false;
    for (const el of document.querySelectorAll("[data-live]")) {
      if (!el.dataset.live.split(" ").some((name) => outdated.has(name)) || el.id === "pane" && (!el.childElementCount || el.querySelector("input").value)) continue;
      // A row that is chosen stays so; another field is somebody's.
      if (el.querySelector("input:not([name=id], [data-all]):checked") || el.contains(document.activeElement) && !document.activeElement.matches("input[name=id]")) { waits = true; continue; }
      htmx.trigger(el, "changed");
    }
    if (!waits) outdated.clear();
  };
  document.addEventListener("focusout", () => { if (outdated.size) setTimeout(refresh); });
  document.addEventListener("htmx:sseOpen", (e) => {
    const source = e.detail.source;
    if (source.told) return;
    source.told = true;
    source.addEventListener("state", (m) => {
      const now = JSON.parse(m.data);
      for (const name of ["sessions", "fleet"]) if (now[name] !== seen[name]) { seen[name] = now[name]; outdated.add(name); }
      for (const name of ["waiting", "asking"]) document.body.dataset[name] = now[name];
      waits();
      if (outdated.size) refresh();
    });
  });
  settled((e) => e.target.id === "session", waits);

  // Whoever signs in comes back to the place in the page that they were at, which only
  // the browser knows.
  const signIn = () => "/signin?next=" + encodeURIComponent(location.pathname + location.search + location.hash);
  const toSignIn = document.querySelector("a[data-next]");
  if (toSignIn) toSignIn.href = signIn();

  // A page that no longer hears of what is new says so.
  const banner = document.getElementById("banner");
  if (banner) {
    let tries = 0;
    const tell = (what) => {
      banner.hidden = !what;
      if (!what) return;
      banner.querySelector("span").textContent = banner.dataset[what];
      banner.querySelector("a").hidden = what !== "out";
      banner.querySelector("a").href = signIn(); // it leads back here
    };
    document.addEventListener("htmx:sseError", () => {
      const gone = ++tries > 3;
      if (banner.hidden) tell("again");
      fetch("/pane", { cache: "no-store" }).then((r) => { if (r.status === 401) tell("out"); }, () => { if (gone) tell("gone"); });
    });
    document.addEventListener("htmx:sseOpen", () => { tries = 0; tell(""); });
  }

  // A browser may keep a page that was left, and with it its stream; six of
  // them are all that it opens to one server. So the stream ends with the
  // page, and who comes back sees what is new.
  window.addEventListener("pagehide", () => {
    for (const el of document.querySelectorAll("[sse-connect]")) htmx.trigger(el, "htmx:beforeCleanupElement");
  });
  // Nothing is read anew while a form is on its way: the browser would give that up,
  // and what was said would stand in its field as if it had not been.
  let sent = 0;
  window.addEventListener("submit", (e) => { if (!e.defaultPrevented) sent = Date.now(); });
  const anew = () => {
    const rest = document.querySelector("form[data-busy]") ? 50 : sent && sent + 30000 - Date.now();
    if (rest > 0) setTimeout(anew, rest); else location.reload();
  };
  window.addEventListener("pageshow", (e) => { sent = 0; if (e.persisted && document.querySelector("[sse-connect]")) location.reload(); });

  // A stream that begins again may bring what is here already.
  document.addEventListener("htmx:sseBeforeMessage", (e) => {
    // The log went back: what is shown is no longer what is kept.
    if (e.detail.type === "reset") { e.preventDefault(); anew(); return; }
    if (e.target.id !== "talk" && e.detail.lastEventId && document.getElementById("e" + e.detail.lastEventId)) e.preventDefault();
  });
})();
