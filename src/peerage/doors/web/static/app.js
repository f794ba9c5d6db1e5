// What the pages do beyond htmx: a drawer, names on or off, copying, sliders, and a ballot to order.
"use strict";
const byId = (id) => document.getElementById(id);

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

async function copy(link) {
  const text = await (await fetch(link.href)).text();
  if (!navigator.clipboard) { location.href = link.href; return; }
  await navigator.clipboard.writeText(text);
  byId("toast").textContent = "Copied as Markdown";
  setTimeout(() => { byId("toast").textContent = ""; }, 2500);
}

document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  const drawer = event.target.closest("a[data-drawer]");
  const copied = event.target.closest("a[data-copy]");
  if (drawer) { event.preventDefault(); openDrawer(drawer); }
  if (copied) { event.preventDefault(); copy(copied); }
  const move = event.target.closest("button[data-move]");
  if (move) { moveCard(move.closest("li"), move.dataset.move); move.focus(); }
  if (event.target === byId("drawer")) byId("drawer").close();
});

document.addEventListener("change", (event) => {
  const fills = event.target.dataset.fills;
  if (fills) event.target.form.elements[fills].value = event.target.value;
  const states = event.target.dataset.url;
  if (!states) return;
  const [name, values] = states.split("=");
  inAddress(name, values.split("|")[event.target.checked ? 0 : 1]);
});

document.addEventListener("input", (event) => {
  const shown = event.target.type === "range" && event.target.nextElementSibling;
  if (shown) shown.textContent = event.target.value;
});

document.addEventListener("keydown", (event) => {
  const sends = event.key === "Enter" && (event.ctrlKey || event.metaKey);
  if (sends && event.target.form) event.target.form.requestSubmit();
  const item = event.target.closest(".ballot > li");
  if (!item || event.target !== item) return;
  const moves = { ArrowUp: "up", ArrowDown: "down", "=": "tie", t: "tie" };
  if (event.key in moves) { event.preventDefault(); moveCard(item, moves[event.key]); item.focus(); }
});

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

// A stream that has ended is aborted by htmx, whose promise nobody waits for.
addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name === "AbortError") event.preventDefault();
});

// Text that is still coming in stays scrolled to its end.
document.addEventListener("htmx:after:swap", () => {
  for (const text of document.querySelectorAll(".text.live")) text.scrollTop = text.scrollHeight;
});

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

document.addEventListener("DOMContentLoaded", () => {
  const drawer = byId("drawer");
  drawer.addEventListener("close", () => inAddress("open", ""));
  if (byId("drawer-body").childElementCount) drawer.showModal();
  for (const list of document.querySelectorAll(".ballot")) {
    number(list);
    new Sortable(list, { handle: ".handle", forceFallback: true, onEnd: () => number(list) });
  }
});
