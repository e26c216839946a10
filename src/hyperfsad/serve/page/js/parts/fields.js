// Fields of one's own, such as serial and lot: defined per product, and typed or scanned before a part is inspected.

import { h, newId } from "../dom.js";
import { ask } from "../api.js";
import { t } from "../i18n.js";
import { addKeys } from "../keys.js";
import { say, tell } from "../said.js";

const entered = new Map(); // of each product; outlives the view, as its queue does
const valuesOf = (product) => entered.get(product) ?? entered.set(product, {}).get(product);
let shown = null;

// What the next part gets. What differs with each part is used up by it.
export function takeValues(product) {
  const values = Object.fromEntries(Object.entries(valuesOf(product)).filter(([, value]) => value.trim()));
  if (shown?.product.id === product) shown.used();
  return values;
}

// A reader types like a keyboard, and ends with Enter: that leads to the next field that is empty, then out, where keys work.
export class FieldEntry {
  constructor(product) {
    this.product = product;
    this.values = valuesOf(product.id);
    shown = this;
    this.inputs = product.fields.map((field) => {
      const id = newId("field");
      const input = h("input", {
        id, value: this.values[field.name] ?? "", maxlength: 100, autocomplete: "off", spellcheck: "false", enterkeyhint: "next",
        oninput: () => { this.values[field.name] = input.value; },
        onkeydown: (event) => event.key === "Enter" && this.entered(event, input),
        onfocus: () => input.select(),
      });
      return { field, input, node: h("label", { class: "entry", for: id }, h("span", {}, field.name), input) };
    });
    if (!this.inputs.length) return;
    addKeys({ key: "s", text: "key.field", run: () => (this.empty() ?? this.inputs[0].input).focus() });
    this.node = h("section", { class: "card entries", "aria-label": t("field.title") }, this.inputs.map((one) => one.node));
  }

  empty() {
    return this.inputs.find(({ input }) => !input.value.trim())?.input;
  }

  entered(event, input) {
    event.preventDefault();
    const next = this.empty();
    if (next && next !== input) next.focus();
    else input.blur();
  }

  used() {
    for (const { field, input } of this.inputs.filter((one) => one.field.each_part)) {
      input.value = "";
      delete this.values[field.name];
    }
  }
}

function row(field, left) {
  const name = h("input", { value: field.name, maxlength: 30, required: true, "aria-label": t("field.name"), placeholder: t("field.name") });
  const single = h("input", { type: "checkbox", checked: field.each_part });
  const node = h("div", { class: "row" }, name, h("label", { class: "row" }, single, t("field.single")),
    h("button", { type: "button", class: "quiet", "aria-label": t("field.remove", { name: field.name }), onclick: () => left(node) }, "×"));
  return Object.assign(node, { read: () => ({ name: name.value, each_part: single.checked }) });
}

// The definition of a product's fields; `changed(product)` hears of what is saved.
export function fieldSettings(product, changed) {
  const rows = h("div", {});
  const add = (field) => rows.append(row(field, (node) => node.remove()));
  product.fields.forEach(add);
  const pattern = h("input", { value: product.name_pattern, maxlength: 200, class: "grow", placeholder: "{serial}_{lot}_*" });
  const form = h("form", {}, h("p", { class: "pale" }, t("field.text")), rows,
    h("div", { class: "row" }, h("button", { type: "button", onclick: () => { add({ name: "", each_part: false }); rows.lastChild.querySelector("input").focus(); } }, t("field.add"))),
    h("label", { class: "row" }, t("field.pattern"), pattern), h("p", { class: "pale" }, t("field.patterntext")),
    h("button", { class: "main" }, t("users.save")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const json = { fields: [...rows.children].map((one) => one.read()), name_pattern: pattern.value };
      const saved = await ask("PUT", `products/${product.id}/fields`, { json });
      say(t("field.saved"));
      changed(saved);
    } catch (error) {
      tell(error);
    }
  });
  return form;
}

// "serial A17 · lot L3"
export function fieldWords(found) {
  return Object.entries(found.fields).map(([name, value]) => `${name} ${value}`).join(" · ");
}
