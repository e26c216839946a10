// Verdicts as they come, whoever sent the pictures: a watched folder, a machine, another browser.

import { h, replace } from "../dom.js";
import { address, ask } from "../api.js";
import { number, t } from "../i18n.js";

export class Live {
  // `arrived(id)` hears of each inspection of the product; of a burst, what is behind is left out.
  constructor(product, arrived) {
    this.product = product;
    this.arrived = arrived;
    this.events = null;
    this.count = 0;
    this.latest = null;
    this.state = h("p", { role: "status" });
    this.folders = h("ul", { class: "notes", hidden: true });
    this.node = h("div", { class: "live" }, this.state, this.folders);
  }

  start() {
    if (this.events) return;
    this.events = new EventSource(address(`live?product=${this.product.id}`));
    this.tell(t("live.connecting"));
    this.events.addEventListener("open", () => this.tell());
    this.events.addEventListener("start", () => this.tell());
    this.events.addEventListener("error", () => this.tell(t("live.lost")));
    this.events.addEventListener("verdict", (event) => {
      this.count += 1;
      this.tell();
      this.show(JSON.parse(event.data).id);
    });
    this.watched();
  }

  stop() {
    this.events?.close();
    this.events = null;
  }

  tell(text = t("live.on", { count: this.count })) {
    this.state.textContent = text;
  }

  async show(id) {
    const busy = this.latest !== null;
    this.latest = id;
    if (busy) return;
    while (this.latest !== null) {
      const next = this.latest;
      await this.arrived(next).catch(() => {});
      if (this.latest === next) this.latest = null;
    }
  }

  // Which folders feed this product, and whether that works.
  async watched() {
    const found = await ask("GET", "watches").catch(() => []);
    const mine = found.filter((one) => one.product_id === this.product.id);
    this.folders.hidden = mine.length === 0;
    replace(this.folders, mine.map((one) => h("li", {}, one.problem ?? t("live.folder", { count: one.judged, failed: number(one.failed) }))));
  }
}
