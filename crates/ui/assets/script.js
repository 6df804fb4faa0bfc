// Live pages: the server says that something has changed, and the page is fetched again. All text is set by the browser's own
// parser from HTML that the server has escaped; nothing in here builds HTML from values.
"use strict";

(() => {
  const connection = document.getElementById("connection");
  const isLive = document.body.dataset.live === "true";

  // Keeps what the person has opened, typed or focused while the content is replaced.
  function replace(next) {
    const main = document.getElementById("main");
    if (next.innerHTML === main.innerHTML) return;
    const open = new Map([...main.querySelectorAll("details[id]")].map((part) => [part.id, part.open]));
    const focused = document.activeElement;
    const isTyping = focused && main.contains(focused) && focused.matches("input, select, textarea");
    if (isTyping) return;
    const link = focused && main.contains(focused) ? focused.getAttribute("href") : null;
    main.replaceChildren(...next.childNodes);
    for (const part of main.querySelectorAll("details[id]")) {
      if (open.has(part.id)) part.open = open.get(part.id);
    }
    if (link) [...main.querySelectorAll("a[href]")].find((a) => a.getAttribute("href") === link)?.focus();
  }

  let isLoading = false;
  let isStale = false;
  async function reload() {
    if (isLoading) { isStale = true; return; }
    isLoading = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-store" });
      if (answer.status === 401) { location.reload(); return; }
      const next = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
      if (next) replace(next);
    } catch {
      connection.textContent = "connection lost";
    } finally {
      isLoading = false;
      if (isStale) { isStale = false; reload(); }
    }
  }

  if (isLive) {
    // A tab that nobody sees has no stream: browsers open only six connections to a server, for all tabs together.
    let source = null;
    function listen() {
      if (document.hidden) {
        source?.close();
        source = null;
      } else if (!source) {
        source = new EventSource("/live");
        source.addEventListener("changed", reload);
        source.addEventListener("open", () => { connection.textContent = "live"; reload(); });
        source.addEventListener("error", () => { connection.textContent = "connection lost"; });
      }
    }
    document.addEventListener("visibilitychange", listen);
    listen();
    // Ages grow although nothing changes.
    setInterval(() => { if (!document.hidden) reload(); }, 30000);
  }

  // "/" goes to the filter, as in many tools.
  document.addEventListener("keydown", (event) => {
    const isText = event.target instanceof Element && event.target.matches("input, select, textarea");
    if (event.key !== "/" || isText || event.ctrlKey || event.metaKey || event.altKey) return;
    const filter = document.querySelector("[data-filter]");
    if (filter) { event.preventDefault(); filter.focus(); }
  });

  // Files dropped on the text of a plan preview become its content.
  const drop = document.querySelector("[data-drop]");
  if (drop) {
    drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
    drop.addEventListener("dragleave", () => drop.classList.remove("over"));
    drop.addEventListener("drop", async (event) => {
      event.preventDefault();
      drop.classList.remove("over");
      const texts = await Promise.all([...event.dataTransfer.files].map((file) => file.text()));
      if (texts.length > 0) drop.value = texts.join("\n---\n");
    });
  }
})();
