// Which inspections: a form whose fields stand in the address, so that a link shows the same.

import { h } from "../dom.js";
import { t } from "../i18n.js";
import { WORDS } from "./verdict.js";

const TIMES = ["since", "until"];
const LEVELS = ["min_level", "max_level"];
const TITLES = { since: "history.since", until: "history.until", min_level: "history.least", max_level: "history.most" };
const NAMES = ["product", "verdict", "defect", "label", "value", ...TIMES, ...LEVELS];

// The field of a browser has local time without a zone; the station wants to know the moment.
const toField = (text) => {
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) return "";
  return new Date(time.getTime() - 60000 * time.getTimezoneOffset()).toISOString().slice(0, 16);
};
const toMoment = (text) => (text ? new Date(text).toISOString() : "");

// The station counts in limits, people in % of it.
const toPercent = (text) => (text ? Number((100 * text).toFixed(6)) : "");

function select(label, options) {
  return h("select", { "aria-label": label }, h("option", { value: "" }, label), options.map(([value, text]) => h("option", { value }, text)));
}

export class Filters {
  // `changed()` is called when somebody has changed a field.
  constructor(products, query, changed) {
    const defects = [...new Set(products.flatMap((one) => one.defects.map((defect) => defect.name)))].sort();
    const words = Object.entries(WORDS).map(([value, key]) => [value, t(key)]);
    this.fields = {
      product: select(t("history.anyproduct"), products.map((one) => [one.id, one.name])),
      verdict: select(t("history.anyverdict"), words),
      defect: select(t("name.any"), [...defects.map((name) => [name, name]), ["unknown", t("name.unknown")]]),
      label: select(t("history.anylabel"), [["fine", t("history.fine")], ["bad", t("history.bad")]]),
      value: h("input", { type: "search", maxlength: 100, placeholder: t("field.search"), "aria-label": t("field.search") }),
      since: h("input", { type: "datetime-local" }),
      until: h("input", { type: "datetime-local" }),
      min_level: h("input", { type: "number", step: "any", min: 0, class: "short" }),
      max_level: h("input", { type: "number", step: "any", min: 0, class: "short" }),
    };
    for (const name of NAMES) {
      const value = query.get(name) ?? "";
      this.fields[name].value = TIMES.includes(name) ? toField(value) : LEVELS.includes(name) ? toPercent(value) : value;
    }
    // a product that was deleted is in no list, nor a name that is not taught; their inspections are still there
    for (const [name, text] of [["product", t("history.deleted")], ["defect", query.get("defect")]]) {
      const value = query.get(name);
      if (!value || this.fields[name].value === value) continue;
      this.fields[name].append(h("option", { value }, text));
      this.fields[name].value = value;
    }
    const titled = (name) => h("label", { class: "filter" }, h("span", {}, t(TITLES[name])), this.fields[name]);
    const form = h("form", { "aria-label": t("history.filters") },
      this.fields.product, this.fields.verdict, this.fields.defect, this.fields.label, this.fields.value,
      [...TIMES, ...LEVELS].map(titled),
      h("button", { type: "reset", class: "quiet" }, t("history.reset")));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("change", changed);
    form.addEventListener("reset", () => setTimeout(changed)); // after the fields are empty
    // on a phone they would fill the screen
    const open = innerWidth > 736 || this.query.size > 0;
    this.node = h("details", { class: "filters card no-print", open }, h("summary", {}, t("history.filters")), form);
  }

  // What is wanted, as the API and the address say it.
  get query() {
    const found = new URLSearchParams();
    for (const name of NAMES) {
      const value = this.fields[name].value;
      if (value) found.set(name, TIMES.includes(name) ? toMoment(value) : LEVELS.includes(name) ? value / 100 : value);
    }
    return found;
  }
}
