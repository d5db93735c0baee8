// The connection to the server: the token, the state, the event stream, and commands.

const KEY = "flashlab-token";
const REOPEN_MS = 3000;
const UNREACHABLE = "the connection to flashlab is lost; trying again";

// The address that the command printed carries the token after the #. The token moves to the session's storage, so that
// it stays neither in the address bar nor in the history.
// Returns true if the address has a token.
const storeToken = () => {
  const fromAddress = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!fromAddress) return false;
  sessionStorage.setItem(KEY, fromAddress);
  history.replaceState(null, "", location.pathname);
  return true;
};
storeToken();
// If the user enters the address of a restarted server in the same tab, only the hash differs, so the browser
// loads no page by itself.
addEventListener("hashchange", () => { if (storeToken()) location.reload(); });
const token = sessionStorage.getItem(KEY);

export const mayChange = token !== null;

// Sends a command. Rejects with the server's reason if the command is refused.
export async function command(body) {
  const response = await fetch("api/control", {
    method: "POST",
    headers: { "Content-Type": "application/json", "Authorization": `Bearer ${token ?? ""}` },
    body: JSON.stringify(body),
  }).catch(() => { throw new Error(UNREACHABLE); });
  if (!response.ok) throw new Error((await response.text()).trim());
}

// Calls `whole` with the complete state at the start and after a gap, `next` with each later state, and `lost` with the
// reason if the server cannot be reached.
export function watch(whole, next, lost) {
  let tick = null;
  let isLoading = false;
  const load = async () => {
    isLoading = true;
    try {
      const response = await fetch("api/state").catch(() => { throw new Error(UNREACHABLE); });
      if (!response.ok) throw new Error((await response.text()).trim());
      const state = await response.json();
      tick = state.tick;
      whole(state);
    } catch (error) {
      lost(error.message);
    } finally {
      isLoading = false;
    }
  };
  const open = () => {
    const source = new EventSource("api/events");
    source.onmessage = (event) => {
      const state = JSON.parse(event.data);
      if (isLoading) return;
      if (tick === null || state.tick > tick + 1 || state.tick < tick) return load();
      const isNew = state.tick > tick;
      tick = state.tick;
      next(state, isNew);
    };
    source.onopen = load;
    source.onerror = () => {
      lost(UNREACHABLE);
      // The browser itself connects again, except after a status other than 200, such as 503 while too many pages are open.
      if (source.readyState === EventSource.CLOSED) setTimeout(open, REOPEN_MS);
    };
  };
  open();
}
