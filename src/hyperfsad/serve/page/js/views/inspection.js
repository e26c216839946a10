// One inspection: its address is a link that can be sent, and it prints on a page.

import { h, replace } from "../dom.js";
import * as api from "../api.js";
import { t, when } from "../i18n.js";
import { addKeys } from "../keys.js";
import { say, tell } from "../said.js";
import { isEngineer } from "../state.js";
import { EvidencePanel } from "../parts/evidence.js";
import { details, gauge, regions } from "../parts/facts.js";
import { fieldWords } from "../parts/fields.js";
import { LabelButtons } from "../parts/labelling.js";
import { WORDS, defectName, shape } from "../parts/verdict.js";
import { Viewer } from "../parts/viewer.js";

class Sheet {
  constructor(found, context) {
    this.found = found;
    this.evidence = new EvidencePanel();
    this.viewer = new Viewer((x, y) => this.evidence.shows(this.found, x, y));
    this.labels = new LabelButtons((changed) => { this.found = changed; this.draw(); }, () => this.viewer.marked);
    this.defect = h("p", { class: "sheet-defect" });
    this.facts = h("div", { class: "card facts-card" });
    // paper has no slider: it gets the picture that the station draws, with the map and its legend
    const drawn = h("img", { class: "print-only", src: api.address(`inspections/${found.id}/overlay`), alt: "" });
    this.node = h("article", { class: "sheet" },
      h("header", { class: `sheet-head ${found.verdict}` }, shape(found.verdict),
        h("div", {}, h("h1", {}, t(WORDS[found.verdict])), this.defect, h("p", {}, `${found.product} · ${found.name}`), h("p", {}, fieldWords(found)),
          h("p", {}, h("time", { datetime: found.time }, when(found.time))))),
      h("div", { class: "sheet-body" }, h("div", {}, this.viewer.node, drawn), h("aside", { "aria-label": t("inspect.panel") }, this.facts, this.evidence.node)),
      h("footer", { class: "pale print-only" }, `${t("sheet.id")} ${found.id} · sha256 ${found.image}`));
    context.leaving(() => { this.evidence.clear(); this.labels.close(); });
    addKeys(
      { key: "p", text: "key.print", run: () => print() },
      ...this.labels.keys,
      { key: "e", text: "key.evidence", run: () => this.evidence.shows(this.found) },
      ...this.viewer.keys,
    );
  }

  start() {
    this.viewer.shows(this.found);
    this.draw();
    this.evidence.shows(this.found);
  }

  draw() {
    const found = this.found;
    this.labels.shows(found);
    this.defect.textContent = found.defect ? defectName(found) : "";
    replace(this.facts, h("h2", {}, t("score.reach")), gauge(found), this.labels.node,
      h("h2", {}, t("region.title")),
      regions(found, {
        chosen: (place) => this.viewer.point(place),
        asked: (region) => (region.peak ? this.evidence.shows(found, region.peak.x, region.peak.y) : this.evidence.shows(found)),
      }),
      h("p", { class: "pale no-print" }, t("evidence.hint")),
      details(found, true));
  }
}

async function copy() {
  await navigator.clipboard.writeText(location.href);
  say(t("sheet.copied"));
}

export default {
  name: "inspection",
  path: "/inspections/:id",
  async show(place, context) {
    const found = await api.inspection(context.params.id, context.signal);
    const sheet = new Sheet(found, context);
    replace(place,
      h("div", { class: "row no-print sheet-tools" },
        isEngineer() ? h("a", { href: "#/history" }, `← ${t("nav.history")}`) : h("a", { href: "#/" }, `← ${t("nav.inspect")}`),
        h("span", { class: "grow" }),
        navigator.clipboard && h("button", { type: "button", onclick: () => copy().catch(tell) }, t("sheet.copy")),
        h("button", { type: "button", onclick: () => print() }, t("sheet.print"), h("kbd", {}, "P"))),
      sheet.node);
    sheet.start();
    document.title = `${found.product} – ${found.name} – ${t(WORDS[found.verdict])}`; // what a PDF is called
  },
};
