// What became of several parts that were brought together: the rejects first.

import { h, replace } from "../dom.js";
import { address } from "../api.js";
import { reached, t } from "../i18n.js";
import { badge, defectName } from "./verdict.js";

const ORDER = ["anomalous", "unjudged", "good"];

export class Batch {
  // `open(found)` shows one of them.
  constructor(open) {
    this.open = open;
    this.found = [];
    this.list = h("ul", { class: "batch-list" });
    this.node = h("section", { class: "batch", "aria-label": t("batch.title"), hidden: true }, this.list);
  }

  shows(found) {
    this.found = found;
    const worst = (one) => ORDER.indexOf(one.verdict);
    const sorted = [...found].sort((one, other) => worst(one) - worst(other) || (other.level ?? other.score) - (one.level ?? one.score));
    replace(this.list, sorted.map((one) => h("li", {}, h("button", { type: "button", class: `batch-item ${one.verdict}`, onclick: () => this.open(one) },
      h("img", { src: address(`inspections/${one.id}/thumbnail`), alt: "" }), badge(one.verdict), one.defect && h("strong", {}, defectName(one)),
      h("span", { class: "batch-name" }, one.name), one.level !== null && h("span", { class: "pale number" }, reached(one.level))))));
    this.list.scrollTop = 0;
  }
}
