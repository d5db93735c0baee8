// Charts over the last intervals: the latency heat map, the bandwidth, and the stack of mechanisms.

import * as format from "./format.js";

// Names of the mechanisms, in the order in which the server sends their times.
export const MECHANISMS = ["bus", "host", "firmware", "program", "read", "read-modify-write", "merge", "map", "queue", "busy",
  "fold", "housekeeping", "cache", "cipher", "compression", "decompression"];
// Colour and name of each direction, in the order in which the server sends their bytes.
const DIRECTIONS = [["--m-read", "read"], ["--host", "written"], ["--leveled", "discarded"]];
// Edges of the plot in the canvas, in pixels: the labels are at the left and below.
export const EDGE = { left: 66, right: 8, top: 8, bottom: 20 };
// Minimum number of columns, so that a chart does not stretch a few intervals over its whole width.
const COLUMNS_MIN = 60;
// Number of rows of the heat map, as the server sends them.
const ROWS = 40;

const sum = (values) => values.reduce((total, value) => total + value, 0);
const seconds = (interval) => Math.max(interval.to_ns - interval.from_ns, 1) / 1e9;
const meanLatency = (interval) => sum(interval.mechanisms_ns) / Math.max(sum(interval.requests), 1);

// Returns the smallest round number that is at least `value`. Half of this number is round, too. `base` is
// the ratio of two units.
export function roundUp(value, base) {
  let unit = 1;
  while (value > unit * base * (base === 1024 ? 1000 / 1024 : 1)) unit *= base;
  for (let power = 1; ; power *= 10) {
    const step = [1, 2, 4, 6, 8].find((digit) => value <= digit * power * unit);
    if (step) return step * power * unit;
  }
}

// The axes that the charts of all devices share, so that equal heights and places mean equal values and times.
export function axes(devices) {
  const all = devices.flatMap((device) => device.intervals);
  const longest = devices.reduce((most, { intervals }) => (intervals.length > most.length ? intervals : most), []);
  const rows = all.flatMap((interval) => interval.latencies.map(([row]) => row));
  // Without requests: from 100 µs to 1 ms.
  const [least, most] = rows.length > 0 ? [Math.min(...rows), Math.max(...rows)] : [10, 13];
  const span = longest.length > 0 ? longest.at(-1).to_ns - longest[0].from_ns : 0;
  return {
    columns: Math.max(longest.length, COLUMNS_MIN),
    longest,
    isShort: span < 20e9,
    // Rows of the heat map: at least one decade.
    low: Math.max(Math.min(least - 1, ROWS - 6), 0),
    high: Math.min(Math.max(most + 1, least + 4), ROWS - 1),
    bandwidth: roundUp(Math.max(...devices.flatMap((device) => device.rates.flat()), 1024), 1024),
    latency: roundUp(Math.max(...all.map(meanLatency), 1000), 1000),
  };
}

// Prepares a canvas for drawing in CSS pixels, with the axis of the time and the marks of changes and gaps.
function prepare(canvas, intervals, axes) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const style = getComputedStyle(document.documentElement);
  context.font = "11px system-ui, sans-serif";
  const step = (width - EDGE.left - EDGE.right) / axes.columns;
  const first = axes.columns - intervals.length;
  const chart = {
    context, step, plot: height - EDGE.top - EDGE.bottom, right: width - EDGE.right, base: height - EDGE.bottom,
    color: (name) => style.getPropertyValue(name).trim(),
    // The newest interval is at the right edge.
    x: (index) => EDGE.left + (first + index) * step,
  };
  timeAxis(chart, axes);
  intervals.forEach((interval, index) => {
    const isGap = index > 0 && interval.from_ns > intervals[index - 1].to_ns;
    if (!interval.is_changed && !isGap) return;
    context.fillStyle = chart.color(interval.is_changed ? "--ink" : "--soft");
    for (let y = EDGE.top; y < chart.base; y += 6) context.fillRect(chart.x(index), y, 1, 3);
  });
  return chart;
}

function timeAxis(chart, axes) {
  const { context } = chart;
  context.fillStyle = chart.color("--soft");
  context.textBaseline = "bottom";
  const { longest } = axes;
  if (longest.length === 0) return;
  const mark = (index, at, align) => {
    const x = EDGE.left + (axes.columns - longest.length + index) * chart.step;
    context.textAlign = align;
    context.fillText(format.clock(at, axes.isShort), x, chart.base + EDGE.bottom);
    context.fillRect(Math.min(x, chart.right - 1), chart.base, 1, 4);
  };
  mark(longest.length, longest.at(-1).to_ns, "right");
  const room = longest.length * chart.step;
  if (room > 150) mark(0, longest[0].from_ns, "left");
  const middle = Math.floor(longest.length / 2);
  if (room > 260) mark(middle, longest[middle].from_ns, "center");
}

function label({ context, color }, text, y) {
  context.fillStyle = color("--soft");
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillText(text, EDGE.left - 6, y);
}

function grid(chart, y) {
  chart.context.fillStyle = chart.color("--rule");
  chart.context.fillRect(EDGE.left, y, chart.right - EDGE.left, 1);
}

// Marks the column whose values are shown.
function cursor(chart, axes, column) {
  if (column === null) return;
  chart.context.fillStyle = chart.color("--ink");
  chart.context.globalAlpha = 0.55;
  chart.context.fillRect(EDGE.left + (column + 0.5) * chart.step - 0.5, EDGE.top, 1, chart.plot);
  chart.context.globalAlpha = 1;
}

// Opacity of a cell with a share of the interval's requests.
const opacity = (share) => 0.2 + 0.8 * Math.sqrt(share);

// Legend of the heat map: a colour and a text for some shares of the requests of an interval.
export const heatLegend = () => [0.01, 0.25, 1].map((share) => {
  const text = `${share * 100} %${share === 1 ? " of the requests in its column" : ""}`;
  return [`color-mix(in srgb, var(--accent) ${Math.round(opacity(share) * 100)}%, var(--surface))`, text];
});

export function drawHeat(canvas, intervals, axes, bounds, { column, row: chosen }) {
  const chart = prepare(canvas, intervals, axes);
  const step = chart.plot / (axes.high - axes.low + 1);
  const top = (row) => EDGE.top + (axes.high - row) * step;
  for (let row = axes.low; row <= axes.high; row += 1) {
    // A map of few rows contains only one or two powers of ten, so each row has a label.
    if (row % 5 !== 4 && axes.high - axes.low > 7) continue;
    grid(chart, top(row));
    label(chart, format.latency(bounds[row]), top(row));
  }
  chart.context.fillStyle = chart.color("--accent");
  intervals.forEach((interval, index) => {
    const total = sum(interval.latencies.map(([, count]) => count));
    for (const [row, count] of interval.latencies) {
      chart.context.globalAlpha = opacity(count / total);
      chart.context.fillRect(chart.x(index), top(row), Math.max(chart.step, 1), Math.max(step - 0.5, 1));
    }
  });
  chart.context.globalAlpha = 1;
  cursor(chart, axes, column);
  if (column === null || chosen === null) return;
  chart.context.strokeStyle = chart.color("--ink");
  chart.context.strokeRect(EDGE.left + column * chart.step - 1, top(chosen) - 0.5, chart.step + 2, step);
}

function drawScale(chart, most, text) {
  for (const share of [0, 0.5, 1]) {
    const y = EDGE.top + (1 - share) * chart.plot;
    grid(chart, y);
    label(chart, text(most * share), y);
  }
  return (value) => (value / most) * chart.plot;
}

// Bytes per second of each interval, by direction. The bytes of an interval's requests are spread over the
// time of the requests: a request that is longer than an interval belongs to several intervals. The rate is
// null after the last completion if requests are in flight, because their bytes are not known to have moved
// yet.
export function rates(intervals, inFlight) {
  const moved = intervals.map(() => DIRECTIONS.map(() => 0));
  let ended = -Infinity;
  intervals.forEach(({ bytes, busy_from_ns: submitted, busy_to_ns: to }, index) => {
    if (to === 0) return;
    const from = Math.max(submitted, ended);
    ended = Math.max(ended, to);
    if (to <= from) return bytes.forEach((count, direction) => { moved[index][direction] += count; });
    for (let part = index; part >= 0; part -= 1) {
      const end = part === index ? to : Math.min(to, intervals[part].to_ns);
      const share = Math.max(end - Math.max(from, intervals[part].from_ns), 0) / (to - from);
      bytes.forEach((count, direction) => { moved[part][direction] += count * share; });
      if (intervals[part].from_ns <= from) break;
    }
  });
  return intervals.map(({ from_ns: from, to_ns: to }, index) => {
    const known = (inFlight > 0 ? Math.min(to, ended) : to) - from;
    return moved[index].map((count) => (known > 0 ? (count * 1e9) / known : null));
  });
}

const isPresent = (intervals, direction) => intervals.some((interval) => interval.bytes[direction] > 0);

// Colour and name of each direction that the chart of the bandwidth shows.
export const shownDirections = (intervals) => DIRECTIONS.filter((_, direction) => isPresent(intervals, direction))
  .map(([color, name]) => [`var(${color})`, name]);

export function drawBandwidth(canvas, intervals, axes, all, { column }) {
  const chart = prepare(canvas, intervals, axes);
  const height = drawScale(chart, axes.bandwidth, format.bytes);
  DIRECTIONS.forEach(([name], direction) => {
    if (!isPresent(intervals, direction)) return;
    chart.context.strokeStyle = chart.color(name);
    chart.context.lineWidth = 1.6;
    chart.context.beginPath();
    all.forEach((rate, index) => {
      if (rate[direction] === null) return;
      chart.context.lineTo(chart.x(index) + chart.step / 2, chart.base - height(rate[direction]));
    });
    chart.context.stroke();
  });
  cursor(chart, axes, column);
}

export function drawMechanisms(canvas, intervals, axes, { column }) {
  const chart = prepare(canvas, intervals, axes);
  const height = drawScale(chart, axes.latency, format.latency);
  const colors = MECHANISMS.map((name) => chart.color(`--m-${name}`));
  intervals.forEach((interval, index) => {
    const requests = Math.max(sum(interval.requests), 1);
    let y = chart.base;
    interval.mechanisms_ns.forEach((ns, mechanism) => {
      if (ns === 0) return;
      const part = height(ns / requests);
      y -= part;
      chart.context.fillStyle = colors[mechanism];
      chart.context.fillRect(chart.x(index), y, Math.max(chart.step, 1) + 0.3, part);
    });
  });
  cursor(chart, axes, column);
}

// Returns the values of an interval as texts for the heat map, the bandwidth and the mechanisms.
export function values(interval, rate, bounds, row) {
  const at = format.clock(interval.from_ns, true) + (interval.is_changed ? " (a number changed)" : "");
  const requests = sum(interval.requests);
  const counted = (count) => `${count} ${count === 1 ? "request" : "requests"}`;
  const mean = meanLatency(interval);
  const latency = requests === 0 ? "no request" : `${counted(requests)}, mean ${format.latency(mean)}, greatest ${format.latency(interval.latency_max_ns)}`;
  const inRow = interval.latencies.find(([known]) => known === row)?.[1] ?? 0;
  const cell = row === null ? "" : `; ${row === 0 ? "0 ns" : format.latency(bounds[row - 1])} to ${format.latency(bounds[row])}: ${inRow}`;
  const moved = DIRECTIONS.map(([, name], direction) => [name, rate[direction]]).filter(([, bytes]) => bytes > 0);
  const isKnown = rate.some((bytes) => bytes !== null);
  const parts = interval.mechanisms_ns.map((ns, index) => [MECHANISMS[index], ns / Math.max(requests, 1)]).filter(([, ns]) => ns > 0);
  parts.sort(([, one], [, other]) => other - one);
  return {
    heat: `${at}: ${latency}${cell}`,
    bandwidth: `${at}: ${!isKnown ? "requests in flight" : moved.map(([name, bytes]) => `${format.bytes(bytes)}/s ${name}`).join(", ") || "nothing moved"}`,
    mechanisms: `${at}: ${parts.length === 0 ? "no request" : `${format.latency(mean)}: ${parts.map(([name, ns]) => `${name} ${format.latency(ns)}`).join(", ")}`}`,
  };
}

// At most the last ten intervals, from the last change of a number on, and the simulated time to which their
// requests belong. This time begins and ends with a request. Otherwise the rate of long requests would depend
// on how many of them end in these intervals.
function recent(intervals, inFlight) {
  const last = intervals.slice(-10);
  last.splice(0, last.findLastIndex((interval) => interval.is_changed));
  if (last.length === 0) return { last, from: 0, to: 0 };
  const before = Math.max(0, ...intervals.slice(0, intervals.length - last.length).map((interval) => interval.busy_to_ns));
  const busy = last.filter((interval) => interval.busy_to_ns > 0);
  const [from, to] = [last[0].from_ns, last.at(-1).to_ns];
  if (busy.length === 0) return { last, from, to };
  const begun = Math.max(before, busy[0].busy_from_ns);
  return { last, from: Math.min(from, begun), to: inFlight > 0 ? Math.max(begun + 1, busy.at(-1).busy_to_ns) : to };
}

// Figures of the last intervals, and the simulated time that they span, for tiles, captions and screen readers.
export function summary(intervals, inFlight) {
  const { last, from, to } = recent(intervals, inFlight);
  const time = (to - from) / 1e9;
  const simulated = sum(last.map(seconds));
  const wall = sum(last.map((interval) => interval.wall_ns)) / 1e9;
  const total = (of) => sum(last.map(of));
  const requests = total((interval) => sum(interval.requests));
  const mechanisms = MECHANISMS.map((name, index) => [name, total((interval) => interval.mechanisms_ns[index])]);
  const latency = sum(mechanisms.map(([, ns]) => ns));
  return {
    span: simulated * 1e9,
    requestsPerSecond: time > 0 ? requests / time : 0,
    readRate: time > 0 ? total((interval) => interval.bytes[0]) / time : 0,
    writeRate: time > 0 ? total((interval) => interval.bytes[1]) / time : 0,
    latency: requests > 0 ? latency / requests : 0,
    latencyMax: Math.max(0, ...last.map((interval) => interval.latency_max_ns)),
    speed: wall > 0 ? simulated / wall : null,
    mechanisms: mechanisms.filter(([, ns]) => ns > 0).map(([name, ns]) => [name, ns / latency]),
  };
}
