// Trends of a product: how far parts reach over time against its calibration, and whether normal has moved.

import { h, replace } from "../dom.js";
import * as api from "../api.js";
import { number, percent, reached, t, when } from "../i18n.js";
import { go } from "../router.js";
import { wish, wishes } from "../state.js";
import { label, shares, spread } from "../parts/chart.js";
import { shiftColumns } from "./shift.js";
import { shape } from "../parts/verdict.js";

const HOUR = 3600e3;
const FEWEST = 8;
// How far back, and in which steps.
const RANGES = {
  "trend.oneday": ["hour", 24 * HOUR], "trend.twodays": ["hour", 48 * HOUR], "trend.week": ["hour", 168 * HOUR],
  "trend.month": ["day", 720 * HOUR], "trend.year": ["day", 8760 * HOUR],
};

function picture(id) {
  return h("li", {}, h("a", { href: `#/inspections/${id}` }, h("img", { src: api.address(`inspections/${id}/thumbnail`), alt: t("trend.look"), loading: "lazy" })));
}

function drift(found) {
  if (!found) return h("section", { class: "card drift" }, h("h2", {}, t("trend.drift")), h("p", { class: "pale" }, t("trend.toofew")));
  const against = t(found.reference === "calibration" ? "trend.againstcalibration" : "trend.againstfirst", { count: found.compared_with });
  if (!found.moved) {
    return h("section", { class: "card drift still" }, h("h2", {}, shape("good"), t("trend.still")),
      h("p", {}, t("trend.stilltext", { evidence: number(Math.round(10 * found.evidence) / 10), needed: found.needed, count: found.inspections }), " ", against));
  }
  return h("section", { class: "card drift moved" }, h("h2", {}, shape("anomalous"), t("trend.moved")),
    h("p", {}, t("trend.movedtext", { since: when(found.since), known: when(found.known), chance: percent(1 / found.needed) }), " ", against),
    found.add.length > 0 && [h("p", {}, h("strong", {}, t("trend.add"))), h("ul", { class: "goods" }, found.add.map(picture))]);
}

// The same figures for those who do not see the charts, or want to copy them.
function table(trend) {
  const value = (list, place) => (list ? reached(list[place]) : "–");
  const heads = ["history.time", "trend.count", "trend.bad", "trend.low", "trend.median", "trend.high"];
  return h("details", { class: "more" }, h("summary", {}, t("trend.table")),
    h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": t("trend.table") }, h("table", {},
      h("thead", {}, h("tr", {}, heads.map((name) => h("th", { scope: "col" }, t(name))))),
      h("tbody", {}, trend.points.map((point) => h("tr", {}, h("th", { scope: "row" }, label(trend, point)), h("td", {}, number(point.count)),
        h("td", {}, point.share === null ? "–" : `${number(point.anomalous)} (${percent(point.share)})`),
        [0, 2, 4].map((place) => h("td", {}, value(point.level, place)))))))));
}

function drawn(trend, report) {
  const shifts = h("section", { class: "card" }, h("h2", {}, t("shift.before")), shiftColumns(report));
  if (!trend.points.length) return [drift(trend.drift), h("p", { class: "card" }, t("trend.none")), shifts];
  // it begins with the first datum, and a few periods have room beside it
  const length = trend.step === "hour" ? HOUR : 24 * HOUR;
  const first = Math.min(Date.parse(trend.points[0].time), Date.parse(trend.until) - FEWEST * length);
  trend.since = new Date(Math.max(Date.parse(trend.since), first)).toISOString();
  return [drift(trend.drift),
    h("section", { class: "card" }, h("h2", {}, t("trend.spread")), spread(trend)),
    h("section", { class: "card" }, h("h2", {}, t("trend.shares")), shares(trend)),
    shifts,
    h("section", { class: "card" }, table(trend))];
}

async function show(place, context) {
  const products = await api.products(context.signal);
  if (!products.length) return replace(place, h("p", {}, t("product.none")));
  const product = products.find((one) => one.id === (context.params.id ?? wishes.product)) ?? products[0];
  wish({ product: product.id });
  const body = h("div", { class: "trends" });
  const wanted = wishes.range in RANGES ? wishes.range : "trend.twodays";
  const load = async (range) => {
    const [step, back] = RANGES[range];
    const query = new URLSearchParams({ step, since: new Date(Date.now() - back).toISOString() });
    const asked = [`products/${product.id}/trend?${query}`, `shift?product=${product.id}`];
    replace(body, drawn(...await Promise.all(asked.map((path) => api.ask("GET", path, { signal: context.signal })))));
  };
  const select = h("select", { "aria-label": t("inspect.product"), class: "product-select", onchange: () => go(`/trends/${select.value}`) },
    products.map((one) => h("option", { value: one.id }, one.name)));
  select.value = product.id;
  const range = h("select", { "aria-label": t("trend.range"), onchange: () => { wish({ range: range.value }); load(range.value); } },
    Object.keys(RANGES).map((key) => h("option", { value: key }, t(key))));
  range.value = wanted;
  replace(place, h("div", { class: "row inspect-head" }, h("h1", { class: "product-name" }, t("nav.trends")), h("span", { class: "row" }, select, range)), body);
  return load(wanted);
}

export default { name: "trends", path: "/trends", nav: "nav.trends", engineer: true, show };
export const trendsOf = { name: "trends", path: "/trends/:id", engineer: true, show };
