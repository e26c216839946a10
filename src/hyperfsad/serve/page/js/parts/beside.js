// A good part beside the one that is shown.

import { h } from "../dom.js";
import * as api from "../api.js";
import { t } from "../i18n.js";
import { tell } from "../said.js";

export class Beside {
  // `changed()` is called when it appears, goes, or shows another part.
  constructor(changed) {
    this.changed = changed;
    this.product = null;
    this.parts = [];
    this.place = 0;
    this.size = [1, 1];
    this.picture = h("img", { alt: "", draggable: "false" });
    this.picture.addEventListener("load", () => {
      this.size = [this.picture.naturalWidth, this.picture.naturalHeight];
      this.changed();
    });
    this.stage = h("div", { class: "good-stage" }, this.picture);
    this.name = h("span", { class: "beside-name" });
    const turn = (way, key, sign) => h("button", { type: "button", class: "quiet", "aria-label": t(key), title: t(key), onclick: () => this.turn(way) }, sign);
    this.more = [turn(-1, "beside.previous", "‹"), turn(1, "beside.next", "›")];
    this.words = h("p", { class: "beside-words" }, this.more[0], this.name, this.more[1]);
    this.node = h("div", { class: "pane beside", hidden: true }, this.stage, this.words);
  }

  ratio() {
    return this.size[0] / this.size[1];
  }

  // What is shown belongs to this product.
  of(product) {
    if (product === this.product) return;
    this.product = product;
    if (!this.node.hidden) this.load().catch(tell);
  }

  async toggle() {
    if (!this.node.hidden) {
      this.node.hidden = true;
      this.changed();
      return;
    }
    await this.load();
  }

  async load() {
    const product = this.product;
    const found = await api.goodParts(product);
    if (product !== this.product) return;
    this.parts = found.images.filter((part) => part.image !== null);
    if (!this.parts.length) throw new Error(t("beside.none"));
    this.place = Math.min(this.place, this.parts.length - 1);
    for (const button of this.more) button.hidden = this.parts.length < 2;
    this.node.hidden = false;
    this.shows();
  }

  turn(way) {
    this.place = (this.place + way + this.parts.length) % this.parts.length;
    this.shows();
  }

  shows() {
    const part = this.parts[this.place];
    this.name.textContent = t("beside.name", { name: part.name });
    this.picture.alt = t("beside.name", { name: part.name });
    this.picture.src = api.address(`products/${this.product}/images/${part.part}/picture`);
    this.changed();
  }
}
