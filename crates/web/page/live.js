// The page: receives states from the server and draws them.

import { watch } from "./server.js";
import { Blocks } from "./blocks.js";
import * as charts from "./charts.js";
import * as controls from "./controls.js";
import * as format from "./format.js";
import { Selection } from "./selection.js";

// Minimum time between two changes of a label, so that a screen reader does not announce ten changes per second.
const LABEL_MS = 5000;

const element = (id) => document.getElementById(id);
const views = [];
const selection = new Selection();
const HINT = "The pointer or the arrow keys show values.";
let lastEvent = 0;
// Number of texts below charts, for their identifiers.
let readouts = 0;
let drawnWidth = "";

// One device on the page.
class View {
  constructor(parent) {
    this.root = element("device").content.cloneNode(true).firstElementChild;
    parent.append(this.root);
    this.blocks = new Blocks(this.find(".blocks"));
    this.intervals = [];
    this.labelled = -Infinity;
    for (const name of ["heat", "bandwidth", "mechanisms"]) {
      selection.connect(this.find(`.${name} canvas`), this.find(`.${name} .readout`), name === "heat");
    }
    for (const readout of this.root.querySelectorAll(".readout")) {
      readout.id = `readout-${readouts += 1}`;
      readout.parentElement.querySelector("canvas").setAttribute("aria-describedby", readout.id);
    }
    legend(this.find(".heat .legend"), charts.heatLegend());
  }

  find(selector) {
    return this.root.querySelector(selector);
  }

  update(device, bounds, isWhole, isNew, now) {
    if (isWhole) this.intervals = device.intervals;
    else if (isNew) this.intervals = [...this.intervals, ...device.intervals];
    // Older intervals belong to a device that this device has replaced.
    this.intervals = this.intervals.slice(Math.max(0, this.intervals.length - device.history));
    [this.device, this.bounds, this.isStale] = [device, bounds, true];
    this.find(".name").textContent = device.device;
    this.find(".phase").textContent = device.phase;
    this.find(".title").textContent = device.title;
    this.find(".blocks").hidden = !device.blocks;
    if (device.blocks) this.blocks.update(device.blocks, now);
    this.rates = charts.rates(this.intervals, device.in_flight);
    this.figures = charts.summary(this.intervals, device.in_flight);
    this.tiles();
    this.levels();
    this.counters();
    this.captions(now);
  }

  tiles() {
    const { figures, device } = this;
    const latency = (ns) => (figures.requestsPerSecond > 0 ? format.latency(ns) : "–");
    const counters = Object.fromEntries(device.counters);
    const tiles = [["requests per second", format.count(figures.requestsPerSecond)]];
    // An idle device keeps its tiles, so that the page does not jump.
    const has = (direction) => this.intervals.some((interval) => interval.bytes[direction] > 0);
    if (has(0)) tiles.push(["read per second", format.bytes(figures.readRate)]);
    if (has(1)) tiles.push(["written per second", format.bytes(figures.writeRate)]);
    tiles.push(["mean latency", latency(figures.latency)], ["greatest latency", latency(figures.latencyMax)]);
    if (counters.host_written_bytes > 0) {
      const ratio = counters.programmed_bytes / counters.host_written_bytes;
      tiles.push(["write amplification", ratio.toFixed(2)], ["written in total", format.bytes(counters.host_written_bytes)]);
    }
    if (device.blocks) {
      const { wear: [, mean, max], rated_cycles: rated } = device.blocks;
      tiles.push(["mean erases", mean.toFixed(1)], ["most erases", String(max)]);
      if (rated) tiles.push(["life left", `${Math.max(0, 100 * (1 - max / rated)).toFixed(1)} %`]);
    }
    const list = this.find(".tiles");
    while (list.children.length > tiles.length) list.lastElementChild.remove();
    tiles.forEach(([name, value], index) => {
      let tile = list.children[index];
      if (!tile) {
        tile = document.createElement("div");
        tile.append(document.createElement("dt"), document.createElement("dd"));
        list.append(tile);
      }
      tile.firstElementChild.textContent = name;
      tile.lastElementChild.textContent = value;
    });
  }

  levels() {
    const list = this.find(".levels");
    while (list.children.length > this.device.levels.length) list.lastElementChild.remove();
    this.device.levels.forEach(([name, used, capacity], index) => {
      let row = list.children[index];
      if (!row) {
        row = document.createElement("div");
        row.append(document.createElement("span"), document.createElement("meter"), document.createElement("span"));
        list.append(row);
      }
      row.children[0].textContent = name;
      [row.children[1].max, row.children[1].value] = [capacity, used];
      row.children[1].setAttribute("aria-label", name);
      row.children[2].textContent = `${format.bytes(used)} of ${format.bytes(capacity)}`;
    });
  }

  counters() {
    if (!this.find(".counters").open) return;
    this.find(".counters tbody").replaceChildren(...this.device.counters.map(([name, value]) => {
      const row = document.createElement("tr");
      const [head, cell] = [document.createElement("th"), document.createElement("td")];
      head.textContent = name.replaceAll("_", " ");
      head.scope = "row";
      cell.textContent = value.toLocaleString("en");
      row.append(head, cell);
      return row;
    }));
  }

  captions(now) {
    const { figures, intervals } = this;
    const span = intervals.length > 0 ? intervals.at(-1).to_ns - intervals[0].from_ns : 0;
    const over = span > 0 ? `the last ${format.span(span)}` : "no requests yet";
    this.find(".heat .unit").textContent = over;
    this.find(".bandwidth .unit").textContent = `bytes per second, ${over}`;
    const recent = `the last ${format.span(figures.span)}`;
    this.find(".mechanisms .unit").textContent = `mean latency, ${over}${span > 0 ? `; shares of ${recent}` : ""}`;
    legend(this.find(".bandwidth .legend"), charts.shownDirections(intervals));
    const shares = figures.mechanisms.map(([name, share]) => [`var(--m-${name})`, `${name} ${Math.round(share * 100)} %`]);
    legend(this.find(".mechanisms .legend"), shares);
    if (now - this.labelled < LABEL_MS) return;
    this.labelled = now;
    const set = (selector, label) => this.find(`${selector} canvas`).setAttribute("aria-label", label);
    const latency = figures.requestsPerSecond > 0 ? `${format.latency(figures.latency)} on average, at most ${format.latency(figures.latencyMax)}` : "no requests";
    set(".heat", `Latency over ${recent}: ${latency}`);
    set(".bandwidth", `Bandwidth over ${recent}: ${format.bytes(figures.readRate)} read and ${format.bytes(figures.writeRate)} written per second`);
    set(".mechanisms", `Mean latency by mechanism over ${recent}: ${shares.map(([, text]) => text).join(", ") || "no requests"}`);
  }

  draw(axes) {
    const place = { column: selection.column, row: selection.row };
    charts.drawHeat(this.find(".heat canvas"), this.intervals, axes, this.bounds, place);
    charts.drawBandwidth(this.find(".bandwidth canvas"), this.intervals, axes, this.rates, place);
    charts.drawMechanisms(this.find(".mechanisms canvas"), this.intervals, axes, place);
    const index = place.column === null ? -1 : place.column - axes.columns + this.intervals.length;
    const interval = this.intervals[index];
    const texts = interval ? charts.values(interval, this.rates[index], this.bounds, place.row) : {};
    for (const name of ["heat", "bandwidth", "mechanisms"]) {
      const hint = name === "heat" ? HINT : "";
      const text = texts[name] ?? (place.column === null ? hint : "no interval here");
      const readout = this.find(`.${name} .readout`);
      if (readout.textContent !== text) readout.textContent = text;
    }
  }
}

// Draws the charts of all devices on common axes, if a state, a width or the selection has changed.
function draw(now) {
  for (const view of views) view.blocks.draw(now);
  const width = views.map((view) => view.root.clientWidth).join();
  if (!selection.isStale && width === drawnWidth && !views.some((view) => view.isStale)) return;
  drawnWidth = width;
  selection.axes = charts.axes(views);
  for (const view of views) {
    view.draw(selection.axes);
    view.isStale = false;
  }
  selection.isStale = false;
}

// Shows the colours and texts of a legend.
function legend(list, entries) {
  const text = entries.map(([, name]) => name).join(", ");
  if (text === list.dataset.text) return;
  list.dataset.text = text;
  list.replaceChildren(...entries.map(([color, name]) => {
    const item = document.createElement("li");
    const swatch = document.createElement("i");
    swatch.style.background = color;
    item.append(swatch, name);
    return item;
  }));
}

function show(state, isWhole, isNew) {
  const now = performance.now();
  const parent = element("devices");
  while (views.length > state.devices.length) views.pop().root.remove();
  while (views.length < state.devices.length) views.push(new View(parent));
  state.devices.forEach((device, index) => {
    views[index].update(device, state.latency_bounds_ns, isWhole, isNew, now);
  });
  element("now").textContent = format.time(state.now_ns);
  const speed = views[0]?.figures.speed ?? null;
  const isSlow = state.speed !== undefined && speed < 0.7 * state.speed;
  const pace = state.paused ? "paused" : speed === null ? "" : `at ${format.factor(speed)}${isSlow ? ", as fast as possible" : ""}`;
  element("pace").textContent = pace;
  element("hint").hidden = !state.hint;
  element("hint").textContent = state.hint ?? "";
  controls.update(state);
  happenings(state.events, state.devices.length > 1);
  document.documentElement.dataset.ready = "true";
}

function happenings(events, isNamed) {
  const list = element("events");
  // A restarted server numbers its events from 1 again.
  if ((events.at(-1)?.number ?? 0) < lastEvent) {
    list.replaceChildren();
    lastEvent = 0;
  }
  const fresh = events.filter((event) => event.number > lastEvent);
  if (fresh.length === 0) return;
  if (lastEvent === 0) list.replaceChildren();
  lastEvent = fresh.at(-1).number;
  for (const event of fresh) {
    const item = document.createElement("li");
    const at = document.createElement("time");
    at.textContent = format.time(event.at_ns);
    item.append(at, isNamed ? `device ${event.device + 1}: ${event.text}` : event.text);
    list.prepend(item);
  }
  while (list.children.length > 60) list.lastElementChild.remove();
}

let frames = 0;
let counted = performance.now();
function frame(now) {
  draw(now);
  frames += 1;
  if (now - counted >= 1000) {
    document.documentElement.dataset.fps = String(Math.round((frames * 1000) / (now - counted)));
    [frames, counted] = [0, now];
  }
  requestAnimationFrame(frame);
}

controls.start();
watch(
  (state) => show(state, true, true),
  (state, isNew) => show(state, false, isNew),
  (reason) => {
    element("pace").textContent = reason;
    controls.disconnect();
    for (const view of views) view.find(".phase").textContent = "not connected";
  },
);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const view of views) view.isStale = view.blocks.isStale = true;
});
requestAnimationFrame(frame);
