// What goes with a message besides words, and what is offered while it is typed: images
// that are picked, pasted or dropped, and the commands after a slash. The page of a
// session calls it once for its composer.
const composing = (composer, told, signal) => {
  "use strict";
  const field = composer.querySelector("textarea"), picker = composer.querySelector("[type=file]"), shown = document.getElementById("images"), list = document.getElementById("commands");
  const images = [], words = composer.dataset;
  const refuse = (text, file) => { told(text.replace("%s", file.name)); return false; };
  const fits = (file) => {
    if (!picker.accept.split(",").includes(file.type)) return refuse(words.kinds, file);
    if (file.size > +words.most) return refuse(words.large, file);
    if (images.length >= +words.count) return refuse(words.many, file);
    return true;
  };
  const draw = () => {
    shown.hidden = !images.length;
    field.required = !images.length;
    shown.replaceChildren(...images.map((image) => image.item));
  };
  const add = (files) => {
    told("");
    for (const file of files) {
      if (!fits(file)) break;
      const item = document.createElement("li"), img = document.createElement("img"), name = document.createElement("bdi"), drop = document.createElement("button"), image = { file, item }, reader = new FileReader();
      reader.onload = () => { img.src = reader.result; };
      reader.readAsDataURL(file);
      img.onerror = () => { images.splice(images.indexOf(image), 1); draw(); refuse(words.kinds, file); };
      img.alt = "";
      name.textContent = file.name;
      drop.type = "button";
      drop.className = "icon-button";
      drop.textContent = "✕";
      drop.setAttribute("aria-label", words.drop.replace("%s", file.name));
      drop.addEventListener("click", () => { images.splice(images.indexOf(image), 1); draw(); field.focus(); });
      item.append(img, name, drop);
      images.push(image);
    }
    draw();
  };
  draw();
  picker.addEventListener("change", () => { add([...picker.files]); picker.value = ""; field.focus(); });
  field.addEventListener("paste", (e) => { if (e.clipboardData.files.length) { e.preventDefault(); add([...e.clipboardData.files]); } });
  const brings = (e) => e.dataTransfer && [...e.dataTransfer.types].includes("Files") && getComputedStyle(composer).display !== "none";
  document.addEventListener("dragover", (e) => { if (brings(e)) { e.preventDefault(); composer.classList.add("over"); } }, { signal });
  document.addEventListener("dragleave", (e) => { if (!e.relatedTarget) composer.classList.remove("over"); }, { signal });
  document.addEventListener("drop", (e) => { if (brings(e)) { e.preventDefault(); composer.classList.remove("over"); add([...e.dataTransfer.files]); field.focus(); } }, { signal });

  // The commands are asked for with the slash, what follows one with each letter. Only
  // what is offered for the line as it is now can be taken: letters may be faster.
  let asked = 0, options = [], chosen = -1, commands = null, offered = "";
  const close = () => { asked++; list.hidden = true; chosen = -1; field.removeAttribute("aria-activedescendant"); };
  const choose = (i) => {
    chosen = i;
    [...list.children].forEach((el, n) => el.setAttribute("aria-selected", n === i));
    if (i < 0) { field.removeAttribute("aria-activedescendant"); return; }
    field.setAttribute("aria-activedescendant", list.children[i].id);
    list.children[i].scrollIntoView({ block: "nearest" });
  };
  const take = (i) => { field.value = options[i].text; close(); field.dispatchEvent(new Event("input", { bubbles: true })); field.focus(); };
  const offer = async () => {
    const line = field.value, command = /^\/(?!\/)[^\n]*$/.test(line), turn = ++asked;
    if (!command && !/(^|\s)@\S*$/.test(line) || field.selectionStart !== line.length) { close(); return; }
    const naming = command && !line.includes(" ");
    let lines = [];
    if (!naming || !commands || line === "/") {
      const got = await fetch(composer.action.replace(/say$/, "commands?line=") + encodeURIComponent(line), { signal }).then((r) => r.ok ? r.json() : null, () => null);
      if (got) ({ commands, lines } = got);
      if (turn !== asked || !got) return;
    }
    offered = line;
    options = naming ? commands.filter((k) => k.name.startsWith(line)).map((k) => ({ text: k.args ? k.name + " " : k.name, name: k.name, args: k.args || "", help: k.help })) : lines.map((text) => ({ text, name: text, args: "", help: "" }));
    if (!options.length || options.length === 1 && options[0].text.trim() === line.trim() && !options[0].args) { close(); return; }
    list.replaceChildren(...options.map((o, i) => {
      const item = document.createElement("li"), name = document.createElement("bdi"), args = document.createElement("span"), help = document.createElement("span");
      item.id = "command-" + i;
      item.setAttribute("role", "option");
      name.textContent = o.name;
      args.textContent = o.args;
      args.className = "args";
      help.textContent = o.help;
      help.className = "quiet";
      item.append(name, args, help);
      item.addEventListener("pointerdown", (e) => { e.preventDefault(); take(i); });
      return item;
    }));
    list.hidden = false;
    choose(naming ? 0 : -1);
  };
  field.addEventListener("input", offer);
  field.addEventListener("blur", close);
  // A key that the list takes is not one of the composer's.
  field.addEventListener("keydown", (e) => {
    if (list.hidden || offered !== field.value || e.isComposing || e.ctrlKey || e.metaKey || e.altKey) return;
    const n = options.length, own = () => { e.preventDefault(); e.stopImmediatePropagation(); };
    switch (e.key) {
      case "ArrowDown": own(); choose((chosen + 1) % n); break;
      case "ArrowUp": own(); choose((Math.max(chosen, 0) - 1 + n) % n); break;
      case "Tab": if (!e.shiftKey) { own(); take(Math.max(chosen, 0)); } break;
      case "Escape": own(); close(); break;
      case "Enter": {
        if (e.shiftKey || chosen < 0) { close(); break; }
        // A command that needs nothing more is sent at once.
        const o = options[chosen], more = o.args && !o.args.startsWith("[");
        if (more || !o.help) { own(); take(chosen); } else { field.value = o.name; close(); }
      }
    }
  });

  return {
    any: () => images.length > 0,
    close,
    // with adds the images to a form, and forget drops them when they are kept.
    with: (body) => { for (const i of images) body.append("image", i.file, i.file.name); return body; },
    forget: () => { images.length = 0; draw(); },
  };
};
