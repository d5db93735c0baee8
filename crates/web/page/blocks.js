// The picture of the erase blocks: one cell for one or several blocks, coloured by stream, wear or valid data.

const STREAMS = {
  h: ["--host", "host"], s: ["--sequential", "sequential"], g: ["--collected", "garbage collection"],
  w: ["--leveled", "wear leveling"], m: ["--map", "map"], l: ["--log", "log"], c: ["--slc", "one bit per cell"],
};
const WEAR = ["#2b2459", "#233979", "#01538b", "#056b8e", "#0a8394", "#079b99", "#02b595", "#5ec98a", "#9fd689", "#d2e397", "#faf0b4"];
const FLASH_MS = 500;

export class Blocks {
  constructor(figure) {
    this.canvas = figure.querySelector("canvas");
    this.legend = figure.querySelector(".legend");
    this.buttons = [...figure.querySelectorAll("[data-mode]")];
    this.mode = "uses";
    this.picture = null;
    this.erased = [];
    for (const button of this.buttons) {
      button.addEventListener("click", () => this.show(button.dataset.mode));
    }
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
    for (const button of this.buttons) button.disabled = button.dataset.mode !== "wear" && picture[button.dataset.mode] === "";
  }

  describe() {
    const { picture, mode } = this;
    if (!picture) return;
    const entries = { uses: this.streams, wear: this.wear, valid: this.valid }[mode].call(this, picture);
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
    if (present.has("v")) entries.push(["var(--victim)", "being emptied"]);
    entries.push(["var(--free)", "free"]);
    if (present.has("x")) entries.push(["var(--bad)", "bad"]);
    return entries;
  }

  wear() {
    return [[WEAR[0], "fewest erases"], [WEAR[5], "halfway between"], [WEAR[10], "most erases"]];
  }

  valid() {
    return [["var(--free)", "no valid data"], ["var(--accent)", "all data valid"]];
  }

  colors(style) {
    const { picture, mode } = this;
    const value = (name) => style.getPropertyValue(name).trim();
    if (mode === "wear") {
      const [min, , max] = picture.wear;
      const range = Math.max(max - min, 1);
      return (cell) => WEAR[Math.max(0, Math.min(10, Math.round(((picture.erases[cell] - min) / range) * 10)))];
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
    const ink = style.getPropertyValue("--ink");
    const gap = size > 4 ? 1 : 0.5;
    for (let cell = 0; cell < cells; cell += 1) {
      const [x, y] = [(cell % columns) * size, Math.floor(cell / columns) * size];
      context.fillStyle = color(cell);
      context.fillRect(x, y, size - gap, size - gap);
      const age = now - this.erased[cell];
      if (age < FLASH_MS) {
        context.globalAlpha = 0.7 * (1 - age / FLASH_MS);
        context.fillStyle = ink;
        context.fillRect(x, y, size - gap, size - gap);
        context.globalAlpha = 1;
      }
    }
  }
}
