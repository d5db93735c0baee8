// Formats numbers for people.

// Returns `value` with three significant digits, at most two of them decimals; a whole number without decimals.
const written = (value) => {
  // The digits follow from the rounded value: 9.996 is 10.0.
  const rounded = Number(value.toPrecision(3));
  return value.toFixed(rounded >= 100 || Number.isInteger(value) ? 0 : rounded >= 10 ? 1 : 2);
};

const scaled = (value, base, units) => {
  let unit = 0;
  // A value that rounds up to the base has the next unit.
  while (Number(written(value)) >= base && unit + 1 < units.length) {
    value /= base;
    unit += 1;
  }
  return `${written(value)} ${units[unit]}`;
};

export const bytes = (value) => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
export const latency = (ns) => scaled(ns, 1000, ["ns", "µs", "ms", "s"]);
export const count = (value) => {
  const whole = Math.round(value);
  return whole < 10000 ? String(whole) : scaled(value, 1000, ["", "k", "M", "G"]);
};

// A span of simulated time: "1.50 s", "5 min 30 s", "5 h 6 min", "3 d 4 h".
export const span = (ns) => {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  let left = Math.round(ns / 1e9);
  const from = units.findIndex(([, unit]) => left >= unit);
  if (from < 0 || from > 2) return latency(ns);
  return units.slice(from, from + 2).map(([name, unit]) => {
    const count = Math.floor(left / unit);
    left %= unit;
    return count > 0 ? `${count} ${name}` : "";
  }).filter(Boolean).join(" ");
};

// An instant of simulated time: "3 d 04:05:06", or with milliseconds "3 d 04:05:06.789".
export const clock = (ns, hasMs) => {
  const ms = Math.floor(ns / 1e6);
  const days = Math.floor(ms / 86400000);
  const two = (value) => String(value).padStart(2, "0");
  const hours = two(Math.floor(ms / 3600000) % 24);
  const text = `${hours}:${two(Math.floor(ms / 60000) % 60)}:${two(Math.floor(ms / 1000) % 60)}`;
  return `${days > 0 ? `${days} d ` : ""}${text}${hasMs ? `.${String(ms % 1000).padStart(3, "0")}` : ""}`;
};
export const time = (ns) => clock(ns, true);

export const factor = (value) => {
  const rounded = value >= 100 ? value.toFixed(0) : value >= 1 ? value.toFixed(1) : value.toPrecision(2);
  return `${Number(rounded)}×`;
};
