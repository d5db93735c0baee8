// The controls: each one sends a command, and shows the server's reason if the command is refused.

import { command, mayChange } from "./server.js";
import * as format from "./format.js";

const element = (id) => document.getElementById(id);

// Sends a command. Shows the reason for a refusal until a command succeeds.
export async function send(body) {
  const notice = element("notice");
  try {
    await command(body);
    notice.hidden = true;
    return true;
  } catch (error) {
    // A screen reader announces text that changes in a visible element.
    notice.hidden = false;
    element("message").textContent = error.message;
    return false;
  }
}

let isPaused = false;
let isSliding = false;

export function start() {
  const pause = () => send({ do: isPaused ? "resume" : "pause" });
  const step = () => send({ do: "step" });
  element("pause").addEventListener("click", pause);
  element("step").addEventListener("click", step);
  const speed = element("speed");
  const chosen = () => 10 ** Number(speed.value);
  speed.addEventListener("input", () => {
    isSliding = true;
    element("speed-text").textContent = format.factor(chosen());
  });
  speed.addEventListener("change", async () => {
    await send({ do: "speed", factor: chosen() });
    isSliding = false;
  });
  changes();
  element("dismiss").addEventListener("click", () => { element("notice").hidden = true; });
  const header = document.querySelector("header");
  new ResizeObserver(() => document.documentElement.style.setProperty("--header", `${header.offsetHeight}px`)).observe(header);
  document.addEventListener("keydown", (event) => {
    // The slider and the choice of a device keep the focus after their use, and need no letters.
    const isTyping = event.target.closest("input:not([type=range]):not([type=radio]), textarea, select");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (element("time-controls").hidden || element("time-controls").inert) return;
    if (event.key === "p") pause();
    if (event.key === "s") step();
  });
}

// The device that the next change addresses; empty if the change addresses all devices.
const target = () => {
  const value = document.querySelector("input[name=which]:checked").value;
  return value === "" || element("which").hidden ? {} : { device: Number(value) };
};

const MIB = 1048576;

// Connects the controls that change a device to their commands.
function changes() {
  for (const id of ["cut", "unplug", "plug"]) element(id).addEventListener("click", () => send({ do: id, ...target() }));
  for (const id of ["alone", "restart"]) element(id).addEventListener("click", () => send({ do: id }));
  const forms = {
    fault: (form) => ({ do: "fault", requests: Number(form.requests.value), ...target() }),
    discard: (form) => ({ do: "discard", offset: Number(form.offset.value) * MIB, bytes: Number(form.size.value) * MIB, ...target() }),
    number: (form) => ({ do: "set", key: form.key.value.trim(), value: form.value.value.trim(), ...target() }),
    beside: (form) => ({ do: "beside", device: form.device.value.trim() }),
    job: (form) => ({ do: "job", text: form.text.value }),
  };
  for (const [id, body] of Object.entries(forms)) {
    element(id).addEventListener("submit", (event) => {
      event.preventDefault();
      send(body(event.target.elements));
    });
  }
}

// Offers one choice for each device, and keeps the user's choice as long as its device exists.
function choices(names) {
  const list = element("which-devices");
  while (list.children.length > names.length) list.lastElementChild.remove();
  names.forEach((name, index) => {
    let label = list.children[index];
    if (!label) {
      label = document.createElement("label");
      const radio = document.createElement("input");
      [radio.type, radio.name, radio.value] = ["radio", "which", String(index)];
      label.append(radio, "");
      list.append(label);
    }
    if (label.lastChild.textContent !== name) label.lastChild.textContent = name;
  });
  if (!document.querySelector("input[name=which]:checked")) element("which-all").checked = true;
}

// Makes the controls unusable until the next state arrives.
export function disconnect() {
  element("time-controls").inert = element("changes").inert = true;
}

// Shows the state in the controls, except in a control that the user is moving.
export function update(state) {
  isPaused = state.paused ?? false;
  const has = (control) => mayChange && state.controls.includes(control);
  element("time-controls").inert = element("changes").inert = false;
  element("time-controls").hidden = !has("pause");
  const parts = { power: "cut", fault: "fault", discard: "discard", number: "set", beside: "beside", job: "job" };
  for (const [id, control] of Object.entries(parts)) element(id).hidden = !has(control);
  element("changes").hidden = !mayChange || state.controls.length === 0;
  element("which").hidden = state.devices.length < 2;
  choices(state.devices.map((device, index) => `${index + 1}: ${device.device}`));
  element("alone").disabled = state.devices.length < 2;
  element("view-only").hidden = mayChange || state.controls.length === 0;
  element("running").hidden = !state.job;
  if (element("running").textContent !== (state.job ?? "")) element("running").textContent = state.job ?? "";
  const job = element("job").elements.text;
  // The user may have cleared the field to write another job.
  if (job.value === "" && document.activeElement !== job) job.value = state.job ?? "";
  element("pause").textContent = isPaused ? "Resume" : "Pause";
  if (state.speed !== undefined && !isSliding && document.activeElement !== element("speed")) {
    element("speed").value = Math.log10(state.speed);
    element("speed-text").textContent = format.factor(state.speed);
  }
}
