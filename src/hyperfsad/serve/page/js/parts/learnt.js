// What a product has learnt: its good parts, its threshold, how it looks at a picture, and what would help.

import { h, replace } from "../dom.js";
import * as api from "../api.js";
import { number, percent, t } from "../i18n.js";
import { histogram } from "./histogram.js";

const FROM = { support: "threshold.support", conformal: "threshold.conformal", few: "threshold.few", hand: "threshold.hand" };
const MOST = 24;

function view(product) {
  if (product.tiles) return t("view.tiles", { side: product.tiles });
  return product.rotations > 1 ? t("view.turned", { count: product.rotations }) : t("view.whole");
}

function threshold(product) {
  if (product.threshold === null) return t("threshold.none");
  const key = FROM[product.threshold_method];
  if (!key) return product.threshold_from ?? "";
  return t(key, { count: product.threshold_images ?? product.good_parts, rate: percent(product.false_alarm_rate ?? 0) });
}

function fact(title, value, text) {
  return h("div", { class: "fact" }, h("dt", {}, title), h("dd", {}, h("strong", {}, value), h("span", { class: "pale" }, text)));
}

async function pictures(product, signal) {
  const found = await api.goodParts(product.id, signal);
  if (!found.images.length) return null;
  const shown = found.images.slice(-MOST);
  return h("ul", { class: "goods" }, shown.map((part) => h("li", {},
    h("img", { src: api.address(`products/${product.id}/images/${part.image}/thumbnail`), alt: part.name, title: part.name, loading: "lazy" }))));
}

async function spread(product, signal) {
  const found = await api.levels(product.id, signal);
  if (!found.strengths.length) return h("p", { class: "pale" }, t("histogram.lone"));
  const kinds = { "leave-one-out": t("histogram.leftout"), calibration: t("histogram.calibration") };
  return histogram(found.strengths, kinds[found.kind]);
}

// The station may be of a version that has no advice yet; then there is none.
async function advice(product, signal) {
  const found = await api.coverage(product.id, signal).catch((error) => {
    if (error.status === 404 || error.status === 422) return null;
    throw error;
  });
  if (!found) return null;
  const text = found.advice ?? found.answer;
  return text ? h("p", {}, h("strong", {}, t("learnt.more")), " ", text) : null;
}

// What comes later fills its place; what fails leaves it empty, since all the rest is still true.
function later(promise) {
  const place = h("div", {});
  promise.then((node) => replace(place, node)).catch(() => {});
  return place;
}

export function learnt(product, signal) {
  return h("div", { class: "learnt" },
    later(pictures(product, signal)),
    h("div", { class: "learnt-facts" },
      h("dl", { class: "facts" },
        fact(t("learnt.parts"), number(product.good_parts), t("learnt.partstext", { count: product.good_parts })),
        fact(t("score.threshold"), product.threshold === null ? "–" : number(product.threshold, 3), threshold(product)),
        fact(t("view.how"), view(product), t("view.encoder", { encoder: product.encoder, side: number(product.resolution) }))),
      later(spread(product, signal))),
    later(advice(product, signal)),
    product.notes.length > 0 && h("ul", { class: "notes" }, product.notes.map((note) => h("li", {}, note))));
}
