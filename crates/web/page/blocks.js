// The picture of the erase blocks: one cell for one or several blocks, coloured by stream, wear or valid data.

import * as format from "./format.js";

const STREAMS = {
  h: ["--host", "host"], s: ["--sequential", "sequential"], g: ["--collected", "garbage collection"],
  w: ["--leveled", "wear leveling"], m: ["--map", "map"], l: ["--log", "log"], c: ["--slc", "one bit per cell"],
};
// Number of steps of the wear scale, from no erase to the greatest count; the colours are --h0 to --h10, as in reports.
const STEPS = 10;
// Swatch of the legend with the colour of a closed block at the left and of an open block at the right.
const OPEN = "linear-gradient(90deg, color-mix(in srgb, var(--host) 62%, var(--free)) 50%, var(--host) 50%)";
const FLASH_MS = 500;

// State or stream of a cell in words.
const use = (letter) => {
  const known = { ".": "free", "x": "bad", "v": "being emptied" }[letter];
  if (known) return known;
  const isOpen = letter === letter.toUpperCase();
  return `${STREAMS[letter.toLowerCase()][1]}${isOpen ? ", being written" : ""}`;
};
const step = (erases, most) => Math.min(STEPS, Math.round((erases * STEPS) / Math.max(most, 1)));

export class Blocks {
  constructor(figure) {
    this.canvas = figure.querySelector("canvas");
    this.legend = figure.querySelector(".legend");
    this.unit = figure.querySelector(".unit");
    this.buttons = [...figure.querySelectorAll("[data-mode]")];
    this.mode = "uses";
    this.picture = null;
    this.erased = [];
    this.readout = figure.querySelector(".readout");
    this.cell = null;
    this.connect();
    for (const button of this.buttons) {
      button.addEventListener("click", () => this.show(button.dataset.mode));
    }
  }

  // Shows the values of the cell under the pointer, or of the cell that arrow keys choose.
  connect() {
    const { canvas } = this;
    const choose = (cell) => {
      const cells = this.picture?.erases.length ?? 0;
      this.cell = cell === null || cells === 0 ? null : Math.max(0, Math.min(cells - 1, cell));
      this.isStale = true;
      this.read();
    };
    const point = (event) => {
      const column = Math.floor(event.offsetX / this.size);
      const cell = Math.floor(event.offsetY / this.size) * this.columns + column;
      choose(column < this.columns && cell < (this.picture?.erases.length ?? 0) ? cell : null);
    };
    const moves = { ArrowLeft: () => -1, ArrowRight: () => 1, ArrowUp: () => -this.columns, ArrowDown: () => this.columns };
    canvas.tabIndex = 0;
    canvas.addEventListener("pointermove", point);
    canvas.addEventListener("pointerdown", point);
    // A lifted finger also leaves the canvas, but the user still has to read the values.
    canvas.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") choose(null); });
    canvas.addEventListener("blur", () => { this.readout.ariaLive = "off"; choose(null); });
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape") choose(null);
      else if (moves[event.key]) choose(this.cell === null ? 0 : this.cell + moves[event.key]());
      else return;
      event.preventDefault();
      this.readout.ariaLive = "polite";
    });
  }

  // Writes the values of the chosen cell.
  read() {
    const { picture, cell } = this;
    let text = "The pointer or the arrow keys show values.";
    if (picture && cell !== null && cell < picture.erases.length) {
      const first = cell * picture.per_cell;
      const last = Math.min(first + picture.per_cell, picture.count) - 1;
      const erases = `${picture.erases[cell]} ${picture.erases[cell] === 1 ? "erase" : "erases"}`;
      const parts = [last > first ? `blocks ${first} to ${last}: at most ${erases}` : `block ${first}: ${erases}`];
      if (picture.uses !== "") parts.push(use(picture.uses[cell]));
      if (picture.valid !== "") parts.push(`${(picture.valid.charCodeAt(cell) - 97) * 4} % valid`);
      text = parts.join(", ");
    }
    if (this.readout.textContent !== text) this.readout.textContent = text;
  }

  show(mode) {
    this.mode = mode;
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
    this.describe();
    this.isStale = true;
  }

  update(picture, now) {
    const before = this.picture?.erases;
    if (before?.length !== picture.erases.length) this.erased = new Array(picture.erases.length).fill(-Infinity);
    else picture.erases.forEach((erases, cell) => { if (erases > before[cell]) this.erased[cell] = now; });
    const isFirst = this.picture === null;
    this.picture = picture;
    this.isStale = true;
    if (isFirst && picture.uses === "") this.show("wear");
    else this.describe();
    this.read();
    for (const button of this.buttons) button.disabled = button.dataset.mode !== "wear" && picture[button.dataset.mode] === "";
  }

  describe() {
    const { picture, mode } = this;
    if (!picture) return;
    const entries = { uses: this.streams, wear: this.wear, valid: this.valid }[mode].call(this, picture);
    entries.push(["var(--flash)", "just erased"]);
    this.unit.textContent = picture.per_cell > 1 ? `1 cell = ${picture.per_cell} blocks of ${format.bytes(picture.block_bytes)}` : `1 cell = 1 block of ${format.bytes(picture.block_bytes)}`;
    const text = entries.map(([, name]) => name).join(", ");
    const [min, mean, max] = picture.wear;
    const label = `${picture.count} erase blocks, ${picture.bad} bad, erased ${min} to ${max} times, ${mean.toFixed(1)} on average; ${text}`;
    if (this.canvas.getAttribute("aria-label") !== label) this.canvas.setAttribute("aria-label", label);
    const signature = `${mode}${text}`;
    if (signature === this.signature) return;
    this.signature = signature;
    this.legend.replaceChildren(...entries.map(([color, name]) => {
      const item = document.createElement("li");
      const swatch = document.createElement("i");
      swatch.style.background = color;
      item.append(swatch, name);
      return item;
    }));
  }

  streams(picture) {
    const present = new Set(picture.uses);
    const entries = [];
    for (const [letter, [color, name]] of Object.entries(STREAMS)) {
      if (present.has(letter) || present.has(letter.toUpperCase())) entries.push([`var(${color})`, name]);
    }
    if (/[A-Z]/.test(picture.uses)) entries.push([OPEN, "full colour: being written"]);
    if (present.has("v")) entries.push(["var(--victim)", "being emptied"]);
    entries.push(["var(--free)", "free"]);
    if (present.has("x")) entries.push(["var(--bad)", "bad"]);
    return entries;
  }

  // Counts from zero to the greatest count, each with the colour of its step.
  wear({ wear: [, , most] }) {
    const steps = most <= 4 ? Array.from({ length: most + 1 }, (_, count) => count) : [0, 0.25, 0.5, 0.75, 1].map((share) => Math.round(share * most));
    return steps.map((count) => [`var(--h${step(count, most)})`, `${count} ${count === 1 ? "erase" : "erases"}`]);
  }

  valid() {
    return [["var(--free)", "no valid data"], ["var(--accent)", "all data valid"]];
  }

  colors(style) {
    const { picture, mode } = this;
    const value = (name) => style.getPropertyValue(name).trim();
    if (mode === "wear") {
      const shades = Array.from({ length: STEPS + 1 }, (_, n) => value(`--h${n}`));
      return (cell) => shades[step(picture.erases[cell], picture.wear[2])];
    }
    if (mode === "valid") {
      const [free, full] = [value("--free"), value("--accent")];
      const mixed = Array.from({ length: 26 }, (_, n) => `color-mix(in srgb, ${full} ${n * 4}%, ${free})`);
      return (cell) => mixed[picture.valid.charCodeAt(cell) - 97];
    }
    const known = { ".": value("--free"), "x": value("--bad"), "v": value("--victim") };
    for (const [letter, [color]] of Object.entries(STREAMS)) {
      known[letter.toUpperCase()] = value(color);
      known[letter] = `color-mix(in srgb, ${value(color)} 62%, ${value("--free")})`;
    }
    return (cell) => known[picture.uses[cell]];
  }

  // Draws the picture; cells that were erased recently glow.
  draw(now) {
    const { canvas, picture } = this;
    if (!picture) return;
    const isGlowing = this.erased.some((at) => now - at < FLASH_MS);
    const width = canvas.clientWidth;
    if (!this.isStale && !isGlowing && !this.wasGlowing && width === this.width) return;
    [this.isStale, this.wasGlowing, this.width] = [false, isGlowing, width];
    const cells = picture.erases.length;
    const size = Math.max(3, Math.min(16, Math.floor(Math.sqrt((width * 200) / cells))));
    const columns = Math.max(1, Math.floor(width / size));
    [this.size, this.columns] = [size, columns];
    const rows = Math.ceil(cells / columns);
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(rows * size * ratio)];
    if (canvas.width !== w || canvas.height !== h) {
      [canvas.width, canvas.height] = [w, h];
      canvas.style.height = `${rows * size}px`;
    }
    const context = canvas.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    const color = this.colors(style);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, rows * size);
    const flash = style.getPropertyValue("--flash");
    const gap = size > 4 ? 1 : 0.5;
    for (let cell = 0; cell < cells; cell += 1) {
      const [x, y] = [(cell % columns) * size, Math.floor(cell / columns) * size];
      context.fillStyle = color(cell);
      context.fillRect(x, y, size - gap, size - gap);
      const age = now - this.erased[cell];
      if (age < FLASH_MS) {
        context.globalAlpha = 1 - age / FLASH_MS;
        context.fillStyle = flash;
        context.fillRect(x, y, size - gap, size - gap);
        context.globalAlpha = 1;
      }
    }
    if (this.cell === null || this.cell >= cells) return;
    context.strokeStyle = style.getPropertyValue("--ink");
    context.lineWidth = 1.5;
    context.strokeRect((this.cell % columns) * size - 0.5, Math.floor(this.cell / columns) * size - 0.5, size, size);
  }
}
