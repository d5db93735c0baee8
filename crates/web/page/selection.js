// The place whose values the charts show: under the pointer, or chosen with the keyboard. All charts share it.

import { EDGE } from "./charts.js";

const none = { share: null, at: null, row: null };

export class Selection {
  constructor() {
    Object.assign(this, none);
    this.axes = { columns: 1, longest: [], low: 0, high: 0 };
    this.isStale = true;
  }

  set(place) {
    Object.assign(this, none, place);
    this.isStale = true;
  }

  // The selected column; null if nothing is selected. After a move of the pointer, the column stays at the
  // pointer. After a key, it stays with its interval.
  get column() {
    const { columns, longest } = this.axes;
    if (this.share !== null) return Math.min(Math.floor(this.share * columns), columns - 1);
    if (this.at === null || longest.length === 0) return null;
    const index = longest.findIndex((interval) => interval.from_ns >= this.at);
    return columns - longest.length + Math.max(index, 0);
  }

  // Connects a chart. Only the heat map has rows. A screen reader speaks the values of a chart only after a
  // key in this chart.
  connect(canvas, readout, hasRows) {
    canvas.tabIndex = 0;
    canvas.addEventListener("pointermove", (event) => this.point(canvas, event, hasRows));
    canvas.addEventListener("pointerdown", (event) => this.point(canvas, event, hasRows));
    // A lifted finger also leaves the canvas, but the user still has to read the values.
    canvas.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") this.set({}); });
    canvas.addEventListener("blur", () => { readout.ariaLive = "off"; this.set({}); });
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !this.press(event.key, hasRows)) return;
      event.preventDefault();
      readout.ariaLive = "polite";
    });
  }

  point(canvas, event, hasRows) {
    const share = (event.offsetX - EDGE.left) / (canvas.clientWidth - EDGE.left - EDGE.right);
    const height = (event.offsetY - EDGE.top) / (canvas.clientHeight - EDGE.top - EDGE.bottom);
    if (share < 0 || share > 1) return this.set({});
    const { low, high } = this.axes;
    const row = hasRows && height >= 0 && height < 1 ? high - Math.floor(height * (high - low + 1)) : null;
    this.set({ share, row });
  }

  // Moves the selection. Returns false if the key has no meaning here.
  press(key, hasRows) {
    const { columns, longest, low, high } = this.axes;
    if (longest.length === 0) return false;
    const first = columns - longest.length;
    const { column } = this;
    const go = (to, row = this.row) => {
      const within = Math.max(first, Math.min(columns - 1, to));
      this.set({ at: longest[within - first].from_ns, row });
    };
    const rows = (step) => hasRows && go(column ?? columns - 1, Math.max(low, Math.min(high, (this.row ?? Math.floor((low + high) / 2)) + step)));
    const actions = {
      ArrowLeft: () => go((column ?? columns) - 1), ArrowRight: () => go((column ?? columns - 2) + 1),
      Home: () => go(first), End: () => go(columns - 1), Escape: () => this.set({}),
      ArrowUp: () => rows(1), ArrowDown: () => rows(-1),
    };
    if (!actions[key] || (!hasRows && (key === "ArrowUp" || key === "ArrowDown"))) return false;
    actions[key]();
    return true;
  }
}
