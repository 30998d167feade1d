"use strict";
(() => {
  const root = document.documentElement, main = document.getElementById("transcript");
  root.classList.add("js");
  if (!main) return;
  const one = (id) => document.getElementById(id);
  const tree = one("tree"), find = one("find"), toggle = one("toggle-tree"), help = one("help");
  const ENTRY_HEIGHT = 90, ROW_HEIGHT = 28, LOADED_AT_ONCE_MAX = 5000, EVERY_MS = 2000;

  /* Parts. A part that was not shown yet is text in a noscript element, or has an address of the server. */
  const height = (part) => part.classList.contains("rows") ? ROW_HEIGHT
    : one("f-prompts").checked || one("f-labelled").checked ? 0 : ENTRY_HEIGHT;
  const waiting = () => [...document.querySelectorAll("[data-more]")];
  const reserve = () => waiting().forEach((part) => { part.style.minHeight = `${1 + part.dataset.count * height(part)}px`; });
  const near = new IntersectionObserver((seen) => seen.forEach((each) => each.isIntersecting && load(each.target)), { rootMargin: "1200px" });

  async function load(part) {
    const from = part.dataset.more;
    if (!from) return;
    delete part.dataset.more;
    near.unobserve(part);
    let html = null;
    if (from === "inline") html = part.firstElementChild.textContent;
    else try {
      const answer = await fetch(from);
      if (answer.ok) html = await answer.text();
    } catch { /* the server ended */ }
    if (html === null) { part.dataset.more = from; return; }
    part.innerHTML = html;
    part.style.minHeight = "";
    if (part.classList.contains("rows")) filterRows(part);
  }

  reserve();
  waiting().forEach((part) => near.observe(part));
  document.querySelectorAll("[name=filter]").forEach((each) => each.addEventListener("change", reserve));
  const total = waiting().reduce((sum, part) => sum + +part.dataset.count, 0);
  if (total <= LOADED_AT_ONCE_MAX) {  // so that the search of the browser finds all entries
    const idle = window.requestIdleCallback || ((then) => setTimeout(then, 50));
    const next = () => { const [part] = waiting(); if (part) load(part).then(() => part.dataset.more || idle(next)); };
    idle(next);
  }

  /* Links to entries. */
  let current = null;
  function select(entry, { scrolls = true } = {}) {
    current?.classList.remove("current");
    tree.querySelector("li.current")?.classList.remove("current");
    current = entry;
    if (!entry) return;
    entry.classList.add("current");
    if (scrolls) entry.scrollIntoView({ block: entry.offsetHeight > innerHeight / 2 ? "start" : "center" });
    const row = tree.querySelector(`a[href="#${entry.id}"]`)?.parentElement;
    row?.classList.add("current");
    if (row && tree.offsetParent) row.scrollIntoView({ block: "nearest" });
  }
  const named = (id) => one(id) || document.querySelector(`.entry[id^="${id}"]`);
  async function show(hash) {
    const id = hash.slice(1);
    if (!/^e-[0-9a-f]{4,40}$/.test(id)) return;
    const short = id.slice(0, 14);
    if (!named(short)) {
      let part = waiting().find((each) => each.dataset.more === "inline" && each.classList.contains("entries")
        && each.firstElementChild.textContent.includes(`id="${short}`));
      if (!part && main.dataset.where) {
        const answer = await fetch(`${main.dataset.where}?entry=${short.slice(2)}`);
        if (answer.ok) part = document.querySelector(`[data-more*="/part/${await answer.text()}/"]`);
        if (answer.ok && !part) { location.search = `?entry=${short.slice(2)}`; return; }  // only the newest are shown
      }
      if (part) await load(part);
    }
    const entry = named(short);
    if (!entry) return;
    if (getComputedStyle(entry).display === "none") { one("f-all").checked = true; reserve(); }
    select(entry);
    requestAnimationFrame(() => select(entry));  // after the sizes of the entries above are known
  }
  addEventListener("hashchange", () => show(location.hash));
  if (location.hash) show(location.hash);

  /* The branch tree. */
  function filterRows(within) {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    within.querySelectorAll("li").forEach((row) => {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      row.style.display = row.hidden ? "none" : "";
    });
  }
  find.addEventListener("input", async () => {
    await Promise.all(waiting().filter((part) => part.classList.contains("rows")).map(load));
    filterRows(tree);
  });
  tree.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (link && link.hash === location.hash) show(link.hash);
    if (link && matchMedia("(max-width: 60rem)").matches) toggle.checked = false;
  });

  /* The keyboard. */
  const isShown = (entry) => entry.classList?.contains("entry") && getComputedStyle(entry).display !== "none";
  async function beside(entry, forward) {
    const parts = [...main.querySelectorAll(".part.entries")];
    let part = entry ? entry.closest(".part") : parts[forward ? 0 : parts.length - 1];
    let found = entry;
    while (part) {
      await load(part);
      found = found ? (forward ? found.nextElementSibling : found.previousElementSibling)
        : (forward ? part.firstElementChild : part.lastElementChild);
      if (!found) part = parts[parts.indexOf(part) + (forward ? 1 : -1)];
      else if (isShown(found)) return found;
    }
    return null;
  }
  function onScreen() {
    const entries = document.elementsFromPoint(main.getBoundingClientRect().left + 60, 90);
    return entries.map((each) => each.closest(".entry")).find(Boolean) || null;
  }
  async function move(forward) {
    const box = current?.getBoundingClientRect();
    const from = box && (!isShown(current) || (box.bottom > 0 && box.top < innerHeight)) ? current : onScreen();
    const entry = from && !current && isShown(from) && scrollY > 0 ? from : await beside(from, forward);
    if (!entry) return;
    select(entry);
    history.replaceState(null, "", `#${entry.id}`);
  }
  const filters = ["f-all", "f-no-tools", "f-prompts", "f-labelled"];
  const keys = {
    j: () => move(true),
    k: () => move(false),
    g: async () => select(await beside(null, true)),
    G: async () => select(await beside(null, false)),
    t: () => { toggle.checked = !toggle.checked; },
    "/": () => { if (!tree.offsetParent) toggle.checked = !toggle.checked; find.focus(); },
    "?": () => help.showModal(),
  };
  filters.forEach((id, at) => { keys[at + 1] = () => { one(id).checked = true; reserve(); }; });
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.matches("input[type=search], select, textarea")) {
      if (event.key === "Escape") { event.target.value = ""; event.target.dispatchEvent(new Event("input")); event.target.blur(); }
      return;
    }
    const act = Object.hasOwn(keys, event.key) && keys[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  one("show-help").addEventListener("click", () => help.showModal());

  /* New entries, while an agent works. */
  if (main.dataset.live) {
    const update = async () => {
      try {
        const answer = await fetch(`${main.dataset.live}?tips=${main.dataset.tips}`);
        if (answer.status === 200) append(await answer.json());
      } catch { /* the server ended, or is busy */ }
      setTimeout(update, EVERY_MS);
    };
    setTimeout(update, EVERY_MS);
  }
  function append(news) {
    const follows = innerHeight + scrollY >= root.scrollHeight - 200;
    for (const each of news.sections) {
      let section = main.querySelector(`section[data-tip="${each.after}"]`);
      if (!section) {
        section = document.createElement("section");
        section.append(Object.assign(document.createElement("h2"), { textContent: `Branch ${each.name}` }));
        main.insertBefore(section, main.querySelector("footer"));
      }
      section.dataset.tip = each.tip;
      const part = document.createElement("div");
      part.className = "part entries";
      part.innerHTML = each.html;
      section.append(part);
      const rows = document.createElement("div");
      rows.className = "part rows";
      rows.innerHTML = each.rows;
      tree.append(rows);
      filterRows(rows);
    }
    main.dataset.tips = news.tips;
    if (follows) scrollTo(0, root.scrollHeight);
  }
})();
