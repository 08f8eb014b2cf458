"use strict";
// Keys, charts, the graph and the map. Everything else is a plain page.

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const data = (element) => JSON.parse(element.querySelector("script[type='application/json']").textContent);
const drawn = new Map(); // element → how to draw it anew

// -- keys ---------------------------------------------------------------------------------------------------------

const hits = () => [...document.querySelectorAll(".hit")].filter((hit) => hit.checkVisibility?.() ?? true); // the nearest may be folded away
const looking = () => document.querySelector("#looking .spinner, #hits.htmx-request"); // classes come a moment after what is in it
let marked = null; // address of the marked hit; "" for the first of those that are looked for

function mark(chosen) {
  hits().forEach((hit) => hit.classList.toggle("on", hit === chosen));
  marked = chosen.dataset.href;
  chosen.querySelector("a").focus({ preventScroll: true });
  chosen.scrollIntoView({ block: "nearest" });
}

function move(step) {
  const all = hits();
  const at = all.findIndex((hit) => hit.classList.contains("on"));
  if (at < 0 && looking()) marked = ""; // old hits are still shown
  else if (all.length) mark(all[Math.max(0, Math.min(all.length - 1, at + step))]);
}

// Whoever goes back to typing has no hit marked; otherwise it stays marked when the list is made anew.
document.addEventListener("focusin", (event) => {
  if (!event.target.closest("input, textarea, select")) return;
  marked = null;
  hits().forEach((hit) => hit.classList.remove("on"));
});

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "k") { event.preventDefault(); palette(); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const field = event.target.closest("input, textarea, select");
  if (event.key === "Escape" && field) { event.preventDefault(); field.blur(); } // a browser would empty a search field
  if (field) {
    if (field.id === "q" && event.key === "ArrowDown") { event.preventDefault(); move(1); }
    return;
  }
  const answer = document.querySelector(`.question [data-key="${CSS.escape(event.key)}"]`);
  if (answer) answer.click();
  else if (event.key === "n") location.href = "/new";
  else if (event.key === "?") location.href = "/help";
  else if (event.key === "e" && document.getElementById("editing")) { event.preventDefault(); document.getElementById("editing").click(); }
  else if (event.key === "a") document.querySelector(".selection button")?.focus(); // Tab would lead through all of a long list first
  else if (event.key === "u") document.querySelector(".said form button")?.click();
  else if (event.key === "m") document.querySelector(".rail nav [aria-current], .rail nav a")?.focus(); // a list that goes on has no end to Tab to
  else if (event.key === "x") {
    const pick = document.querySelector(".hit.on .pick");
    if (pick) { pick.checked = !pick.checked; count(); }
  } else if (event.key === "/") {
    event.preventDefault();
    const ask = document.getElementById("q");
    if (ask) { ask.focus(); ask.select(); } else location.href = "/";
  } else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "Enter" && event.target === document.body) {
    const on = document.querySelector(".hit.on");
    if (on) location.href = on.dataset.href;
  }
});

// -- Ctrl+K: a page by a part of its name, or else a search ------------------------------------------------------------

function palette() {
  const box = document.getElementById("palette");
  if (!box || box.open) return;
  box.showModal();
  box.querySelector("input").value = "";
  narrow(box);
}

function narrow(box) {
  const wanted = box.querySelector("input").value.trim().toLowerCase();
  const places = [...box.querySelectorAll("li")];
  places.forEach((one) => { one.hidden = !one.textContent.toLowerCase().split(" ").some((word) => word.startsWith(wanted)) && !one.textContent.toLowerCase().startsWith(wanted); });
  choosePlace(box, wanted ? places.find((one) => !one.hidden) : null);
}

function choosePlace(box, chosen) {
  box.querySelectorAll("li").forEach((one) => one.setAttribute("aria-selected", one === chosen));
  const field = box.querySelector("input");
  if (chosen) { field.setAttribute("aria-activedescendant", chosen.id); chosen.scrollIntoView({ block: "nearest" }); } else field.removeAttribute("aria-activedescendant");
}

document.addEventListener("input", (event) => { if (event.target.id === "wanted") narrow(event.target.closest("dialog")); });
document.addEventListener("keydown", (event) => {
  const box = event.target.closest("dialog.palette");
  if (!box) return;
  const open = [...box.querySelectorAll("li:not([hidden])")];
  const at = open.findIndex((one) => one.getAttribute("aria-selected") === "true");
  if (event.key === "Enter" && at >= 0) { event.preventDefault(); location.href = open[at].dataset.href; }
  else if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); choosePlace(box, open[Math.max(0, Math.min(open.length - 1, at + (event.key === "ArrowDown" ? 1 : -1)))]); }
});
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-palette]")) palette();
  else if (event.target.matches("dialog.palette")) event.target.close();
  else if (event.target.closest("dialog.palette li")) location.href = event.target.closest("li").dataset.href;
  document.querySelectorAll("details.menu[open]").forEach((one) => { if (!one.contains(event.target)) one.open = false; });
});

// -- selecting, and coming back ------------------------------------------------------------------------------------

function count() {
  const output = document.getElementById("selected");
  if (output) output.textContent = `${document.querySelectorAll(".pick:checked").length} selected`;
}

document.addEventListener("change", (event) => { if (event.target.matches(".pick")) count(); });
document.addEventListener("reset", () => setTimeout(count));

// An address says what was asked for, not what was left empty.
document.addEventListener("htmx:configRequest", (event) => {
  const given = event.detail.formData;
  if (event.detail.verb !== "get" || !given) return;
  for (const name of [...given.keys()]) if (!given.getAll(name).some(Boolean)) given.delete(name);
});

// Whoever comes back finds as many pages of the list as there were, at the same place, and the same hit marked.
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.target?.id !== "more" || !event.detail.successful || !event.detail.xhr.responseText.includes('class="hit"')) return;
  const address = new URL(location.href);
  address.searchParams.set("pages", Number(address.searchParams.get("pages") || 1) + 1);
  history.replaceState(history.state, "", address);
});

const place = () => `place ${location.pathname}${location.search}`;
window.addEventListener("pagehide", () => {
  if (document.getElementById("hits")) sessionStorage.setItem(place(), JSON.stringify([scrollY, marked]));
});
document.addEventListener("click", (event) => {
  const hit = event.target.closest(".hit");
  if (hit && event.target.closest("a.content")) marked = hit.dataset.href;
});

function comeBack() {
  const kept = sessionStorage.getItem(place());
  if (!kept || performance.getEntriesByType("navigation")[0]?.type !== "back_forward" || looking()) return;
  sessionStorage.removeItem(place());
  const [top, opened] = JSON.parse(kept);
  const hit = hits().find((one) => one.dataset.href === opened);
  if (hit) mark(hit);
  scrollTo(0, top);
}
document.addEventListener("DOMContentLoaded", comeBack);
document.addEventListener("DOMContentLoaded", () => { // on a phone its keyboard would cover half of the list
  const field = document.getElementById("q");
  if (field && !field.value && document.activeElement === document.body && !document.querySelector(".said") && matchMedia("(hover: hover)").matches) field.focus({ preventScroll: true });
});
document.addEventListener("htmx:afterSettle", comeBack);
document.addEventListener("DOMContentLoaded", () => document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" })); // on a phone tabs may go on beside the screen

// A search that gives way to the next one, as more is typed, has not failed: htmx asks its logger before it tells of an error.
const givenUp = new WeakSet(); // requests
document.addEventListener("htmx:beforeSend", ({ detail: { xhr } }) => { xhr.abort = () => { givenUp.add(xhr); XMLHttpRequest.prototype.abort.call(xhr); }; });
htmx.logger = (_, __, detail) => { if (givenUp.has(detail.xhr)) delete detail.error; };

// -- a marked sentence of a conversation becomes a memory ----------------------------------------------------------------

let sentence = { turn: null, text: "" }; // what is marked, and in which turn; a click takes the marking away
document.addEventListener("selectionchange", () => {
  const [marking, text] = [getSelection(), getSelection().toString().trim()];
  const turn = text && marking.anchorNode?.parentElement?.closest(".turn");
  if (turn && turn.contains(marking.focusNode)) sentence = { turn, text };
});
document.addEventListener("pointerdown", (event) => { if (!event.target.closest(".remember")) sentence = { turn: null, text: "" }; });
document.addEventListener("click", (event) => {
  const link = event.target.closest("a.remember");
  if (!link || sentence.turn !== link.closest(".turn")) return;
  const address = new URL(link.href);
  address.searchParams.set("content", sentence.text.slice(0, 2000));
  link.href = address;
});

// -- drafts: what is typed stays in this browser until it is saved or discarded ------------------------------------

const FIELDS = "textarea, input:not([type=hidden], [type=checkbox]), select";
const key = (form) => `pgengram draft ${form.dataset.draft}`;
const shown = (form) => JSON.parse(form.elements.before?.value ?? "{}"); // what a form of something stored began with
const typed = (form) => Object.fromEntries([...form.querySelectorAll(FIELDS)].filter((field) => field.value !== (shown(form)[field.name] ?? "")).map((field) => [field.name, field.value]));

function room(form) {
  const field = form.querySelector("[data-most]");
  const [length, most] = [[...field.value].length, Number(field.dataset.most)];
  const over = length > most;
  field.setCustomValidity(over ? `The text has ${length.toLocaleString("en")} characters; a memory has at most ${most.toLocaleString("en")}.` : "");
  const hint = document.getElementById("room");
  hint.classList.toggle("over", over);
  if (over || length > most * 0.8) hint.textContent = `${length.toLocaleString("en")} of ${most.toLocaleString("en")} characters`;
}

function keep(form) {
  const hint = document.getElementById("room");
  try {
    localStorage.setItem(key(form), JSON.stringify({ version: form.elements.version?.value, before: form.elements.before?.value, fields: typed(form) }));
  } catch {
    hint.textContent = "This text is too long to be kept as a draft. Save it before you leave the page.";
  }
}

// A browser stands still over a paste of many megabytes, so it stays in the clipboard.
document.addEventListener("paste", (event) => {
  const field = event.target.closest("[data-most]");
  const length = field ? event.clipboardData.getData("text").length : 0;
  if (!field || length <= 20 * Number(field.dataset.most)) return;
  event.preventDefault();
  const hint = document.getElementById("room");
  hint.classList.add("over");
  hint.textContent = `Not pasted: ${length.toLocaleString("en")} characters are too many for one memory. Import them as a file instead.`;
});

function drafts() {
  for (const form of document.querySelectorAll("form[data-draft]")) {
    if (form.dataset.watched) continue;
    form.dataset.watched = "yes";
    form.addEventListener("input", () => { keep(form); room(form); });
    if (form.dataset.refused !== undefined) { keep(form); continue; } // it was sent, and came back with what others changed
    const kept = JSON.parse(localStorage.getItem(key(form)) ?? "null");
    const stored = typed(form);
    if (!kept || !Object.entries(kept.fields).some(([name, value]) => form.elements[name] && (stored[name] ?? shown(form)[name] ?? "") !== value)) continue;
    for (const [name, value] of Object.entries(kept.fields)) if (form.elements[name]) form.elements[name].value = value;
    const changed = kept.version !== undefined && kept.version !== form.elements.version?.value;
    if (changed) for (const name of ["version", "before"]) form.elements[name].value = kept[name]; // so that saving it shows both
    const notice = document.createElement("p");
    notice.className = "notice";
    notice.setAttribute("role", "status");
    notice.textContent = `Your unsaved draft was restored.${changed ? " The memory changed since you began: if you save, you see both texts first." : ""}`;
    form.prepend(notice);
    const edit = document.getElementById("editing");
    if (edit) edit.checked = true;
    room(form);
  }
}

document.addEventListener("click", (event) => {
  const discarded = event.target.closest("[data-discard]");
  if (discarded) localStorage.removeItem(`pgengram draft ${discarded.dataset.discard}`);
});
document.addEventListener("keydown", (event) => { if (event.target.id === "editing" && event.key === "Enter") event.target.click(); }); // as a button does
document.addEventListener("change", (event) => { if (event.target.id === "editing" && event.target.checked) document.querySelector("#edit textarea").focus(); });
document.addEventListener("DOMContentLoaded", drafts);
document.addEventListener("htmx:afterSettle", drafts);
document.addEventListener("htmx:beforeSwap", (event) => {
  const form = event.detail.requestConfig?.elt;
  if (form?.dataset?.draft && event.detail.xhr.status < 400) localStorage.removeItem(key(form));
});

// -- live: what is stored or changed elsewhere while this page is open ------------------------------------------------

const LIVE_MS = 3000;
const inTab = () => ({ "pgengram-namespace": encodeURIComponent(document.body.dataset.namespace) }); // whatever other tabs have chosen since
const ask = (path, more = {}) => fetch(path, { ...more, headers: inTab() }).catch(() => null);
let known = null; // id → version of the newest memories; null until they were asked for
let changed = new Set(); // ids that are not shown yet
document.addEventListener("htmx:configRequest", (event) => Object.assign(event.detail.headers, inTab()));

function told(versions, note) {
  const { id, version } = note.dataset;
  if (id) return versions[id] === undefined ? "This memory was permanently erased." : String(versions[id]) === version ? "" : "This memory was changed elsewhere. What you typed stays here as a draft.";
  for (const one of Object.keys(versions)) if (known && known[one] !== versions[one]) changed.add(one);
  known = { ...known, ...versions };
  return changed.size ? `${changed.size} ${changed.size === 1 ? "memory was" : "memories were"} added or changed.` : "";
}

// The newest memories come by themselves while nobody reads further down, selects or goes through them.
const atRest = () => !new URLSearchParams(location.search).get("q") && scrollY < 100 && marked === null && !looking() && !document.querySelector("#hits :focus, .pick:checked, #hits details[open]");

function renew() {
  const fresh = changed;
  changed = new Set();
  document.getElementById("live").hidden = true;
  htmx.ajax("GET", location.pathname + location.search, { target: "#hits", swap: "innerHTML" }).then(() => {
    for (const id of fresh) document.querySelector(`.hit[data-href="/memory/${id}"]`)?.classList.add("fresh");
  });
}

async function live() {
  const note = document.getElementById("live");
  if (!note || document.hidden) return;
  const answer = await ask(`/live?id=${note.dataset.id ?? ""}`);
  if (!answer) lost();
  if (!answer?.ok || !note.isConnected) return;
  document.getElementById("lost").hidden = true;
  const said = told(await answer.json(), note);
  note.dataset.asked = "yes";
  if (said && !note.dataset.id && atRest()) { renew(); return; }
  if (note.firstElementChild.textContent !== said) note.firstElementChild.textContent = said; // a reader is told once
  note.hidden = !said;
}

document.addEventListener("click", (event) => {
  const note = event.target.closest("#live button")?.parentElement;
  if (note) note.dataset.id ? location.reload() : renew();
});
document.addEventListener("visibilitychange", live);
document.addEventListener("DOMContentLoaded", async () => { for (;;) { await live(); await new Promise((resolve) => setTimeout(resolve, LIVE_MS)); } });

// -- lines --------------------------------------------------------------------------------------------------------

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const inWords = (at) => { const day = new Date(at * 1000); return `${day.getUTCDate()} ${MONTHS[day.getUTCMonth()]} ${day.getUTCFullYear()}`; }; // as the page says it everywhere
const middle = (values) => [...values].sort((one, other) => one - other)[values.length >> 1] || 0;

function axes(whole) {
  const axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 } };
  const year = (at) => new Date(at * 1000).getUTCFullYear();
  const written = (_, places, __, ___, step) => places.map((at, place) => {
    if (step < 86400) return `${new Date(at * 1000).toISOString().slice(11, 16)}\n${inWords(at)}`;
    const said = inWords(at).split(" ").slice(step < 28 * 86400 ? 0 : step < 360 * 86400 ? 1 : 2);
    return place && year(places[place - 1]) === year(at) && said.length > 1 ? said.slice(0, -1).join(" ") : said.join(" "); // a year once
  });
  const counted = (_, places) => places.map((one) => (one === null || one < 0 ? "" : one.toLocaleString("en"))); // less than nothing is no number of memories
  return [{ ...axis, space: 72, values: written }, { ...axis, size: 62, values: counted, ...(whole ? { incrs: [1, 2, 5].flatMap((one) => [0, 1, 2, 3, 4, 5].map((ten) => one * 10 ** ten)).sort((one, other) => one - other) } : {}) }];
}

const inUtc = (at) => uPlot.tzDate(new Date(at * 1000), "UTC");
const day = { label: "day", value: (_, at) => (at === null ? "" : inWords(at)) };
const sized = (element, whole, ...strokes) => ({
  width: element.clientWidth - 16, height: element.clientWidth < 500 ? 130 : 190, tzDate: inUtc, axes: axes(whole), legend: { markers: { width: 0, fill: (_, at) => colour(strokes[at - 1]) } },
});

const HALF_DAY = 43200; // seconds

function days(element) {
  const given = data(element);
  let plot;
  element.addEventListener("click", (event) => {
    const over = element.querySelector(".u-over");
    if (!over || !over.contains(event.target) || event.detail !== 1 || getSelection().toString()) return;
    const at = given.at[plot.cursor.idx];
    if (at !== undefined) location.href = `/timeline?day=${new Date(at * 1000).toISOString().slice(0, 10)}`;
  });
  const crowded = Math.max(...given.memories) > 50 * Math.max(1, middle(given.memories.filter((one) => one)));
  return () => {
    plot?.destroy();
    const memories = { label: "memories", value: (_, many) => many?.toLocaleString("en") ?? "", stroke: colour("accent"), fill: colour("accent") + "99", width: 1, points: { show: false }, paths: uPlot.paths.bars({ size: [0.7, 28] }) };
    const around = { x: { range: (_, from, to) => [from - HALF_DAY, to + HALF_DAY] } }; // the first and the last bar are whole
    plot = new uPlot({ ...sized(element, true, "accent"), scales: crowded ? { ...around, y: { distr: 4 } } : around, series: [day, memories] }, [given.at, given.memories], element);
  };
}

// -- how one memory fades -----------------------------------------------------------------------------------------

const REACHED = 14; // pixels from a mark at which it is pointed at
const SHORTEST = 600; // seconds that can fill the picture

function fading(element) {
  const given = data(element);
  const [first, last] = [given.at[0], given.at.at(-1)];
  const description = element.parentElement.querySelector(".chosen");
  let [plot, chosen, range, quiet] = [null, -1, [first, last], false];

  const say = (place) => {
    if (place === chosen) return;
    chosen = place;
    if (place >= 0) {
      const mark = given.marks[place];
      const [before, after] = [mark.before, mark.after].map((one) => (one === null ? "not known" : one.toFixed(3)));
      description.textContent = `${mark.when}: ${mark.what}, relevance ${before === after ? after : `${before} → ${after}`} (${place + 1} of ${given.marks.length})`;
    }
    plot.redraw(false, false);
  };
  const pointed = (at) => { // the mark nearest to where the mouse is
    if (quiet || at.cursor.left < 0) return;
    let [best, least] = [-1, REACHED];
    given.marks.forEach((mark, place) => {
      const away = Math.abs(at.valToPos(mark.at, "x") - at.cursor.left);
      if (away < least) [best, least] = [place, away];
    });
    say(best);
  };
  const show = (from, to) => {
    const wide = Math.max(SHORTEST, Math.min(last - first, to - from));
    const left = Math.max(first, Math.min(last - wide, (from + to - wide) / 2));
    plot.setScale("x", { min: left, max: left + wide });
  };
  const zoom = (factor) => {
    const [min, max] = range;
    const now = given.marks[chosen]?.at ?? given.marks.find((mark) => mark.what === "now").at;
    const middle = now >= min && now <= max ? now : (min + max) / 2; // what is chosen stays where it is
    if (factor) show(middle - (middle - min) / factor, middle + (max - middle) / factor);
    else show(first, last);
  };
  const go = (step) => {
    const from = chosen >= 0 ? chosen : step > 0 ? -1 : given.marks.length;
    const place = Math.max(0, Math.min(given.marks.length - 1, from + step));
    const { at } = given.marks[place];
    const half = (range[1] - range[0]) / 2;
    if (at < range[0] || at > range[1]) show(at - half, at + half);
    quiet = true;
    plot.setCursor({ left: plot.valToPos(at, "x"), top: plot.bbox.height / devicePixelRatio / 2 });
    quiet = false;
    say(place);
  };
  element.parentElement.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => zoom(Number(button.dataset.zoom))));
  element.addEventListener("keydown", (event) => {
    if (event.key in STEPS) go(STEPS[event.key]);
    else if (event.key in FACTORS) zoom(FACTORS[event.key]);
    else return;
    event.preventDefault();
  });
  return () => {
    plot?.destroy();
    const one = (_, value) => value?.toFixed(3) ?? "";
    plot = new uPlot({
      ...sized(element, false, "soft", "accent"),
      series: [day,
        { label: "importance alone", stroke: colour("soft"), dash: [5, 5], width: 1.5, value: one, points: { show: false } },
        { label: "relevance", stroke: colour("accent"), width: 2.5, value: one, points: { show: false } }],
      scales: { x: { range: (_, min, max) => [Math.max(first, min ?? first), Math.min(last, max ?? last)] }, y: { range: [0, 1.04 * Math.max(1, ...given.used)] } },
      hooks: {
        draw: [(at) => marks(at, given.marks, chosen)],
        setCursor: [pointed],
        setScale: [(at, name) => { if (name === "x") range = [at.scales.x.min, at.scales.x.max]; }],
      },
    }, [given.at, given.unused, given.used], element);
    plot.setScale("x", { min: range[0], max: range[1] });
  };
}

const STEPS = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };

// What happened: a dot on the line for each use, and an upright line with a word for whatever is no mere reading.
function marks(plot, moments, chosen) {
  const pen = plot.ctx;
  const { left, top, width, height } = plot.bbox;
  const ratio = devicePixelRatio;
  const rows = []; // where the last word of each row ends, so that no two words lie on each other
  pen.save();
  pen.beginPath();
  pen.rect(left - 6 * ratio, top - 6 * ratio, width + 12 * ratio, height + 12 * ratio);
  pen.clip();
  pen.font = `${11 * ratio}px system-ui`;
  pen.textAlign = "left"; // the axes left it otherwise
  pen.textBaseline = "alphabetic";
  moments.forEach(({ at, what, use, after }, place) => {
    const x = Math.round(plot.valToPos(at, "x", true));
    if (x < left - 1 || x > left + width + 1) return;
    pen.strokeStyle = pen.fillStyle = colour(what === "now" ? "text" : "episodic");
    if (what !== "read" || place === chosen) {
      pen.setLineDash(what === "now" || place === chosen ? [] : [3, 3]);
      pen.lineWidth = ratio * (place === chosen ? 2 : 1);
      pen.beginPath();
      pen.moveTo(x, top);
      pen.lineTo(x, top + height);
      pen.stroke();
      pen.setLineDash([]);
      const wide = pen.measureText(what).width + 8 * ratio;
      const from = x + wide > left + width ? x - wide : x;
      let row = rows.findIndex((end) => end <= from);
      if (row < 0) row = rows.length;
      rows[row] = from + wide;
      if (row < 6) pen.fillText(what, from + 4 * ratio, top + height - (8 + 13 * row) * ratio);
    }
    if (!use || after === null) return;
    pen.lineWidth = 1.5 * ratio;
    pen.strokeStyle = colour("raised");
    pen.beginPath();
    pen.arc(x, plot.valToPos(after, "y", true), (place === chosen ? 6 : 4) * ratio, 0, 7);
    pen.fill();
    pen.stroke();
  });
  pen.restore();
}

// -- zooming by buttons and keys ----------------------------------------------------------------------------------

const FACTORS = { "+": 1.5, "=": 1.5, "-": 0.67, "0": 0 };

// `zoom(factor)` zooms, 0 shows all; `pan(x, y)` moves by pixels.
function steer(element, zoom, pan) {
  const full = element.parentElement.querySelector("[data-full]");
  full.hidden = !document.fullscreenEnabled; // a phone may allow it to films only
  full.addEventListener("click", () => (document.fullscreenElement ? document.exitFullscreen() : element.parentElement.requestFullscreen()));
  element.parentElement.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => zoom(Number(button.dataset.zoom))));
  const steps = { ArrowLeft: [80, 0], ArrowRight: [-80, 0], ArrowUp: [0, 80], ArrowDown: [0, -80] };
  element.addEventListener("keydown", (event) => {
    if (event.key in steps) pan(...steps[event.key]);
    else if (event.key in FACTORS) zoom(FACTORS[event.key]);
    else return;
    event.preventDefault();
  });
}

// -- the graph ----------------------------------------------------------------------------------------------------

function tell(id, text) {
  const chosen = document.getElementById("chosen");
  const link = document.createElement("a");
  link.href = `/memory/${id}`;
  link.textContent = text;
  chosen.replaceChildren(link);
}

const LETTERS = 12; // pixels of a label, however far one zooms
const LABEL_WIDTH = 124;
const LINE = LETTERS * 1.25;
const SIDES = { below: ["center", "bottom"], above: ["center", "top"], right: ["right", "center"], left: ["left", "center"] };
const WAYS = { below: [0, 1], above: [0, -1], right: [1, 0], left: [-1, 0] };
const ruler = document.createElement("canvas").getContext("2d");

// How wide and high a label is, broken into lines as Cytoscape does it.
function sizeOf(text) {
  ruler.font = `${LETTERS}px system-ui`;
  const rows = [0];
  for (const word of text.split(" ")) {
    const wide = ruler.measureText(`${word} `).width;
    if (rows.at(-1) && rows.at(-1) + wide > LABEL_WIDTH) rows.push(wide);
    else rows[rows.length - 1] += wide;
  }
  return { width: Math.max(...rows), height: rows.length * LINE };
}

// Labels are placed around their memories, the best linked first; one that would lie on a memory or another label is left out.
function labels(graph, radius) {
  const shown = graph.nodes().filter((node) => !node.hasClass("hidden"));
  const dots = shown.map((node) => ({ node, ...node.renderedPosition(), reach: radius * (node.hasClass("start") ? 1.7 : 1) + 2 }));
  const [canvas, buttons] = [graph.container(), graph.container().parentElement.querySelector(".zoom")].map((one) => one.getBoundingClientRect());
  const taken = [{ left: buttons.left - canvas.left, right: buttons.right - canvas.left, top: buttons.top - canvas.top, bottom: buttons.bottom - canvas.top }];
  const free = (box, own) => !taken.some((other) => box.left < other.right && box.right > other.left && box.top < other.bottom && box.bottom > other.top)
    && !dots.some(({ node, x, y, reach }) => node !== own && x + reach > box.left && x - reach < box.right && y + reach > box.top && y - reach < box.bottom);
  const [width, height] = [graph.width(), graph.height()];
  for (const { node, x, y, reach } of [...dots].sort((one, other) => other.node.hasClass("start") - one.node.hasClass("start") || other.node.degree() - one.node.degree())) {
    node.removeClass(Object.keys(SIDES).join(" "));
    if (taken.length > 150 || x < -LABEL_WIDTH || y < -LABEL_WIDTH || x > width + LABEL_WIDTH || y > height + LABEL_WIDTH) continue;
    const size = sizeOf(node.data("short"));
    const away = reach + 4;
    const boxes = {
      below: { left: x - size.width / 2, top: y + away }, above: { left: x - size.width / 2, top: y - away - size.height },
      right: { left: x + away, top: y - size.height / 2 }, left: { left: x - away - size.width, top: y - size.height / 2 },
    };
    const near = node.neighborhood("node").map((other) => other.renderedPosition());
    const lean = near.map((other) => [(x - other.x) / Math.hypot(x - other.x, y - other.y), (y - other.y) / Math.hypot(x - other.x, y - other.y)]);
    const against = (side) => lean.reduce((sum, [right, down]) => sum + right * WAYS[side][0] + down * WAYS[side][1], 0); // away from its links
    for (const [side, box] of Object.entries(boxes).sort(([one], [other]) => against(other) - against(one))) {
      Object.assign(box, { right: box.left + size.width, bottom: box.top + size.height });
      if (box.left < 0 || box.top < 0 || box.right > width || box.bottom > height || !free(box, node)) continue;
      node.addClass(side);
      taken.push(box);
      break;
    }
  }
  return taken.length - 1;
}

// What is selected, with its links, beside the graph.
function panel(node, choose) {
  const made = (name, text, more = {}) => Object.assign(document.createElement(name), { textContent: text, ...more });
  const list = made("ul", "", { className: "links" });
  for (const edge of node.connectedEdges()) {
    const out = edge.source().id() === node.id();
    const other = out ? edge.target() : edge.source();
    const item = document.createElement("li");
    item.append(made("span", edge.data("type") === "alike" ? "similar" : `${out ? "→" : "←"} ${edge.data("type")}`, { className: "badge" }), " ",
      made("button", other.data("text"), { type: "button", className: "as-link", dir: "auto", onclick: () => choose(other) }));
    list.append(item);
  }
  const actions = made("p", "", { className: "actions" });
  actions.append(made("a", "Open", { className: "button", href: `/memory/${node.id()}` }), " ", made("a", "Explore from here", { className: "button", href: `/graph?id=${node.id()}` }));
  const text = document.createElement("p");
  text.append(made("a", node.data("text"), { href: `/memory/${node.id()}`, dir: "auto" }));
  document.getElementById("chosen").replaceChildren(made("span", node.data("type"), { className: `type ${node.data("type")}` }), text, actions, list);
}

const MOST_FIT = 1.4;
const RADIUS = 7; // pixels of a memory
const CROWD = 80; // of more memories each is smaller

function network(element) {
  const given = data(element);
  const own = RADIUS * Math.min(1, Math.sqrt(CROWD / Object.keys(given.nodes).length)); // so that links between many stay in sight
  const graph = cytoscape({
    container: element,
    elements: [
      ...Object.entries(given.nodes).map(([id, node]) => ({
        data: { id, text: node.text, short: node.text.length > 34 ? `${node.text.slice(0, 33).trimEnd()}…` : node.text, type: node.type },
        position: { x: node.x, y: node.y },
        classes: id === given.start ? "start" : "",
      })),
      ...given.edges.map((edge, number) => ({ data: { id: `e${number}`, source: edge.from, target: edge.to, type: edge.type.replaceAll("_", " "), strength: edge.strength } })),
    ],
    layout: { name: "preset", padding: 40 },
    minZoom: 0.02,
    maxZoom: 4,
  });
  let fitted = 0;
  const draw = () => {
    if (!fitted) {
      graph.fit(undefined, 60); // a label has room at the edge
      if (graph.zoom() > MOST_FIT) { graph.zoom(MOST_FIT); graph.center(); } // a few memories need not fill the screen
      fitted = graph.zoom();
    }
    const zoom = graph.zoom();
    const radius = own * Math.min(1.6, Math.max(1, zoom / fitted) ** 0.3); // zooming moves memories apart more than it makes them large
    const [size, letters] = [2 * radius / zoom, LETTERS / zoom]; // as large on the screen whatever the number of memories
    const away = letters / 3;
    element.dataset.labels = labels(graph, radius);
    graph.style([
      { selector: "node", style: { width: size, height: size, "background-color": (node) => colour(node.data("type")), color: colour("text"), "font-size": letters, "font-family": "system-ui, sans-serif", "line-height": 1.25, "text-wrap": "wrap", "text-max-width": LABEL_WIDTH / zoom, "text-outline-color": colour("raised"), "text-outline-width": 3 / zoom } },
      ...Object.entries(SIDES).map(([side, [across, upright]]) => ({ selector: `node.${side}`, style: { label: "data(short)", "text-halign": across, "text-valign": upright, "text-margin-x": { right: away, left: -away }[side] ?? 0, "text-margin-y": { below: away, above: -away }[side] ?? 0 } })),
      { selector: "node.start", style: { width: size * 1.7, height: size * 1.7, "border-width": 3 / zoom, "border-color": colour("text") } },
      { selector: "node:selected", style: { "border-width": 3 / zoom, "border-color": colour("focus") } },
      { selector: "edge", style: { width: (edge) => (0.5 + 1.5 * edge.data("strength")) / zoom, "line-color": colour("edge"), "target-arrow-color": colour("soft"), "target-arrow-shape": "triangle", "arrow-scale": 0.7, "curve-style": "bezier" } },
      { selector: "edge.near", style: { "line-color": colour("focus"), "target-arrow-color": colour("focus"), opacity: 1 } },
      { selector: ".hidden", style: { display: "none" } },
      { selector: "edge[type = 'alike']", style: { "line-style": "dashed", "target-arrow-shape": "none" } },
    ]);
  };
  const middle = () => ({ x: element.clientWidth / 2, y: element.clientHeight / 2 });
  steer(element, (factor) => (factor ? graph.zoom({ level: graph.zoom() * factor, renderedPosition: middle() }) : graph.fit(undefined, 60)),
    (x, y) => graph.panBy({ x, y }));
  let before = ""; // what was clicked last: two clicks on different memories are no double click
  const choose = (node) => {
    before = node.id();
    graph.elements().unselect().removeClass("near");
    node.select().connectedEdges().addClass("near");
    const { x, y } = node.renderedPosition();
    if (x < 0 || y < 0 || x > element.clientWidth || y > element.clientHeight) graph.center(node);
    panel(node, choose);
  };
  element.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(graph.nodes().max((node) => node.degree()).ele); }); // by keys the panel leads on from there
  graph.on("tap", "node", (event) => choose(event.target));
  graph.on("tap", (event) => { if (event.target === graph) before = ""; });
  graph.on("vmousedown", "node", (event) => { event.target.scratch("again", event.target.id() === before); });
  graph.on("dbltap", "node", (event) => { if (event.target.scratch("again")) location.href = `/graph?id=${event.target.id()}`; });
  let resting = 0;
  graph.on("dragfree", "node", draw);
  document.querySelectorAll("[data-type]").forEach((button) => button.addEventListener("click", () => {
    const shown = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", shown);
    graph.nodes(`[type = "${button.dataset.type}"]`).toggleClass("hidden", !shown);
    draw();
  }));
  graph.on("viewport", () => { clearTimeout(resting); resting = setTimeout(draw, 150); });
  if (given.start) choose(graph.getElementById(given.start));
  return draw;
}

// -- the map ------------------------------------------------------------------------------------------------------

const HUES = 24;
const MANY = 8000; // points from which on they are drawn as squares

function map(element) {
  const points = { ...data(element), x: [], y: [], region: [], type: [], cluster: [] }; // the columns come after the page
  let count = 0;
  const canvas = element.querySelector("canvas");
  const choice = document.getElementById("colour");
  const pen = canvas.getContext("2d");
  points.region_names = [];
  for (const region of points.regions) points.region_names[region.number] = region.name;
  let lit = new Set(); // places of memories that a search found
  let loop = null; // what is drawn around an area, as points of the canvas
  const reach = { left: 0, right: 0, low: 0, high: 0 };
  const whole = { x: 0, y: 0, zoom: 1 };
  const view = { ...whole };
  const of = (more) => new URLSearchParams({ key: points.key, ...more }); // what is asked about this map
  const fetched = async () => {
    const answer = await ask(`/map/points?${of()}`);
    if (!answer) { lost(); return; }
    if (!answer.ok) { location.reload(); return; } // a newer map has taken its place
    const bytes = await answer.arrayBuffer();
    count = bytes.byteLength / 7;
    [points.x, points.y] = [new Int16Array(bytes, 0, count), new Int16Array(bytes, 2 * count, count)];
    [points.region, points.type, points.cluster] = [4, 5, 6].map((at) => new Uint8Array(bytes, at * count, count));
    [reach.left, reach.right, reach.low, reach.high] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let at = 0; at < count; at += 1) {
      reach.left = Math.min(reach.left, points.x[at]); reach.right = Math.max(reach.right, points.x[at]);
      reach.low = Math.min(reach.low, points.y[at]); reach.high = Math.max(reach.high, points.y[at]);
    }
    Object.assign(whole, { x: (reach.left + reach.right) / 2, y: (reach.low + reach.high) / 2 });
    Object.assign(view, whole);
    draw();
  };
  let over = -1;
  const scale = () => Math.min(element.clientWidth / (reach.right - reach.left || 1), element.clientHeight / (reach.high - reach.low || 1)) * 0.9 * view.zoom;

  const paints = () => {
    const names = points[`${choice.value}_names`];
    const types = choice.value === "type";
    const dark = isDark();
    if (choice.value === "region") return names.map((_, place) => `hsl(${(place * 137.5) % 360} 55% ${dark ? 65 : 45}%)`);
    return names.map((name, place) => (types ? colour(name) : name === "" || place >= HUES ? colour("soft") : `hsl(${(place * 137.5) % 360} 65% 52%)`));
  };
  const show = (paint) => {
    const names = choice.value === "region" ? [] : points[`${choice.value}_names`]; // their names are on the map
    const legend = document.getElementById("legend");
    const labels = choice.value === "type" ? JSON.parse(legend.dataset.types) : {};
    legend.replaceChildren(...names.slice(0, HUES).map((name, place) => {
      const item = document.createElement("span");
      const dot = document.createElement("i");
      dot.style.background = paint[place];
      item.append(dot, labels[name] ?? (name || "in no cluster"));
      return item;
    }));
  };

  // The names of regions, the largest first; one that has no room waits until there is some.
  const named = (by, width, height) => {
    const taken = [];
    const [box, buttons] = [element, element.parentElement.querySelector(".zoom")].map((one) => one.getBoundingClientRect());
    const covered = { left: buttons.left - box.left, bottom: buttons.bottom - box.top };
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.font = "600 13px system-ui";
    pen.lineWidth = 6;
    pen.lineJoin = "round";
    for (const region of points.regions) {
      const [x, middle] = [(region.x - view.x) * by + width / 2, (view.y - region.y) * by + height / 2];
      const half = pen.measureText(region.name).width / 2 + 6;
      const at = Math.max(half, Math.min(width - half, x));
      const beside = region.radius * by + 12; // above or below the region, where its middle is taken
      const free = (y) => y > 10 && y < height - 10 && (at + half < covered.left || y - 10 > covered.bottom) && !taken.some((other) => Math.abs(other.x - at) < other.half + half && Math.abs(other.y - y) < 20);
      const y = [middle, middle - beside, middle + beside].find(free);
      if (x < -half || x > width + half || y === undefined) continue;
      taken.push({ x: at, y, half });
      pen.strokeStyle = pen.fillStyle = colour("raised");
      pen.globalAlpha = 0.85;
      pen.beginPath();
      pen.rect(at - half + 4, y - 7, 2 * half - 8, 14);
      pen.stroke();
      pen.fill();
      pen.globalAlpha = 1;
      pen.fillStyle = colour("text");
      pen.fillText(region.name, at, y);
    }
    pen.lineWidth = 1;
    element.dataset.named = taken.length;
  };

  const draw = (moving = false) => {
    const step = moving ? Math.ceil(count / MANY) : 1; // while it moves, some of them will do
    const ratio = devicePixelRatio;
    const [width, height] = [element.clientWidth, element.clientHeight];
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const [kinds, names, paint] = [points[choice.value], points[`${choice.value}_names`], paints()];
    const by = scale();
    const size = count > MANY ? Math.max(1.5, Math.min(5, 1.5 * Math.sqrt(view.zoom))) : 7;
    for (let kind = 0; kind < paint.length; kind += 1) { // one colour after the other: changing it is what costs
      pen.fillStyle = paint[kind];
      pen.globalAlpha = lit.size ? 0.12 : names[kind] === "" ? 0.25 : 0.68;
      pen.beginPath();
      for (let at = 0; at < count; at += step) {
        if (kinds[at] !== kind) continue;
        const [x, y] = [(points.x[at] - view.x) * by + width / 2, (view.y - points.y[at]) * by + height / 2];
        if (x < -size || y < -size || x > width + size || y > height + size) continue;
        if (count > MANY) pen.fillRect(x - size / 2, y - size / 2, size, size);
        else { pen.moveTo(x + size / 2, y); pen.arc(x, y, size / 2, 0, 7); }
      }
      pen.fill();
    }
    pen.globalAlpha = 1;
    for (const at of lit) {
      pen.fillStyle = colour("accent");
      pen.strokeStyle = colour("raised");
      pen.beginPath();
      pen.arc((points.x[at] - view.x) * by + width / 2, (view.y - points.y[at]) * by + height / 2, 6, 0, 7);
      pen.fill();
      pen.stroke();
    }
    named(by, width, height);
    if (loop) {
      pen.strokeStyle = colour("focus");
      pen.lineWidth = 2;
      pen.beginPath();
      loop.forEach(([x, y]) => pen.lineTo(x, y));
      pen.closePath();
      pen.stroke();
      pen.lineWidth = 1;
    }
    if (over >= 0) {
      pen.globalAlpha = 1;
      pen.fillStyle = paint[kinds[over]];
      pen.strokeStyle = colour("text");
      pen.beginPath();
      pen.arc((points.x[over] - view.x) * by + width / 2, (view.y - points.y[over]) * by + height / 2, 7, 0, 7);
      pen.fill();
      pen.stroke();
    }
    element.dataset.zoom = view.zoom.toFixed(2);
  };
  let planned = 0;
  let resting = 0;
  const soon = () => {
    cancelAnimationFrame(planned);
    planned = requestAnimationFrame(() => draw(count > MANY));
    if (count <= MANY) return;
    clearTimeout(resting);
    resting = setTimeout(draw, 200);
  };
  const nearest = (event) => {
    const box = canvas.getBoundingClientRect();
    const by = scale();
    const [x, y] = [(event.clientX - box.left - element.clientWidth / 2) / by + view.x, view.y - (event.clientY - box.top - element.clientHeight / 2) / by];
    let best = -1;
    let least = (12 / by) ** 2;
    for (let at = 0; at < count; at += 1) {
      const away = (points.x[at] - x) ** 2 + (points.y[at] - y) ** 2;
      if (away < least) { least = away; best = at; }
    }
    return best;
  };
  const zoom = (factor) => {
    if (factor) view.zoom = Math.max(0.5, Math.min(400, view.zoom * factor));
    else Object.assign(view, whole);
    soon();
  };
  const pan = (x, y) => { view.x -= x / scale(); view.y += y / scale(); soon(); };
  const memoryAt = async (at) => { // the id and the beginning of the memory at a place
    const answer = await ask(`/map/memory?${of({ at })}`);
    if (!answer) lost();
    else if (!answer.ok) document.getElementById("chosen").textContent = "This memory is gone, or the map is out of date. Load the page again.";
    return answer?.ok ? answer.json() : null;
  };
  let asked = 0;
  const point = (at) => {
    if (at === over) return;
    over = at;
    canvas.style.cursor = at < 0 ? "grab" : "pointer";
    soon();
    clearTimeout(asked);
    if (at < 0) return;
    asked = setTimeout(async () => {
      const memory = await memoryAt(at);
      if (memory && at === over) tell(memory.id, memory.text);
    }, 60);
  };

  // An area: its memories become a list below the map.
  const area = document.getElementById("area");
  const lasso = document.getElementById("lasso");
  const search = document.getElementById("map-search");
  const list = async (found) => {
    if (!found.length) return;
    const answer = await ask("/map/list", { method: "POST", body: of({ mark: search.elements.mark.value, at: found.slice(0, 100).join() }) });
    if (!answer) { lost(); return; }
    area.innerHTML = await answer.text(); // made by our own template, which escapes what it shows
    document.getElementById("chosen").textContent = found.length > 100 ? `The first 100 of ${found.length.toLocaleString("en")} memories are listed below.` : `${found.length} ${found.length === 1 ? "memory is" : "memories are"} listed below.`;
    document.dispatchEvent(new Event("reset"));
  };
  const within = () => {
    const by = scale();
    const [width, height] = [element.clientWidth, element.clientHeight];
    const found = [];
    for (let at = 0; at < count; at += 1) {
      const [x, y] = [(points.x[at] - view.x) * by + width / 2, (view.y - points.y[at]) * by + height / 2];
      let inside = false;
      for (let one = 0, other = loop.length - 1; one < loop.length; other = one, one += 1) {
        const [[a, b], [c, d]] = [loop[one], loop[other]];
        if (b > y !== d > y && x < ((c - a) * (y - b)) / (d - b) + a) inside = !inside;
      }
      if (inside) found.push(at);
    }
    return found;
  };
  lasso.addEventListener("click", () => {
    const on = lasso.getAttribute("aria-pressed") !== "true";
    lasso.setAttribute("aria-pressed", on);
    if (!on) { loop = null; soon(); }
  });
  document.querySelectorAll("[data-region]").forEach((button) => button.addEventListener("click", () => {
    const region = points.regions.find((one) => one.number === Number(button.dataset.region));
    Object.assign(view, { x: region.x, y: region.y, zoom: 1 });
    view.zoom = Math.max(1, Math.min(element.clientWidth, element.clientHeight) / (2.4 * region.radius * scale()));
    soon();
    list([...points.region.keys()].filter((at) => points.region[at] === region.number));
  }));
  let typing = 0;
  search.addEventListener("submit", (event) => event.preventDefault());
  search.elements.q.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(async () => {
      const query = search.elements.q.value.trim();
      const answer = query ? await ask(`/map/hits?${of({ q: query })}`) : new Response("[]");
      if (!answer) { lost(); return; }
      lit = new Set(answer.ok ? await answer.json() : []);
      element.dataset.lit = lit.size;
      document.getElementById("chosen").textContent = query ? `${lit.size} ${lit.size === 1 ? "memory is" : "memories are"} highlighted.` : "";
      soon();
    }, 250);
  });

  const held = new Map(); // pointers that are down, by their id
  let moved = false;
  canvas.addEventListener("pointerdown", (event) => {
    if (!held.size) moved = false;
    if (lasso.getAttribute("aria-pressed") === "true") loop = [[event.offsetX, event.offsetY]];
    held.set(event.pointerId, { x: event.clientX, y: event.clientY });
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const from = held.get(event.pointerId);
    if (!from) { point(nearest(event)); return; }
    const [x, y] = [event.clientX - from.x, event.clientY - from.y];
    if (!moved && Math.abs(x) + Math.abs(y) <= 4) return;
    moved = true;
    if (loop && lasso.getAttribute("aria-pressed") === "true") { loop.push([event.offsetX, event.offsetY]); soon(); return; }
    const other = [...held].find(([pointer]) => pointer !== event.pointerId)?.[1];
    if (other) {
      const before = Math.hypot(from.x - other.x, from.y - other.y);
      zoom(Math.hypot(event.clientX - other.x, event.clientY - other.y) / Math.max(1, before));
    } else pan(x, y);
    held.set(event.pointerId, { x: event.clientX, y: event.clientY });
  });
  canvas.addEventListener("pointerup", (event) => {
    const at = held.has(event.pointerId) && !moved ? nearest(event) : -1;
    held.delete(event.pointerId);
    if (loop && moved && lasso.getAttribute("aria-pressed") === "true") { lasso.setAttribute("aria-pressed", "false"); list(within()); }
    if (at < 0) return;
    if (event.pointerType === "mouse") memoryAt(at).then((memory) => { if (memory) location.href = `/memory/${memory.id}`; });
    else point(at); // a finger points first; the link below opens it
  });
  canvas.addEventListener("pointercancel", (event) => held.delete(event.pointerId));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - element.clientWidth / 2, event.clientY - box.top - element.clientHeight / 2];
    const before = scale();
    zoom(Math.exp(-event.deltaY / 400));
    const after = scale(); // what is under the pointer stays there
    view.x += x / before - x / after;
    view.y -= y / before - y / after;
  }, { passive: false });
  steer(element, zoom, pan);
  choice.addEventListener("change", () => { show(paints()); soon(); });
  fetched();
  return () => { show(paints()); draw(); };
}

// -- drawing, at first and anew ------------------------------------------------------------------------------------

// The page is painted before anything is drawn into it: a library is fetched by the page that needs it, after that.
const painted = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
const fetchedLibraries = {};

function library(name) {
  const [tag, address] = name.endsWith(".css") ? ["link", "href"] : ["script", "src"];
  fetchedLibraries[name] ??= new Promise((resolve) => {
    document.head.append(Object.assign(document.createElement(tag), { [address]: `/static/vendor/${name}`, rel: "stylesheet", onload: resolve, onerror: lost }));
  });
  return fetchedLibraries[name];
}

const PLOT = ["uPlot.iife.min.js", "uPlot.min.css"];

async function start() {
  for (const element of [...drawn.keys()]) if (!element.isConnected) drawn.delete(element);
  const kinds = [["[data-chart=days]", days, PLOT], ["[data-chart=fading]", fading, PLOT], ["#network", network, ["cytoscape.min.js"]], ["#map", map, []]];
  for (const [selector, make, files] of kinds) {
    for (const element of document.querySelectorAll(selector)) {
      await painted();
      await Promise.all(files.map(library));
      if (element.isConnected && !drawn.has(element)) {
        drawn.set(element, make(element));
        drawn.get(element)();
      }
    }
  }
}

const again = () => drawn.forEach((draw) => draw());

// Drawings take their colours anew.
function themed() {
  darkColours.media = THEMES[theme()];
  document.querySelectorAll("input[name=theme]").forEach((one) => { one.checked = one.value === theme(); });
  again();
}

document.addEventListener("change", (event) => {
  if (event.target.name !== "theme") return;
  localStorage.setItem(THEME, event.target.value);
  themed();
});
window.addEventListener("storage", (event) => { if (event.key === THEME) themed(); }); // chosen in another tab
document.addEventListener("DOMContentLoaded", themed);
let waiting = 0;
window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(again, 150); });
matchMedia(THEMES.system).addEventListener("change", again);

document.addEventListener("DOMContentLoaded", start);
document.addEventListener("htmx:afterSettle", start);
const lost = () => { document.getElementById("lost").hidden = false; };
document.addEventListener("htmx:sendError", lost);
document.addEventListener("htmx:afterSwap", (event) => {
  if (event.target.id !== "hits") return;
  const all = hits();
  count();
  const order = document.querySelector("#search [name=sort] option");
  if (order) order.textContent = order.dataset[document.getElementById("q").value.trim() ? "asked" : "unasked"];
  document.getElementById("typing").textContent = all.length === 1 ? "1 memory is shown" : `${all.length} memories are shown`;
  if (marked !== null && all.length) mark(all.find((hit) => hit.dataset.href === marked) ?? all[0]);
});
