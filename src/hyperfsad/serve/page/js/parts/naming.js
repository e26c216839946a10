// What the defect is: one key from the names that the product knows, or a new one.

import { h, replace } from "../dom.js";
import * as api from "../api.js";
import { t } from "../i18n.js";
import { tell } from "../said.js";

const MOST = 9; // digits that are keys
const LONGEST = 60;

export class Names {
  // `chosen(name)` hears which it is.
  constructor(chosen) {
    this.chosen = chosen;
    this.product = null;
    this.known = [];
    this.list = h("div", { class: "names-list", role: "group", "aria-label": t("name.title") });
    this.field = h("input", { "aria-label": t("name.new"), placeholder: t("name.new"), maxlength: LONGEST, required: true, class: "grow" });
    const form = h("form", { class: "names-new" }, this.field, h("button", {}, t("name.add")));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const name = this.field.value.trim();
      this.field.value = "";
      this.field.blur();
      if (name) this.chosen(name);
    });
    this.more = [h("p", {}, t("name.what")), form];
    this.node = h("div", { class: "names-box", hidden: true }, this.list, form, this.more[0]);
  }

  get keys() {
    const digits = Array.from({ length: MOST }, (_, place) => ({
      key: String(place + 1), text: place ? null : "key.name", shown: place ? null : "key.digits",
      run: () => this.known[place] && this.chosen(this.known[place]),
    }));
    return [...digits, { key: "n", text: "key.newname", run: () => this.ask() }];
  }

  // The names of this product; a name that somebody has just given is one of them.
  async of(product) {
    this.product = product;
    const found = await api.product(product).catch(tell);
    if (!found || product !== this.product) return;
    this.known = found.defects.map((one) => one.name);
    this.draw();
  }

  // Of a bad part all of it; what looks bad can be named at once, where there are names.
  shows({ label, defect, verdict }) {
    this.name = label === "bad" ? defect : null;
    this.offered = !label && verdict === "anomalous";
    this.whole(label === "bad");
  }

  whole(shown) {
    for (const node of this.more) node.hidden = !shown;
    this.draw();
  }

  draw() {
    replace(this.list, this.known.map((name, place) => h("button", {
      type: "button", class: "toggle", "aria-pressed": String(name === this.name), onclick: () => this.chosen(name),
    }, name, place < MOST && h("kbd", {}, String(place + 1)))));
    this.list.hidden = this.known.length === 0;
    this.node.hidden = this.more[1].hidden && !(this.offered && this.known.length);
  }

  ask() {
    this.whole(true);
    this.field.focus();
  }
}
