// Learning from the line: what the latest unlabelled parts would change, and the button that does it.

import { action, h, replace } from "../dom.js";
import * as api from "../api.js";
import { number, t } from "../i18n.js";
import { say, tell } from "../said.js";
import { isEngineer } from "../state.js";

function pictures(key, rows) {
  return rows.length > 0 && [h("h3", {}, t(key, { count: rows.length })), h("ul", { class: "goods" }, rows.map((row) =>
    h("li", {}, h("a", { href: `#/inspections/${row.id}` },
      h("img", { src: api.address(`inspections/${row.id}/thumbnail`), alt: row.name, title: row.name })))))];
}

function told({ parts, adapted, due, needed }, product) {
  if (needed) return t("adapt.needed", { count: needed });
  if (due) return t("adapt.due", { count: parts });
  return product.threshold_method === "line" && adapted ? t("adapt.done", { count: adapted }) : t("adapt.possible", { count: parts });
}

function changes(change) {
  const shown = (value) => (value === null ? "–" : number(value, 3));
  const row = (key, value) => h("tr", {}, h("th", { scope: "row" }, t(key)), h("td", {}, value));
  const count = change.passing.length + change.failing.length;
  return [h("table", {}, h("tbody", {},
    row("teach.before", shown(change.threshold)), row("teach.after", shown(change.new_threshold)),
    row("teach.changed", t("teach.of", { changed: count, inspections: change.inspections })))),
  change.doubtful && h("p", {}, h("strong", {}, t("adapt.doubtful"))),
  pictures("adapt.bad", change.bad), pictures("adapt.passing", change.passing), pictures("adapt.failing", change.failing)];
}

// `applied()` is called once the product has learnt.
export async function adapting(product, signal, applied) {
  const state = await api.proposal(product.id, signal);
  const place = h("div", { class: "proposal" });
  const adapt = (latest) => action(t("adapt.apply"), async () => {
    await api.adapt(product.id, latest);
    await applied();
  }, tell, { class: "main" });
  const look = action(t("adapt.look"), async () => {
    const { change } = await api.propose(product.id);
    replace(place, changes(change), h("p", { class: "pale" }, t("adapt.way")), adapt(change.latest));
  }, tell, { class: state.due ? "main" : "" });
  if (!state.needed) replace(place, look);
  const box = h("input", { type: "checkbox", checked: product.adapt_automatically });
  box.addEventListener("change", () => api.adaptAutomatically(product.id, box.checked)
    .then(() => say(t(box.checked ? "adapt.on" : "adapt.off")))
    .catch((error) => {
      box.checked = !box.checked;
      tell(error);
    }));
  return [h("p", {}, told(state, product)), h("p", { class: "pale" }, t("adapt.text")), place,
    h("label", {}, box, " ", t("adapt.switch"))];
}

// Beside a verdict: that it is preliminary, and for engineers that there is something to look at.
export class LineHint {
  constructor(product, signal) {
    this.product = product;
    this.signal = signal;
    this.node = h("p", { class: "line-hint", role: "status", hidden: true });
    this.asked = 0;
    this.look();
  }

  // Nothing depends on it, so what fails says nothing. An older answer may come last: only the newest counts.
  async look() {
    this.asked += 1;
    const mine = this.asked;
    const state = await api.proposal(this.product.id, this.signal).catch(() => null);
    if (!state || mine !== this.asked) return;
    const due = state.due && isEngineer();
    const preliminary = state.preliminary && (state.needed ? t("adapt.more", { count: state.needed }) : t("adapt.waits"));
    this.node.hidden = !preliminary && !due;
    replace(this.node, preliminary, due && [" ", h("a", { href: `#/products/${this.product.id}` }, t("adapt.hint", { count: state.parts }))]);
  }
}
