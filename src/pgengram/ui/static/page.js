"use strict";
// Keys, charts, the graph and the map. Everything else is a plain page.

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const data = (element) => JSON.parse(element.querySelector("script[type='application/json']").textContent);
const drawn = new Map(); // element → how to draw it anew

// -- keys ---------------------------------------------------------------------------------------------------------

const hits = () => [...document.querySelectorAll(".hit")];

function move(step) {
  const all = hits();
  if (!all.length) return;
  const at = all.findIndex((hit) => hit.classList.contains("on"));
  const next = all[Math.max(0, Math.min(all.length - 1, at + step))];
  all.forEach((hit) => hit.classList.toggle("on", hit === next));
  next.querySelector("a").focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const field = event.target.closest("input, textarea, select");
  if (event.key === "Escape" && field) field.blur();
  if (field) {
    if (field.id === "q" && event.key === "ArrowDown") { event.preventDefault(); move(1); }
    return;
  }
  if (event.key === "/") {
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

// -- lines --------------------------------------------------------------------------------------------------------

function lines(element) {
  const given = data(element);
  const days = element.dataset.chart === "days";
  const axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 } };
  const draw = () => {
    element.querySelectorAll(".uplot").forEach((old) => old.remove());
    const size = { width: element.clientWidth - 16, height: 190 };
    const date = { label: "day", value: (_, at) => (at === null ? "" : new Date(at * 1000).toISOString().slice(0, 10)) };
    const one = (_, value) => (value === null || value === undefined ? "–" : value.toFixed(3));
    const options = days
      ? { ...size, series: [date, { label: "memories", stroke: colour("accent"), fill: colour("accent") + "44", width: 2, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) }] }
      : {
        ...size,
        series: [date,
          { label: "never used", stroke: colour("soft"), dash: [5, 5], width: 1.5, value: one },
          { label: "as it is used", stroke: colour("accent"), width: 2.5, value: one }],
        scales: { y: { range: [0, 1] } },
        hooks: { draw: [marks(given)] },
      };
    new uPlot({ tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "UTC"), axes: [axis, { ...axis, size: 44 }], ...options },
      days ? [given.at, given.memories] : [given.at, given.unused, given.used], element);
  };
  if (days) {
    element.addEventListener("click", (event) => {
      const plot = element.querySelector(".u-over");
      if (!plot || !plot.contains(event.target) || event.detail !== 1 || getSelection().toString()) return;
      const place = element.querySelector(".u-legend .u-value");
      if (place && /^\d{4}-/.test(place.textContent)) location.href = `/timeline?day=${place.textContent}`;
    });
  }
  return draw;
}

const marks = (given) => (plot) => {
  const pen = plot.ctx;
  for (const [moments, name] of [[given.now, "now"], [given.read, "read"]]) {
    for (const at of moments) {
      const x = Math.round(plot.valToPos(at, "x", true));
      pen.save();
      pen.strokeStyle = pen.fillStyle = colour(name === "now" ? "text" : "episodic");
      pen.setLineDash(name === "now" ? [] : [3, 3]);
      pen.beginPath();
      pen.moveTo(x, plot.bbox.top);
      pen.lineTo(x, plot.bbox.top + plot.bbox.height);
      pen.stroke();
      pen.font = `${11 * devicePixelRatio}px system-ui`;
      pen.textAlign = "left";
      pen.fillText(name === "read" ? "last read" : name, x + 4 * devicePixelRatio, plot.bbox.top + plot.bbox.height - (name === "now" ? 22 : 8) * devicePixelRatio);
      pen.restore();
    }
  }
};

// -- the graph ----------------------------------------------------------------------------------------------------

function tell(id, text) {
  const chosen = document.getElementById("chosen");
  const link = document.createElement("a");
  link.href = `/memory/${id}`;
  link.textContent = text;
  chosen.replaceChildren(link);
}

function network(element) {
  const given = data(element);
  const many = Object.keys(given.nodes).length > 400;
  const graph = cytoscape({
    container: element,
    elements: [
      ...Object.entries(given.nodes).map(([id, node]) => ({
        data: { id, text: node.text, short: node.text.length > 28 ? `${node.text.slice(0, 28)}…` : node.text, type: node.type },
        position: { x: node.x, y: node.y },
        classes: id === given.start ? "start" : "",
      })),
      ...given.edges.map((edge, number) => ({ data: { id: `e${number}`, source: edge.from, target: edge.to, type: edge.type.replaceAll("_", " "), strength: edge.strength } })),
    ],
    layout: { name: "preset", padding: 30 },
    hideEdgesOnViewport: many,
    textureOnViewport: many,
    pixelRatio: many ? 1 : "auto",
    minZoom: 0.02,
    maxZoom: 4,
  });
  const box = graph.elements().boundingBox({ includeLabels: false });
  const size = Math.max(16, box.h / (many ? 75 : 38), box.w / (many ? 130 : 70)); // as large on the screen whatever the number of memories
  const draw = () => {
    graph.style([
      { selector: "node", style: { width: size, height: size, "background-color": (node) => colour(node.data("type")), label: "data(short)", color: colour("text"), "font-size": size * (many ? 0.5 : 0.72), "min-zoomed-font-size": 8, "text-valign": "bottom", "text-margin-y": size / 4, "text-wrap": "wrap", "text-max-width": size * 8 } },
      { selector: "node.start", style: { width: size * 1.7, height: size * 1.7, "border-width": 4, "border-color": colour("text") } },
      { selector: "node:selected", style: { "border-width": 3, "border-color": colour("focus") } },
      { selector: "edge", style: { width: (edge) => (size / 16) * (0.5 + 1.5 * edge.data("strength")), opacity: many ? 0.35 : 1, "line-color": colour("edge"), "target-arrow-color": colour("soft"), "target-arrow-shape": many ? "none" : "triangle", "arrow-scale": 0.7, "curve-style": many ? "haystack" : "bezier", label: many ? "" : "data(type)", "font-size": size * 0.5, "min-zoomed-font-size": 7, color: colour("soft"), "text-rotation": "autorotate", "text-background-color": colour("raised"), "text-background-opacity": 1 } },
      { selector: "edge[type = 'alike']", style: { "line-style": "dashed", "target-arrow-shape": "none" } },
    ]);
  };
  graph.on("tap", "node", (event) => tell(event.target.id(), event.target.data("text")));
  graph.on("dbltap", "node", (event) => { location.href = `/graph?id=${event.target.id()}`; });
  graph.ready(() => graph.fit(undefined, 30));
  return draw;
}

// -- the map ------------------------------------------------------------------------------------------------------

const HUES = 24;

function map(element) {
  const points = data(element);
  const canvas = element.querySelector("canvas");
  const choice = document.getElementById("colour");
  const pen = canvas.getContext("2d");
  const xs = points.map((point) => point[1]);
  const ys = points.map((point) => point[2]);
  const range = (values) => [Math.min(...values), Math.max(...values)];
  const [left, right] = range(xs);
  const [low, high] = range(ys);
  const view = { x: (left + right) / 2, y: (low + high) / 2, zoom: 1 };
  let over = -1;
  const scale = () => Math.min(element.clientWidth / (right - left || 1), element.clientHeight / (high - low || 1)) * 0.9 * view.zoom;
  const place = (at) => [(xs[at] - view.x) * scale() + element.clientWidth / 2, (view.y - ys[at]) * scale() + element.clientHeight / 2];

  const draw = () => {
    const ratio = devicePixelRatio;
    canvas.width = element.clientWidth * ratio;
    canvas.height = element.clientHeight * ratio;
    canvas.style.width = `${element.clientWidth}px`;
    canvas.style.height = `${element.clientHeight}px`;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const column = Number(choice.value);
    const names = [...new Set(points.map((point) => point[column]))].sort();
    const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
    const paint = new Map(names.map((name, number) => [name, column === 3 ? colour(name) : name === "" ? colour("soft") : `hsl(${(number * 360) / Math.min(names.length, HUES)} 65% ${dark ? 68 : 42}%)`]));
    for (let at = 0; at < points.length; at += 1) {
      const [x, y] = place(at);
      pen.globalAlpha = at === over ? 1 : points[at][column] === "" ? 0.25 : 0.68;
      pen.fillStyle = paint.get(points[at][column]);
      pen.beginPath();
      pen.arc(x, y, at === over ? 7 : 3.5, 0, 7);
      pen.fill();
    }
    document.getElementById("legend").replaceChildren(...names.slice(0, HUES).map((name) => {
      const item = document.createElement("span");
      const dot = document.createElement("i");
      dot.style.background = paint.get(name);
      item.append(dot, name || "in no cluster");
      return item;
    }));
  };
  const nearest = (event) => {
    const box = canvas.getBoundingClientRect();
    let best = -1;
    let least = 144;
    for (let at = 0; at < points.length; at += 1) {
      const [x, y] = place(at);
      const away = (x - event.clientX + box.left) ** 2 + (y - event.clientY + box.top) ** 2;
      if (away < least) { least = away; best = at; }
    }
    return best;
  };
  let held = null;
  canvas.addEventListener("pointerdown", (event) => { held = { x: event.clientX, y: event.clientY, moved: false }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      const [x, y] = [event.clientX - held.x, event.clientY - held.y];
      if (held.moved || Math.abs(x) + Math.abs(y) > 4) {
        view.x -= x / scale();
        view.y += y / scale();
        held = { x: event.clientX, y: event.clientY, moved: true };
        draw();
      }
      return;
    }
    const at = nearest(event);
    if (at === over) return;
    over = at;
    canvas.style.cursor = at < 0 ? "grab" : "pointer";
    if (at >= 0) tell(points[at][0], points[at][5]);
    draw();
  });
  canvas.addEventListener("pointerup", (event) => {
    const at = held && !held.moved ? nearest(event) : -1;
    held = null;
    if (at >= 0) location.href = `/memory/${points[at][0]}`;
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    view.zoom = Math.max(0.5, Math.min(60, view.zoom * Math.exp(-event.deltaY / 400)));
    draw();
  }, { passive: false });
  choice.addEventListener("change", draw);
  return draw;
}

// -- drawing, at first and anew ------------------------------------------------------------------------------------

function start() {
  for (const element of [...drawn.keys()]) if (!element.isConnected) drawn.delete(element);
  const kinds = [["[data-chart]", lines, "uPlot"], ["#network", network, "cytoscape"], ["#map", map, "document"]];
  for (const [selector, make, library] of kinds) {
    if (!(library in window)) continue;
    for (const element of document.querySelectorAll(selector)) {
      if (!drawn.has(element)) {
        drawn.set(element, make(element));
        drawn.get(element)();
      }
    }
  }
}

const again = () => drawn.forEach((draw) => draw());
let waiting = 0;
window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(again, 150); });
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
document.addEventListener("DOMContentLoaded", start);
document.addEventListener("htmx:afterSettle", start);
document.addEventListener("htmx:afterSwap", (event) => {
  if (event.target.id === "hits") document.getElementById("typing").textContent = `${hits().length} memories are shown`;
});
