// Why the map has its value at a place: the good patches that were nearest.

import { h, replace } from "../dom.js";
import { address, ask } from "../api.js";
import { number, t } from "../i18n.js";
import { sentence } from "../said.js";

export class EvidencePanel {
  constructor() {
    this.node = h("section", { class: "evidence card", "aria-live": "polite", hidden: true });
    this.turn = 0;
    this.url = null;
  }

  clear() {
    this.turn += 1;
    this.node.hidden = true;
    if (this.url) URL.revokeObjectURL(this.url);
    this.url = null;
    replace(this.node);
  }

  // Without x and y: the peak of the map.
  async shows(found, x, y) {
    this.clear();
    const mine = this.turn;
    const place = x === undefined ? "" : `?${new URLSearchParams({ x: x.toFixed(1), y: y.toFixed(1) })}`;
    const title = x === undefined ? t("evidence.peak") : t("evidence.title", { x: number(Math.round(x)), y: number(Math.round(y)) });
    replace(this.node, h("h2", {}, title), h("p", { class: "busy" }, t("evidence.wait")));
    this.node.hidden = false;
    try {
      const answer = await fetch(address(`inspections/${found.id}/evidence.jpg${place}`));
      if (mine !== this.turn) return;
      if (!answer.ok) await ask("GET", `inspections/${found.id}/evidence${place}`); // says why
      this.url = URL.createObjectURL(await answer.blob());
      replace(this.node, h("h2", {}, title),
        h("a", { href: this.url, target: "_blank" }, h("img", { src: this.url, alt: t("evidence.alt") })),
        h("p", { class: "pale" }, t("evidence.text")));
    } catch (error) {
      if (mine === this.turn) replace(this.node, h("h2", {}, title), h("p", {}, sentence(error)));
    }
  }
}
