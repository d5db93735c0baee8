// Numbers for people.

const scaled = (value, base, units) => {
  let unit = 0;
  while (value >= base && unit + 1 < units.length) {
    value /= base;
    unit += 1;
  }
  const digits = value >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[unit]}`;
};

export const bytes = (value) => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
export const latency = (ns) => scaled(ns, 1000, ["ns", "µs", "ms", "s"]);
export const count = (value) => value < 10000 ? String(Math.round(value)) : scaled(value, 1000, ["", "k", "M", "G"]).trim();

// Simulated time: "3 d 04:05:06.789".
export const time = (ns) => {
  const ms = Math.floor(ns / 1e6);
  const days = Math.floor(ms / 86400000);
  const two = (value) => String(value).padStart(2, "0");
  const hours = two(Math.floor(ms / 3600000) % 24);
  const clock = `${hours}:${two(Math.floor(ms / 60000) % 60)}:${two(Math.floor(ms / 1000) % 60)}`;
  return `${days > 0 ? `${days} d ` : ""}${clock}.${String(ms % 1000).padStart(3, "0")}`;
};

export const factor = (value) => {
  const digits = value >= 100 ? 0 : value >= 1 ? 1 : 4;
  return `${Number(value.toFixed(digits))}×`;
};
