// The verdicts of this sitting, the latest first.

import { h } from "../dom.js";
import { address } from "../api.js";
import { t } from "../i18n.js";
import { WORDS, shape } from "./verdict.js";

const MOST = 200;
const LABELS = { fine: "label.isfine", bad: "label.isbad" };

export class Strip {
  // `open(found)` shows one of them; `all` is what was there before.
  constructor(open, all) {
    this.open = open;
    this.all = all;
    this.chosen = null;
    this.list = h("ul", { class: "strip-list", "aria-label": t("strip.title") });
    this.summary = h("p", { class: "strip-summary number", role: "status" });
    this.node = h("div", { class: "strip", hidden: true }, this.list, this.summary);
    this.left = 0;
    this.list.append(...all.map((found) => this.item(found)));
    this.count();
  }

  add(found) {
    this.all.unshift(found);
    this.list.prepend(this.item(found));
    if (this.all.length > MOST) {
      this.all.pop();
      this.list.lastChild.remove();
    }
    this.count();
  }

  item(found) {
    const words = `${found.name}: ${t(WORDS[found.verdict])}${found.label ? `, ${t(LABELS[found.label])}` : ""}`;
    return h("li", { "data-id": found.id }, h("button", {
      type: "button", class: found.verdict, "aria-label": words, title: words, onclick: () => this.open(this.of(found.id)),
    }, h("img", { src: address(`inspections/${found.id}/thumbnail`), alt: "" }), shape(found.verdict),
    found.label && h("span", { class: "strip-label", "aria-hidden": "true" }, found.label === "fine" ? "F" : "B")));
  }

  of(id) {
    return this.all.find((one) => one.id === id);
  }

  update(found) {
    const place = this.all.findIndex((one) => one.id === found.id);
    if (place < 0) return;
    this.all[place] = found;
    this.list.querySelector(`[data-id="${found.id}"]`).replaceWith(this.item(found));
    this.choose(this.chosen);
  }

  choose(id) {
    this.chosen = id;
    for (const item of this.list.children) {
      const mine = item.dataset.id === id;
      if (mine) item.firstChild.setAttribute("aria-current", "true");
      else item.firstChild.removeAttribute("aria-current");
    }
  }

  // To the next (1) or the previous (-1) in what is shown.
  move(way) {
    const place = this.all.findIndex((one) => one.id === this.chosen) + way;
    if (place < 0 || place >= this.all.length) return;
    this.open(this.all[place]);
    this.list.children[place].scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  waits(count) {
    this.left = count;
    this.count();
  }

  count() {
    const bad = this.all.filter((one) => one.verdict === "anomalous").length;
    const told = t("strip.summary", { all: this.all.length, bad });
    this.summary.textContent = this.left ? `${told} · ${t("strip.left", { count: this.left })}` : told;
    this.node.hidden = this.all.length + this.left < 2;
  }
}
