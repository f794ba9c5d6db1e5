// What the pages do beyond htmx: a drawer, names on or off, copying, clocks, keys, and a ballot.
"use strict";
const byId = (id) => document.getElementById(id);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

function inAddress(name, value) {
  const address = new URL(location.href);
  if (value === "") address.searchParams.delete(name); else address.searchParams.set(name, value);
  history.replaceState(history.state, "", address);
}

async function openDrawer(link) {
  await htmx.ajax("GET", link.href, { target: "#drawer-body", swap: "innerHTML" });
  if (!byId("drawer").open) byId("drawer").showModal();
  inAddress("open", new URL(link.href).pathname.split("/").slice(3).join("/"));
}

function say(words) {
  byId("toast").textContent = words;
  setTimeout(() => { byId("toast").textContent = ""; }, 2500);
}

async function copy(link) {
  const text = await (await fetch(link.href)).text();
  if (!navigator.clipboard) { location.href = link.href; return; }
  await navigator.clipboard.writeText(text);
  say("Copied as Markdown");
}

document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  const drawer = event.target.closest("a[data-drawer]");
  const copied = event.target.closest("a[data-copy]");
  if (drawer) { event.preventDefault(); openDrawer(drawer); }
  if (copied) { event.preventDefault(); copy(copied); }
  const move = event.target.closest("button[data-move]");
  if (move) { moveCard(move.closest("li"), move.dataset.move); move.focus(); }
  const code = event.target.closest("button.copy");
  if (code) navigator.clipboard?.writeText(code.nextElementSibling.textContent).then(() => say("Copied"));
  const copies = event.target.closest("button[data-copies]");
  if (copies) {
    const field = byId(copies.dataset.copies);
    field.select();
    navigator.clipboard?.writeText(field.value).then(() => say("Copied"));
  }
  if (event.target.closest("[data-keys]")) byId("keys").showModal();
  if (event.target.closest("[data-whole]")) event.target.closest("#verdict").classList.add("whole");
  const head = event.target.closest("button[data-sort]");
  if (head) sortTable(head.closest("th"));
  for (const dialog of [byId("drawer"), byId("keys")]) if (event.target === dialog) dialog.close();
  for (const open of all("details.confirm[open]")) if (!open.contains(event.target)) open.open = false;
});

document.addEventListener("change", (event) => {
  const column = event.target.dataset.column;
  if (column) showColumn(column, event.target.checked);
  const fills = event.target.dataset.fills;
  if (fills) event.target.form.elements[fills].value = event.target.value;
  const states = event.target.dataset.url;
  if (!states) return;
  const [name, values] = states.split("=");
  inAddress(name, values.split("|")[event.target.checked ? 0 : 1]);
});

document.addEventListener("input", (event) => {
  if (event.target.type === "range") showShares(event.target.closest("fieldset"));
  if (event.target.dataset.filter) filterRows(event.target);
});

// -- clocks and times --------------------------------------------------------------------------

function startClocks() {
  for (const clock of all("[data-elapsed]:not([data-start])")) {
    clock.dataset.start = performance.now() - 1000 * clock.dataset.elapsed;
  }
  const zoned = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  for (const time of all("time[data-local]")) {
    time.title = time.textContent;
    time.textContent = zoned.format(new Date(time.dateTime));
    time.removeAttribute("data-local");
  }
}

setInterval(() => {
  for (const clock of all("[data-start]")) {
    const s = Math.round((performance.now() - clock.dataset.start) / 1000);
    clock.textContent = s < 60 ? `${s} s` : `${Math.floor(s / 60)} min ${s % 60} s`;
  }
}, 1000);

// -- a stream that may break off: the server says every second that it is there ----------------

let lastHeard = 0;
const heard = () => { lastHeard = performance.now(); };
for (const name of ["after:connection", "before:message"]) document.addEventListener(`htmx:sse:${name}`, heard);
document.addEventListener("htmx:sse:before:connection", () => { lastHeard ||= performance.now(); });
document.addEventListener("htmx:sse:error", () => { lastHeard = -1e6; });
document.addEventListener("htmx:sse:close", (event) => { if (event.detail?.reason === "message") lastHeard = 0; });
setInterval(() => {
  const line = byId("connection");
  if (line) line.hidden = !lastHeard || document.hidden || performance.now() - lastHeard < 2500;
}, 250);

// A file that is dropped on its box is the form's file.
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    const box = event.target.closest?.(".dropzone");
    if (!box) return;
    event.preventDefault();
    box.classList.toggle("over", kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files.length) {
      const input = box.querySelector("input[type=file]");
      input.files = event.dataTransfer.files;
      input.form.requestSubmit();
    }
  });
}

// Images that are pasted into the question are files of its form.
document.addEventListener("paste", (event) => {
  const input = event.target.form?.elements.images;
  const images = [...(event.clipboardData?.files || [])].filter((file) => file.type.startsWith("image/"));
  if (!input || !images.length) return;
  event.preventDefault();
  const files = new DataTransfer();
  for (const file of [...input.files, ...images]) files.items.add(file);
  input.files = files.files;
  say(files.files.length === 1 ? "1 image attached" : `${files.files.length} images attached`);
});

// A stream that has ended is aborted by htmx, whose promise nobody waits for.
addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name === "AbortError") event.preventDefault();
});

// -- busy: a thin bar and a word whenever an answer takes longer than 300 ms -------------------

const asking = new Map(); // the requests under way of each element
function busy(element, change) {
  const n = (asking.get(element) || 0) + change;
  if (n > 0) asking.set(element, n);
  else asking.delete(element);
  setTimeout(() => {
    for (const one of asking.keys()) if (!one.isConnected) asking.delete(one); // no answer is told
    byId("busy").hidden = !asking.size;
    byId("main").setAttribute("aria-busy", asking.size > 0);
  }, asking.size ? 300 : 0);
}
const isStream = (event) => event.target.id === "stream";
document.addEventListener("htmx:before:request", (event) => { if (!isStream(event)) busy(event.target, 1); });
for (const name of ["after:request", "error", "after:swap"]) {
  document.addEventListener(`htmx:${name}`, (event) => {
    if (!isStream(event)) busy(event.target, name === "after:swap" ? 0 : -1);
  });
}
document.addEventListener("submit", (event) => { if (!event.defaultPrevented) busy(event.target, 1); });
addEventListener("pageshow", () => { asking.clear(); busy(document.body, 0); });

// -- keys ----------------------------------------------------------------------------------------

function isTyping(target) {
  return target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");
}

function moveInGrid(cell, key) {
  const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  const [down, right] = steps[key];
  const row = cell.parentElement;
  const rows = all("tr", row.parentElement);
  const next = rows[rows.indexOf(row) + down]?.cells[cell.cellIndex + right];
  next?.querySelector("a")?.focus();
}

document.addEventListener("keydown", (event) => {
  const sends = event.key === "Enter" && (event.ctrlKey || event.metaKey);
  if (sends && event.target.form) event.target.form.requestSubmit();
  const item = event.target.closest(".ballot > li");
  const moves = { ArrowUp: "up", ArrowDown: "down", "=": "tie", t: "tie" };
  if (item && event.target === item && event.key in moves) {
    event.preventDefault();
    moveCard(item, moves[event.key]);
    item.focus();
    return;
  }
  const cell = event.target.closest(".votes td");
  if (cell && event.key.startsWith("Arrow")) { event.preventDefault(); moveInGrid(cell, event.key); return; }
  if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (byId("drawer").open || byId("keys").open) return;
  const link = { j: "a[rel=next]", k: "a[rel=prev]", c: "#compare button" }[event.key];
  if (link) document.querySelector(link)?.click();
  if (event.key === "?") byId("keys").showModal();
  if (/^[1-9]$/.test(event.key)) chooseAnswer(Number(event.key) - 1);
});

function chooseAnswer(at) {
  const link = all("a[data-answer]")[at];
  if (link) { link.click(); return; }
  const card = all("#answers .card")[at];
  const box = card?.querySelector(".pick input");
  if (!box) return;
  box.checked = !box.checked;
  card.scrollIntoView({ block: "nearest" });
  say(`${all(".pick :checked").length} chosen; press c to compare`);
}

// -- answers side by side: the columns scroll together ------------------------------------------

let leader = null;
addEventListener("scroll", (event) => {
  const column = event.target;
  if (!column.classList?.contains("sidetext") || (leader && leader !== column)) return;
  leader = column;
  const part = column.scrollTop / Math.max(1, column.scrollHeight - column.clientHeight);
  for (const other of all(".sidetext")) {
    if (other !== column) other.scrollTop = part * (other.scrollHeight - other.clientHeight);
  }
  clearTimeout(column.timer);
  column.timer = setTimeout(() => { leader = null; }, 120);
}, true);

// -- boards: sort, search, columns, shares of weights --------------------------------------------

const keptColumns = () => JSON.parse(localStorage.getItem("columns") || "{}");

function showColumn(name, shown) {
  localStorage.setItem("columns", JSON.stringify({ ...keptColumns(), [name]: shown }));
  applyColumns();
}

function applyColumns() {
  const kept = keptColumns();
  for (const box of all("[data-column]")) {
    if (box.dataset.column in kept) box.checked = kept[box.dataset.column];
    for (const cell of all(`[data-col="${box.dataset.column}"]`)) cell.hidden = !box.checked;
  }
}

function sortTable(head) {
  const table = head.closest("table");
  const descending = head.getAttribute("aria-sort") !== "descending";
  for (const other of all("th[aria-sort]", table)) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const value = (row) => {
    const cell = row.cells[head.cellIndex];
    const text = (cell?.dataset.value ?? cell?.textContent ?? "").trim().replace(/(\d),(?=\d{3})/g, "$1");
    return text === "" || text === "–" ? null : Number.isNaN(Number(text)) ? text : Number(text);
  };
  const order = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    return (descending ? -1 : 1) * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)));
  };
  const body = table.tBodies[0];
  body.append(...all("tr[data-row]", body).sort(order));
  table.classList.add("sorted");
}

function filterRows(input) {
  const words = input.value.trim().toLowerCase();
  let n = 0;
  for (const row of all(`${input.dataset.filter} tr[data-row]`)) {
    row.hidden = words !== "" && !row.querySelector("th").textContent.toLowerCase().includes(words);
    n += !row.hidden;
  }
  inAddress("search", input.value.trim());
  const none = byId("nomatch");
  if (none) none.hidden = n > 0;
}

function showShares(box) {
  const sliders = all("input[type=range]", box);
  const sum = sliders.reduce((total, one) => total + Number(one.value), 0);
  for (const one of sliders) one.nextElementSibling.textContent = sum ? Math.round(100 * one.value / sum) : 0;
}

// -- a ballot that a person orders: the places follow from the order and the ties ---------------

function moveCard(item, how) {
  const list = item.parentElement;
  const [before, after] = [item.previousElementSibling, item.nextElementSibling];
  if (how === "up" && before) list.insertBefore(item, before);
  if (how === "down" && after) list.insertBefore(after, item);
  if (how === "tie") item.toggleAttribute("data-tied");
  number(list);
}

function number(list) {
  let place = 0;
  [...list.children].forEach((item, i) => {
    const tied = i > 0 && item.hasAttribute("data-tied");
    if (i === 0) item.removeAttribute("data-tied");
    if (!tied) place = i + 1;
    item.querySelector(".place").textContent = place;
    item.querySelector("input").value = place;
    item.querySelector("[data-move=tie]").setAttribute("aria-pressed", tied);
  });
}

// -- what is done to every part that arrives ------------------------------------------------------

function dress() {
  startClocks();
  applyColumns();
  const search = document.querySelector("[data-filter]");
  if (search?.value) filterRows(search);
  for (const text of all(".text.live, .prose.live")) text.scrollTop = text.scrollHeight;
  for (const code of all(".prose pre:not(.raw), .sidetext pre")) {
    if (code.parentElement.classList.contains("code")) continue;
    const box = document.createElement("div");
    box.className = "code";
    const button = Object.assign(document.createElement("button"), { type: "button", className: "copy", textContent: "Copy" });
    code.replaceWith(box);
    box.append(button, code);
  }
}

document.addEventListener("htmx:after:swap", dress);
document.addEventListener("DOMContentLoaded", () => {
  dress();
  const drawer = byId("drawer");
  drawer.addEventListener("close", () => inAddress("open", ""));
  if (drawer.open) { drawer.open = false; drawer.showModal(); }
  for (const list of document.querySelectorAll(".ballot")) {
    number(list);
    new Sortable(list, { handle: ".handle", forceFallback: true, onEnd: () => number(list) });
  }
});
