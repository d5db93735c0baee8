// The controls: each one sends a command, and shows the server's reason if it is refused.

import { command, mayChange } from "./server.js";
import * as format from "./format.js";

const element = (id) => document.getElementById(id);

// Sends a command and shows the reason of a refusal until the next command succeeds.
export async function send(body) {
  const message = element("message");
  try {
    await command(body);
    message.hidden = true;
    return true;
  } catch (error) {
    message.textContent = error.message;
    message.hidden = false;
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
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !mayChange) return;
    if (event.key === "p") pause();
    if (event.key === "s") step();
  });
}

// Shows the state in the controls, without disturbing one that the user holds.
export function update(state) {
  isPaused = state.paused ?? false;
  element("time-controls").hidden = state.paused === undefined || !mayChange;
  element("pause").textContent = isPaused ? "Resume" : "Pause";
  if (state.speed !== undefined && !isSliding && document.activeElement !== element("speed")) {
    element("speed").value = Math.log10(state.speed);
    element("speed-text").textContent = format.factor(state.speed);
  }
}
