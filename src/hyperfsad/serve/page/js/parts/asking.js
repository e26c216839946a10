// Questions before something is done.

import { h } from "../dom.js";
import { number, reached, t } from "../i18n.js";

const UNCONFIRMED = "teaching-unconfirmed";

// Whether the person says yes; Escape means no.
export function confirmed(yes, ...content) {
  const dialog = h("dialog", { "aria-label": yes }, content,
    h("form", { method: "dialog" }, h("button", { value: "" }, t("cancel")), h("button", { value: "yes", class: "danger" }, yes)));
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => {
    dialog.remove();
    done(dialog.returnValue === "yes");
  }));
}

function doubt({ names, level, foreign, threshold, new_threshold: after, inspections, changed, passing }) {
  const shown = (value) => (value === null ? "–" : number(value, 3));
  const row = (name, value) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value));
  return [h("h2", {}, t("teach.title")),
    h("p", { class: "names" }, names.join(", ")),
    level !== null && h("p", {}, t("teach.anomalous", { reach: reached(level) })),
    foreign && h("p", {}, t("teach.foreign")),
    h("table", {}, h("tbody", {},
      row(t("teach.before"), shown(threshold)), row(t("teach.after"), shown(after)),
      row(t("teach.changed"), t("teach.of", { changed, inspections })), row(t("teach.passing"), number(passing)))),
    h("p", {}, t("teach.warning"))];
}

// Teaches with `work(more)`; what the station doubts is asked first. Null where the person says no.
export async function taught(work) {
  try {
    return await work({});
  } catch (error) {
    if (error.code !== UNCONFIRMED) throw error;
    return await confirmed(t("teach.yes"), doubt(error.facts)) ? work({ confirm: true }) : null;
  }
}
