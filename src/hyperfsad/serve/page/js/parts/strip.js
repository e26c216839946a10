// The verdicts of this sitting in their order, the latest at the end.

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
    // one stop of the tab key; arrow keys go on from there
    this.list = h("ul", { class: "strip-list", "aria-label": t("strip.title") });
    this.summary = h("p", { class: "strip-summary number", role: "status" });
    this.node = h("div", { class: "strip", hidden: true }, this.list, this.summary);
    this.left = 0;
    this.list.append(...all.map((found) => this.item(found)));
    this.count();
  }

  add(found) {
    this.all.push(found);
    this.list.append(this.item(found));
    if (this.all.length > MOST) {
      this.all.shift();
      this.list.firstChild.remove();
    }
    this.count();
  }

  item(found) {
    const words = `${found.name}: ${t(WORDS[found.verdict])}${found.label ? `, ${t(LABELS[found.label])}` : ""}`;
    return h("li", { "data-id": found.id }, h("button", {
      type: "button", class: found.verdict, tabindex: "-1", "aria-label": words, title: words, onclick: () => this.open(this.of(found.id)),
    }, h("img", { src: address(`inspections/${found.id}/thumbnail`), alt: "" }), shape(found.verdict),
    found.label && h("span", { class: "strip-label", "aria-hidden": "true" }, t(found.label === "fine" ? "letter.fine" : "letter.bad"))));
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
    const last = this.list.lastElementChild;
    for (const item of this.list.children) {
      const mine = item.dataset.id === id;
      if (mine) item.firstChild.setAttribute("aria-current", "true");
      else item.firstChild.removeAttribute("aria-current");
      item.firstChild.tabIndex = mine || (id === null && item === last) ? 0 : -1;
      if (mine) item.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  }

  // To what came before (-1) or after (1) what is shown; the focus follows where it was here.
  move(way) {
    const place = this.chosen === null ? this.all.length - 1 : this.all.findIndex((one) => one.id === this.chosen) + way;
    if (place < 0 || place >= this.all.length) return;
    const focused = this.list.contains(document.activeElement);
    this.open(this.all[place]);
    if (focused) this.list.children[place].firstChild.focus();
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
