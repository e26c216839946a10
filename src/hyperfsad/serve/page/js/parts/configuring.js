// How a product looks at parts: where, how often turned, how closely; what that would change, before it is saved.

import { action, h, replace } from "../dom.js";
import * as api from "../api.js";
import { number, percent, t } from "../i18n.js";
import { tell } from "../said.js";
import { Drawing } from "./drawing.js";

const PARTS = 200; // the latest ones that are judged again
const AT_ONCE = 5; // so that inspections go between

function pictures(key, rows) {
  return rows.length > 0 && [h("h3", {}, t(key, { count: rows.length })), h("ul", { class: "goods" }, rows.map((row) =>
    h("li", {}, h("a", { href: `#/inspections/${row.id}` }, h("img", { src: api.address(`inspections/${row.id}/thumbnail`), alt: row.name, title: row.name })))))];
}

function field(label, help, input, unit = "") {
  return h("label", { class: "setting" }, h("span", {}, label), h("span", { class: "setting-value" }, input, unit), h("small", { class: "pale" }, help));
}

// `applied()` is called once the product has the new settings.
export class Configuring {
  constructor(product, parts, applied) {
    this.product = product;
    this.applied = applied;
    this.turn = 0;
    const now = product.settings;
    const whole = (value, more) => h("input", { type: "number", class: "short", value: value ?? "", placeholder: t("set.auto"), ...more });
    this.where = h("select", { onchange: () => this.changed() },
      h("option", { value: "all" }, t("set.everywhere")), h("option", { value: "auto" }, t("set.part")), h("option", { value: "drawn" }, t("set.drawn")),
      now.region === "mask" && h("option", { value: "mask" }, t("set.mask")));
    const drawn = Array.isArray(now.region);
    this.where.value = drawn ? "drawn" : now.region ?? "all";
    const first = parts.find((part) => part.image !== null);
    this.drawing = first && new Drawing(api.address(`products/${product.id}/images/${first.part}/picture`), drawn ? now.region : [], () => this.changed());
    this.canvas = h("div", { hidden: true }, this.drawing?.node ?? h("p", {}, t("beside.none")));
    this.rotations = whole(now.rotations === "auto" ? null : now.rotations, { min: 1, max: 72 });
    this.tiles = whole(now.tiles, { min: 16, placeholder: t("set.none") });
    this.resolution = whole(now.resolution, { min: 14, step: 14 });
    this.rate = whole(Number((100 * (product.false_alarm_rate ?? 0.05)).toPrecision(4)), { min: 0.1, max: 50, step: "any", required: true });
    this.was = JSON.stringify(this.wanted());
    this.result = h("div", { class: "trial", "aria-live": "polite" });
    this.trying = action(t("set.try"), () => this.tried(), tell);
    this.saving = action(t("set.save"), () => this.saved(), tell, { class: "main" });
    const form = h("form", { class: "settings" },
      h("label", { class: "setting" }, h("span", {}, t("set.where")), this.where, h("small", { class: "pale" }, t("set.wheretext"))), this.canvas,
      field(t("set.rotations"), t("set.rotationstext", { count: product.rotations }), this.rotations),
      field(t("set.resolution"), t("set.resolutiontext", { side: product.resolution }), this.resolution, t("set.pixels")),
      field(t("set.tiles"), t("set.tilestext"), this.tiles, t("set.pixels")),
      field(t("calibrate.rate"), t("set.ratetext"), this.rate, "%"),
      h("div", { class: "row" }, this.trying, this.saving));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => this.changed());
    this.node = h("div", {}, form, this.result);
    this.changed();
  }

  wanted() {
    const value = (input) => (input.value === "" ? null : Number(input.value));
    const region = { all: null, auto: "auto", drawn: this.drawing?.shapes ?? [] }[this.where.value];
    return {
      ...(this.where.value === "mask" ? {} : { region }),
      rotations: value(this.rotations) ?? (value(this.tiles) === null ? "auto" : 1), resolution: value(this.resolution), tiles: value(this.tiles),
      false_alarm_rate: Number(this.rate.value) / 100,
    };
  }

  // What was tried holds no longer.
  changed() {
    this.canvas.hidden = this.where.value !== "drawn";
    this.turn += 1;
    replace(this.result);
    const empty = this.where.value === "drawn" && !this.drawing?.shapes.length;
    this.trying.disabled = this.saving.disabled = empty || JSON.stringify(this.wanted()) === this.was;
  }

  valid() {
    const wrong = [this.rotations, this.resolution, this.tiles, this.rate].find((input) => !input.checkValidity());
    wrong?.reportValidity();
    return !wrong;
  }

  async tried() {
    if (!this.valid()) return;
    this.turn += 1;
    const mine = this.turn, settings = this.wanted();
    const sum = { parts: 0, anomalous: 0, passing: [], failing: [] };
    replace(this.result, h("p", { class: "busy" }, t("set.learning")));
    let cursor = null;
    do {
      const some = Math.min(sum.parts ? AT_ONCE : 1, PARTS - sum.parts); // soon something is to be seen
      const found = await api.patient(() => api.tryOut(this.product.id, { settings, parts: some, cursor }));
      if (mine !== this.turn) return;
      sum.parts += found.parts;
      sum.anomalous += found.anomalous;
      sum.passing.push(...found.passing);
      sum.failing.push(...found.failing);
      cursor = sum.parts < PARTS ? found.next : null;
      replace(this.result, this.told({ ...found, ...sum }, cursor !== null));
    } while (cursor !== null);
  }

  told(found, more) {
    const shown = (value) => (value === null ? "–" : number(value, 3));
    const row = (key, value) => h("tr", {}, h("th", { scope: "row" }, t(key)), h("td", {}, value));
    return [h("h3", {}, t("set.would")),
      h("table", {}, h("tbody", {},
        found.inspected !== null && row("set.inspected", percent(found.inspected)),
        row("teach.before", shown(found.threshold)), row("teach.after", shown(found.new_threshold)),
        row("set.judged", number(found.parts)), row("set.anomalous", number(found.anomalous)),
        row("set.changed", number(found.passing.length + found.failing.length)))),
      more && h("p", { class: "busy" }, t("set.more")),
      !more && !found.parts && h("p", { class: "pale" }, t("set.noparts")),
      pictures("adapt.passing", found.passing), pictures("adapt.failing", found.failing)];
  }

  async saved() {
    if (!this.valid()) return;
    this.turn += 1;
    replace(this.result, h("p", { class: "busy" }, t("set.learning")));
    try {
      await api.configure(this.product.id, this.wanted());
    } catch (error) {
      replace(this.result);
      throw error;
    }
    await this.applied();
  }
}
