"use strict";
// Decrypts the copy of a session with the key in the address and shows it in a frame
// in which nothing runs. The server gets neither the key nor what is decrypted.
(() => {
	const maxPage = 128 << 20;
	const by = (id) => document.getElementById(id);

	// Told is an error whose text is for the reader.
	class Told extends Error {}

	const bytes = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

	function keyFrom(text) {
		const key = text.slice(text.lastIndexOf("#") + 1).trim();
		if (!/^[A-Za-z0-9_-]{43}$/.test(key)) return null;
		return bytes(key.replaceAll("-", "+").replaceAll("_", "/") + "=");
	}

	async function sealed() {
		const here = by("sealed");
		if (here) return bytes(here.textContent);
		let answer;
		try {
			answer = await fetch(location.pathname + "/sealed", { credentials: "omit", cache: "no-store" });
		} catch {
			throw new Told("The server cannot be reached. Load the page again later.");
		}
		if (answer.status === 404 || answer.status === 410) throw new Told("This link has expired or was revoked.");
		if (!answer.ok) throw new Told("The server does not send the copy now. Load the page again later.");
		return new Uint8Array(await answer.arrayBuffer());
	}

	async function decrypt(copy, secret) {
		if (copy.length < 30 || copy[0] !== 1) throw new Told("This copy was made by another version, or is damaged.");
		const key = await crypto.subtle.importKey("raw", secret, "AES-GCM", false, ["decrypt"]);
		const how = { name: "AES-GCM", iv: copy.subarray(1, 13), additionalData: new TextEncoder().encode("tidemark link 1") };
		let packed;
		try {
			packed = await crypto.subtle.decrypt(how, key, copy.subarray(13));
		} catch {
			throw new Told("The key does not fit this copy. Ask for the whole link, with everything after the #.");
		}
		return unpack(packed);
	}

	async function unpack(packed) {
		const reader = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
		const text = new TextDecoder();
		let page = "", size = 0;
		for (;;) {
			const { done, value } = await reader.read();
			if (done) return page + text.decode();
			if ((size += value.length) > maxPage) throw new Told("This copy is too large to be shown.");
			page += text.decode(value, { stream: true });
		}
	}

	function say(text) {
		by("says").textContent = text;
		by("says").hidden = text === "";
	}

	// A frame is printed as far as it is seen, and nothing out here may ask it how long it
	// is. So what it shows is printed as a part of this page, which it is for no longer than
	// that: the policy lets nothing in it run or ask for anything, and whatever else could
	// do something is left out.
	const printed = new Set(("html head body title style main header footer nav section article div p h1 h2 h3 h4 h5 h6 a abbr b bdi bdo blockquote br code dd del " +
		"details dl dt em figcaption figure hr i img ins kbd li mark ol pre q s samp small span strong sub summary sup table tbody td tfoot th thead time tr u ul var wbr").split(" "));
	let shown = "", copied = [];

	addEventListener("beforeprint", () => {
		if (shown === "" || copied.length > 0) return;
		const copy = new DOMParser().parseFromString(shown.replace('<base href="about:srcdoc">', ""), "text/html");
		for (const e of copy.querySelectorAll("*")) if (!printed.has(e.localName)) e.remove();
		document.querySelector("style").disabled = true;
		for (const e of document.body.children) e.style.setProperty("display", "none", "important");
		copied = [...copy.querySelectorAll("head > style"), ...copy.body.childNodes];
		document.body.append(...copied);
	});

	addEventListener("afterprint", () => {
		for (const e of copied) e.remove();
		copied = [];
		for (const e of document.body.children) e.style.removeProperty("display");
		document.querySelector("style").disabled = false;
	});

	async function open(secret) {
		try {
			if (!globalThis.crypto?.subtle) throw new Told("Browsers decrypt only what comes over https. Ask for a link that begins with https.");
			if (typeof DecompressionStream === "undefined") throw new Told("This browser is too old to open the copy.");
			if (!secret) throw new Told("The key is missing: the part of the link after the #. Ask for the whole link, or enter the key.");
			say("Opening the session…");
			by("ask").hidden = true;
			const page = await decrypt(await sealed(), secret);
			const frame = by("session");
			frame.srcdoc = shown = page;
			frame.hidden = false;
			say("");
		} catch (err) {
			say(err instanceof Told ? err.message : "This copy cannot be opened: it is damaged.");
			by("ask").hidden = !globalThis.crypto?.subtle;
		}
	}

	by("ask").addEventListener("submit", (event) => {
		event.preventDefault();
		open(keyFrom(by("key").value));
	});
	addEventListener("hashchange", () => location.reload());
	open(keyFrom(location.hash));
})();
