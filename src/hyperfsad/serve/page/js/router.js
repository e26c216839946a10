// Which view an address shows. Addresses stand behind the #, so one page serves them all.

import { replace } from "./dom.js";
import { t } from "./i18n.js";
import { setKeys } from "./keys.js";
import { tell } from "./said.js";

let views = [];
let leave = () => {};
let turn = 0;

// "/products/:id" → the parameters of an address, or null.
function matched(pattern, path) {
  const wanted = pattern.split("/");
  const found = path.split("/");
  if (wanted.length !== found.length) return null;
  const params = {};
  for (const [place, part] of wanted.entries()) {
    if (part.startsWith(":")) params[part.slice(1)] = decodeURIComponent(found[place]);
    else if (part !== found[place]) return null;
  }
  return params;
}

export function setViews(found) {
  views = found;
}

export function go(path) {
  if (location.hash === `#${path}`) show();
  else location.hash = path;
}

export function here() {
  const [path, query = ""] = (location.hash.slice(1) || "/").split("?");
  return { path, query: new URLSearchParams(query) };
}

// Shows what the address names; the first view is the answer to all that is unknown.
export async function show() {
  turn += 1;
  const mine = turn;
  leave();
  const controller = new AbortController();
  const cleanups = [() => controller.abort()];
  leave = () => cleanups.splice(0).forEach((clean) => clean());
  const { path, query } = here();
  const found = views.map((view) => [view, matched(view.path, path)]).find(([, params]) => params !== null);
  const [view, params] = found ?? [views[0], {}];
  const place = document.getElementById("main");
  replace(place);
  place.className = `view-${view.name}`;
  setKeys([]);
  const title = view.nav ?? view.menu;
  document.title = title ? `${t(title)} · Hyper-FSAD` : "Hyper-FSAD";
  const context = { params, query, signal: controller.signal, leaving: (clean) => cleanups.push(clean) };
  try {
    await view.show(place, context);
  } catch (error) {
    if (error.name !== "AbortError" && mine === turn) tell(error);
  }
  if (mine !== turn) return;
  // screen readers begin where something is new, and nobody's focus is taken that is in the view already
  if (mine > 1 && document.activeElement === document.body) place.focus({ preventScroll: true });
}
