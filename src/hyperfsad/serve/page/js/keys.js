// Keys of the view that is shown; `?` lists them.

import { h } from "./dom.js";
import { t } from "./i18n.js";

let current = [];

// Each: { key, text (catalogue key; null: it is not listed), run, shown }. They hold until the view is left.
export function setKeys(found) {
  current = found;
}

export function addKeys(...found) {
  current = [...current, ...found];
}

function isTyping(node) {
  if (node.closest?.("dialog")) return true;
  if (node.tagName === "INPUT") return !["range", "checkbox", "radio", "file", "button"].includes(node.type);
  return ["TEXTAREA", "SELECT"].includes(node.tagName);
}

export function listen() {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "?") {
      event.preventDefault();
      showKeys();
      return;
    }
    const wanted = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    // a button that has the focus is pressed by its own keys
    if ([" ", "Enter"].includes(wanted) && event.target.closest?.("button, a, summary, input")) return;
    if (wanted.startsWith("Arrow") && event.target.closest?.("input, [data-arrows]")) return;
    const found = current.find((one) => one.key === wanted);
    if (found) {
      event.preventDefault();
      found.run();
    }
  });
}

export function showKeys() {
  const rows = [...current.filter((one) => one.text), { key: "?", text: "key.help" }].map((one) =>
    h("tr", {}, h("td", {}, h("kbd", {}, one.shown ? t(one.shown) : one.key.toUpperCase())), h("td", {}, t(one.text))));
  const dialog = h("dialog", { "aria-label": t("key.title") },
    h("h2", {}, t("key.title")),
    h("table", {}, h("tbody", {}, rows)),
    h("form", { method: "dialog" }, h("button", { class: "main" }, t("close"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
