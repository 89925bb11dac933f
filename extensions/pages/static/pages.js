// Keeps an open page to its workflow. Without it every page is a whole snapshot.
"use strict";

const live = document.documentElement.dataset.changes;
const said = document.getElementById("said");
let source = null;
let wait = 1000;
let timer = 0;
let busy = false;
let again = false;

function say(text) {
  if (said && said.textContent !== text) said.textContent = text;
}

// Only a page that is seen holds a connection: a browser has six of them for each server.
function connect() {
  clearTimeout(timer);
  if (!live || source || document.hidden) return;
  source = new EventSource(live);
  source.addEventListener("open", () => { wait = 1000; say("live"); });
  source.addEventListener("change", refresh);
  source.addEventListener("error", lost);
}

function lost() {
  say("looking for the server");
  if (source && source.readyState !== EventSource.CLOSED) return;
  leave();
  timer = setTimeout(connect, wait);
  wait = Math.min(wait * 2, 30000);
}

function leave() {
  clearTimeout(timer);
  if (source) source.close();
  source = null;
}

async function refresh() {
  if (busy) { again = true; return; }
  busy = true;
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (answer.ok) replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch {
    // The server is away; the next change that it tells of brings the page up to date.
  }
  setTimeout(() => { busy = false; if (again) { again = false; refresh(); } }, 200);
}

// Takes over each part that differs; what somebody opened, and where the focus is, stays.
function replace(fresh) {
  document.title = fresh.title;
  const focused = document.activeElement;
  const near = focused && focused.closest("[id]");
  for (const part of document.querySelectorAll("[data-live]")) {
    const other = fresh.getElementById(part.id);
    if (!other || other.innerHTML === part.dataset.was) continue;
    // Who selects a text reads it: it is replaced by the next change.
    const chosen = getSelection();
    if (chosen && !chosen.isCollapsed && part.contains(chosen.anchorNode)) continue;
    part.dataset.was = other.innerHTML;
    const places = scrolled(part);
    const open = new Set([...part.querySelectorAll("details[open][id]")].map((one) => one.id));
    part.replaceChildren(...other.childNodes);
    for (const id of open) {
      const one = document.getElementById(id);
      if (one) one.open = true;
    }
    for (const [id, place] of places) {
      const one = part.querySelector(`[data-scroll="${id}"]`);
      if (one) { one.scrollTop = place.top; one.scrollLeft = place.left; one.dataset.seen = "yes"; }
    }
  }
  dress();
  if (near && !focused.isConnected) refocus(focused, near);
}

// Gives the focus to what took the place of the element that had it: within the nearest element with
// an id, the same element, or the only one of its kind.
function refocus(focused, near) {
  const now = document.getElementById(near.id);
  if (!now) return;
  const same = [...now.querySelectorAll(focused.localName)];
  const one = focused === near ? now
    : same.find((other) => other.isEqualNode(focused)) || (same.length === 1 ? same[0] : null);
  if (one) one.focus({ preventScroll: true });
}

// Where somebody scrolled to, of each part that scrolls: its end is left to follow what comes.
function scrolled(part) {
  const places = new Map();
  for (const one of part.querySelectorAll("[data-scroll]")) {
    const atEnd = one.scrollTop + one.clientHeight >= one.scrollHeight - 4;
    if (!atEnd || one.scrollLeft) {
      places.set(one.dataset.scroll, { top: one.scrollTop, left: one.scrollLeft });
    }
  }
  return places;
}

function dress() {
  for (const code of document.querySelectorAll("code.command:not([data-dressed])")) {
    code.dataset.dressed = "yes";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy the command " + code.textContent);
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    code.after(button);
  }
  for (const one of document.querySelectorAll("pre.tail:not([data-seen])")) {
    one.dataset.seen = "yes";
    one.scrollTop = one.scrollHeight;
  }
  age();
}

function age() {
  for (const one of document.querySelectorAll("time[data-since]")) {
    const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(one.dataset.since)) / 1000));
    if (Number.isNaN(seconds)) continue;
    const minutes = Math.floor(seconds / 60);
    const hours = Math.floor(minutes / 60);
    const days = Math.floor(hours / 24);
    const told = days ? `${days} d ${hours % 24} h` : hours ? `${hours} h ${minutes % 60} min`
      : minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
    one.textContent = told + (one.dataset.behind || "");
  }
}

const slider = document.getElementById("slider");
if (slider) {
  const shown = document.getElementById("at");
  slider.addEventListener("input", () => { shown.value = slider.value; });
  slider.addEventListener("change", () => { slider.form.requestSubmit(); });
}
document.addEventListener("visibilitychange", () => {
  if (document.hidden) { leave(); } else if (live) { refresh(); connect(); }
});
addEventListener("pagehide", leave);
addEventListener("pageshow", connect);
setInterval(age, 1000);
for (const part of document.querySelectorAll("[data-live]")) part.dataset.was = part.innerHTML;
dress();
if (live) say("looking for the server");
connect();
