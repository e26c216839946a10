// What the page has to say: a line at the bottom, which screen readers hear too.

import { h, replace } from "./dom.js";
import { ApiError } from "./api.js";
import { currentLanguage, t } from "./i18n.js";

const LONG = 8000;
const STATUS = {
  0: "error.away", 401: "error.signin", 403: "error.role", 404: "error.missing", 409: "error.conflict",
  410: "error.gone", 413: "error.large", 422: "error.unusable", 429: "error.often", 503: "error.busy", 507: "error.full",
};
let timer = 0;

// The station's own sentence; in other languages than English, ours comes first.
export function sentence(error) {
  if (!(error instanceof ApiError)) return String(error.message ?? error);
  const own = t(STATUS[error.status] ?? "error.other");
  if (!error.message) return own;
  return currentLanguage() === "en" ? error.message : `${own} (${error.message})`;
}

export function tell(error) {
  if (error.name === "AbortError") return;
  say(sentence(error), { bad: true });
}

// Several sentences, one below the other; they stay until somebody closes them.
export function sayAll(sentences, bad) {
  say(sentences.map((one) => h("span", { class: "line" }, one)), { bad, stays: true });
}

// `actions` are buttons that belong to it, such as undo.
export function say(text, { bad = false, actions = [], stays = false } = {}) {
  const place = document.getElementById("said");
  clearTimeout(timer);
  const close = h("button", { type: "button", class: "quiet", "aria-label": t("close"), onclick: hush }, "×");
  replace(place, h("div", { class: bad ? "toast bad" : "toast" }, h("span", {}, text), actions, close));
  if (!stays) timer = setTimeout(hush, bad ? 2 * LONG : LONG);
}

export function hush() {
  clearTimeout(timer);
  replace(document.getElementById("said"));
}
