// The history: what was inspected, by filters, in pages.

import { h, replace } from "../dom.js";
import * as api from "../api.js";
import { number, reached, t, when } from "../i18n.js";
import { addKeys } from "../keys.js";
import { tell } from "../said.js";
import { Filters } from "../parts/filters.js";
import { fieldWords } from "../parts/fields.js";
import { badge, defectName } from "../parts/verdict.js";

const PAGE = 50;
const LABELS = { fine: "history.fine", bad: "history.bad" };

function row(found) {
  const cell = (name, ...content) => h("td", { "data-title": t(name) }, content);
  return h("tr", {},
    h("td", { class: "thumb" }, h("img", { src: api.address(`inspections/${found.id}/thumbnail`), alt: "", loading: "lazy" })),
    h("th", { scope: "row" }, h("a", { href: `#/inspections/${found.id}` }, found.name), h("small", { class: "pale field-words" }, fieldWords(found))),
    h("td", {}, badge(found.verdict)),
    cell("inspect.product", found.product),
    cell("history.time", h("time", { datetime: found.time }, when(found.time))),
    cell("history.reach", found.level === null ? t("score.alone", { score: number(found.score, 3) }) : reached(found.level)),
    cell("name.title", found.defect ? defectName(found) : "–"),
    cell("history.label", found.label ? t(LABELS[found.label]) : "–"));
}

class History {
  constructor(products, context) {
    this.context = context;
    this.before = []; // the cursors of the pages that lie before this one
    this.cursor = null;
    this.next = null;
    this.turn = 0;
    this.filters = new Filters(products, context.query, () => this.filtered());
    this.body = h("tbody", {});
    const heads = ["history.picture", "history.name", "verdict.title", "inspect.product", "history.time", "history.reach", "name.title", "history.label"];
    this.table = h("table", { class: "history-table" },
      h("caption", { class: "hidden-text" }, t("nav.history")),
      h("thead", {}, h("tr", {}, heads.map((name, place) => h("th", { scope: "col" }, place ? t(name) : h("span", { class: "hidden-text" }, t(name)))))), this.body);
    this.note = h("p", { class: "pale", hidden: true }, t("history.reachtext"));
    this.told = h("p", { class: "pale", role: "status" });
    this.newer = h("button", { type: "button", onclick: () => this.move(-1) }, `← ${t("history.newer")}`);
    this.older = h("button", { type: "button", onclick: () => this.move(1) }, `${t("history.older")} →`);
    this.csv = h("a", { class: "button", download: true }, t("history.csv"));
    this.node = h("div", {},
      h("div", { class: "row history-head" }, h("h1", { class: "grow" }, t("nav.history")), this.csv),
      this.filters.node, this.told, this.table, this.note,
      h("nav", { class: "row pages no-print", "aria-label": t("history.pages") }, this.newer, this.older));
    addKeys(
      { key: "ArrowLeft", shown: "key.left", text: "key.newer", run: () => this.move(-1) },
      { key: "ArrowRight", shown: "key.right", text: "key.older", run: () => this.move(1) },
    );
  }

  filtered() {
    const query = this.filters.query.toString();
    // the address changes without the view being drawn anew, which would take the focus away
    history.replaceState(null, "", query ? `#/history?${query}` : "#/history");
    this.before = [];
    this.cursor = null;
    return this.load();
  }

  move(way) {
    if (way > 0 && this.next) {
      this.before.push(this.cursor);
      this.cursor = this.next;
    } else if (way < 0 && this.before.length) this.cursor = this.before.pop();
    else return;
    this.load().then(() => this.told.scrollIntoView({ block: "nearest" }));
  }

  async load() {
    this.turn += 1;
    const mine = this.turn;
    const query = this.filters.query;
    this.csv.href = api.address(`exports/inspections.csv?${query}`);
    query.set("limit", PAGE);
    if (this.cursor) query.set("cursor", this.cursor);
    this.table.setAttribute("aria-busy", "true");
    try {
      const found = await api.ask("GET", `inspections?${query}`, { signal: this.context.signal });
      if (mine === this.turn) this.shows(found);
    } catch (error) {
      if (mine === this.turn) tell(error);
    } finally {
      this.table.removeAttribute("aria-busy");
    }
  }

  shows(found) {
    this.next = found.next;
    replace(this.body, found.inspections.map(row));
    const first = PAGE * this.before.length + 1;
    const last = first + found.inspections.length - 1;
    this.told.textContent = found.inspections.length ? t("history.rows", { first, last }) : t("history.none");
    this.table.hidden = found.inspections.length === 0;
    this.note.hidden = this.table.hidden;
    this.newer.disabled = this.before.length === 0;
    this.older.disabled = found.next === null;
  }
}

export default {
  name: "history",
  path: "/history",
  nav: "nav.history",
  engineer: true,
  async show(place, context) {
    const found = new History(await api.products(context.signal), context);
    replace(place, found.node);
    await found.load();
  },
};
