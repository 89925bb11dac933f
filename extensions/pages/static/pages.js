// Updates an open page when its workflow changes. Without this script, a page shows the state at the
// time of loading.
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

// Opens the connection for changes, but only for a visible page, because a browser allows only six
// connections to a server.
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
    // The server does not answer. The next change that it reports updates the page.
  }
  setTimeout(() => { busy = false; if (again) { again = false; refresh(); } }, 200);
}

// Replaces each part of the page that has changed. Opened details, scroll positions and the focus stay
// as they are.
function replace(fresh) {
  document.title = fresh.title;
  const focused = document.activeElement;
  const near = focused && focused.closest("[id]");
  for (const part of document.querySelectorAll("[data-live]")) {
    const other = fresh.getElementById(part.id);
    if (!other || other.innerHTML === part.dataset.was) continue;
    // The user is reading a part with selected text, so the next change replaces it instead.
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

// Moves the focus to the new element that replaced the focused element. It is searched in the nearest
// parent with an id: an equal element, or the only element with the same tag name.
function refocus(focused, near) {
  const now = document.getElementById(near.id);
  if (!now) return;
  const same = [...now.querySelectorAll(focused.localName)];
  const one = focused === near ? now
    : same.find((other) => other.isEqualNode(focused)) || (same.length === 1 ? same[0] : null);
  if (one) one.focus({ preventScroll: true });
}

// Returns the position of each part that the user scrolled. Parts that show their end are omitted, so
// that they also show the end of new output.
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
