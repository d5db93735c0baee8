// Charts over the last intervals: the latency heat map, the bandwidth, and the stack of mechanisms.

import * as format from "./format.js";

// Names of the mechanisms, in the order in which the server sends their times.
export const MECHANISMS = ["bus", "host", "firmware", "program", "read", "read-modify-write", "merge", "map", "queue", "busy",
  "fold", "housekeeping", "cache"];
// Colour and name of each direction, in the order in which the server sends their bytes.
const DIRECTIONS = [["--m-read", "read"], ["--host", "written"], ["--leveled", "discarded"]];
const COLUMNS = 300;
const LEFT = 52;
const BOTTOM = 4;

const sum = (values) => values.reduce((total, value) => total + value, 0);
const seconds = (interval) => Math.max(interval.to_ns - interval.from_ns, 1) / 1e9;

// Prepares a canvas for drawing in CSS pixels.
function prepare(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const style = getComputedStyle(document.documentElement);
  context.font = "11px system-ui, sans-serif";
  return { context, width, height, color: (name) => style.getPropertyValue(name).trim() };
}

function label({ context, color }, text, y) {
  context.fillStyle = color("--soft");
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillText(text, LEFT - 6, y);
}

function grid(chart, y) {
  chart.context.fillStyle = chart.color("--rule");
  chart.context.fillRect(LEFT, y, chart.width - LEFT, 1);
}

// The newest interval is at the right edge.
const column = (chart, index, length) => {
  const step = (chart.width - LEFT) / COLUMNS;
  return [LEFT + (COLUMNS - length + index) * step, Math.max(step, 1)];
};

export function drawHeat(canvas, intervals, bounds) {
  const chart = prepare(canvas);
  const rows = intervals.flatMap((interval) => interval.latencies.map(([row]) => row));
  const low = Math.max(Math.min(...rows, 10) - 1, 0);
  const high = Math.min(Math.max(...rows, 15) + 1, bounds.length - 1);
  const step = (chart.height - BOTTOM) / (high - low + 1);
  const top = (row) => (high - row) * step;
  for (let row = low; row <= high; row += 1) {
    if (row % 5 !== 4) continue;
    grid(chart, top(row));
    label(chart, format.latency(bounds[row]), Math.max(top(row), 6));
  }
  chart.context.fillStyle = chart.color("--accent");
  intervals.forEach((interval, index) => {
    const [x, width] = column(chart, index, intervals.length);
    const total = sum(interval.latencies.map(([, count]) => count));
    for (const [row, count] of interval.latencies) {
      chart.context.globalAlpha = 0.2 + 0.8 * Math.sqrt(count / total);
      chart.context.fillRect(x, top(row), width, Math.max(step - 0.5, 1));
    }
  });
  chart.context.globalAlpha = 1;
}

function drawScale(chart, most, text) {
  for (const share of [0, 0.5, 1]) {
    const y = 8 + (1 - share) * (chart.height - BOTTOM - 9);
    grid(chart, y);
    label(chart, text(most * share), y);
  }
  return (value) => (value / most) * (chart.height - BOTTOM - 9);
}

// Bytes per second of each interval, by direction. The bytes of an interval's requests are spread over the time of the
// requests: a request that is longer than an interval belongs to several. The rate is null after the last completion if
// requests are in flight, because their bytes are not known to have moved yet.
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
export const shownDirections = (intervals) => DIRECTIONS.filter((_, direction) => isPresent(intervals, direction));

export function drawBandwidth(canvas, intervals, inFlight) {
  const chart = prepare(canvas);
  const all = rates(intervals, inFlight);
  const most = Math.max(...all.flat(), 1024);
  const height = drawScale(chart, most, (value) => format.bytes(value).replace(/(\.\d)\d/, "$1"));
  DIRECTIONS.forEach(([name], direction) => {
    if (!isPresent(intervals, direction)) return;
    chart.context.strokeStyle = chart.color(name);
    chart.context.lineWidth = 1.6;
    chart.context.beginPath();
    all.forEach((rate, index) => {
      if (rate[direction] === null) return;
      const [x, width] = column(chart, index, intervals.length);
      chart.context.lineTo(x + width / 2, chart.height - BOTTOM - height(rate[direction]));
    });
    chart.context.stroke();
  });
}

export function drawMechanisms(canvas, intervals) {
  const chart = prepare(canvas);
  const mean = (interval) => sum(interval.mechanisms_ns) / Math.max(sum(interval.requests), 1);
  const most = Math.max(...intervals.map(mean), 1000);
  const height = drawScale(chart, most, (value) => format.latency(value).replace(/(\.\d)\d/, "$1"));
  const colors = MECHANISMS.map((name) => chart.color(`--m-${name}`));
  intervals.forEach((interval, index) => {
    const requests = Math.max(sum(interval.requests), 1);
    const [x, width] = column(chart, index, intervals.length);
    let y = chart.height - BOTTOM;
    interval.mechanisms_ns.forEach((ns, mechanism) => {
      if (ns === 0) return;
      const part = height(ns / requests);
      y -= part;
      chart.context.fillStyle = colors[mechanism];
      chart.context.fillRect(x, y, width + 0.3, part);
    });
  });
}

// The last ten intervals, and the simulated time to which their requests belong: it begins and ends with a request, so
// that the rate of long requests does not depend on the number that happen to end in these intervals.
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
