// What a product has learnt: its good parts, its threshold, how it looks at a picture, and what would help.

import { action, h, replace } from "../dom.js";
import * as api from "../api.js";
import { number, percent, t } from "../i18n.js";
import { tell } from "../said.js";
import { isEngineer } from "../state.js";
import { taught } from "./asking.js";
import { histogram } from "./histogram.js";

const FROM = { support: "threshold.support", line: "threshold.line", conformal: "threshold.conformal", few: "threshold.few", hand: "threshold.hand" };
const MOST = 24;
const ENOUGH = 0.99; // above it, nothing stands alone
const FEW = 10; // below it, a chance that is estimated from the parts says next to nothing

function view(product) {
  if (product.tiles) return t("view.tiles", { side: product.tiles });
  return product.rotations > 1 ? t("view.turned", { count: product.rotations }) : t("view.whole");
}

function threshold(product) {
  if (product.threshold === null) return t("threshold.none");
  const key = FROM[product.threshold_method];
  if (!key) return product.threshold_from ?? "";
  const stale = product.threshold_stale ? t("threshold.stale") : "";
  return stale + t(key, { count: product.threshold_images ?? product.good_parts, rate: percent(product.false_alarm_rate ?? 0) });
}

function fact(title, value, text) {
  return h("div", { class: "fact" }, h("dt", {}, title), h("dd", {}, h("strong", {}, value), h("span", { class: "pale" }, text)));
}

function thumbnail(product, part) {
  if (part.image === null) return h("span", { class: "nopicture", title: part.name }, part.name);
  return h("img", { src: api.address(`products/${product.id}/images/${part.part}/thumbnail`), alt: part.name, title: part.name, loading: "lazy" });
}

// All of them where they can be removed.
async function pictures(product, signal, remove) {
  const found = await api.goodParts(product.id, signal);
  const removable = remove && found.images.length > 1;
  const cross = (part) => action("×", () => remove(part), tell, { class: "remove", "aria-label": t("product.remove", { name: part.name }), title: t("product.remove", { name: part.name }) });
  return h("ul", { class: "goods" }, found.images.slice(remove ? 0 : -MOST).map((part) =>
    h("li", {}, thumbnail(product, part), removable && cross(part))));
}

async function spread(product, signal) {
  const found = await api.levels(product.id, signal);
  if (!found.levels.length) return h("p", { class: "pale" }, t("histogram.lone"));
  const kinds = { "leave-one-out": t("histogram.leftout"), calibration: t("histogram.calibration"), line: t("histogram.line") };
  return histogram(found.levels, kinds[found.kind]);
}

function proposed(row, teach) {
  return h("li", {}, h("img", { src: api.address(`inspections/${row.id}/thumbnail`), alt: row.name, title: row.name }),
    isEngineer() && action(t("learnt.teach"), () => teach(row), tell));
}

function resemblance(count, covered) {
  if (covered === null) return t("learnt.toofew");
  if (count < FEW) return t("learnt.few", { count });
  return t("learnt.covered", { count, share: percent(covered) });
}

// What `coverage` advises: which of the good parts stand alone, and what passed but looks like none of them.
async function advice(product, signal, changed) {
  const [found, known] = await Promise.all([api.coverage(product.id, signal), api.goodParts(product.id, signal)]);
  const enough = found.covered !== null && found.covered > ENOUGH;
  const alone = enough ? [] : known.images.filter((part) => found.more_like.includes(part.name));
  const teach = async (row) => {
    if (await taught((more) => api.label(row.id, "fine", { learn: true, ...more }))) changed();
  };
  return h("div", { class: "advice" },
    h("h3", {}, t("learnt.more")),
    h("p", {}, resemblance(product.good_parts, found.covered)),
    alone.length > 0 && [h("p", {}, t("learnt.likethese")), h("ul", { class: "goods" }, alone.map((part) => h("li", {}, thumbnail(product, part))))],
    found.inspections.length > 0 && [h("p", {}, t("learnt.passed")), h("ul", { class: "goods" }, found.inspections.map((row) => proposed(row, teach)))]);
}

// What comes later fills its place; what fails leaves it empty, since all the rest is still true.
function later(promise) {
  const place = h("div", {});
  promise.then((node) => replace(place, node)).catch(() => {});
  return place;
}

// `changed` is called where the advice was followed, `remove(part)` where a good part shall go.
export function learnt(product, signal, changed = () => {}, remove = null) {
  return h("div", { class: "learnt" },
    later(pictures(product, signal, remove)),
    h("div", { class: "learnt-facts" },
      h("dl", { class: "facts" },
        fact(t("learnt.parts"), number(product.good_parts), t("learnt.partstext", { count: product.good_parts })),
        fact(t("score.threshold"), product.threshold === null ? "–" : number(product.threshold, 3), threshold(product)),
        fact(t("view.how"), view(product), t("view.encoder", { encoder: product.encoder, side: number(product.resolution) }))),
      later(spread(product, signal))),
    later(advice(product, signal, changed)),
    product.notes.length > 0 && h("ul", { class: "notes" }, product.notes.map((note) => h("li", {}, note))));
}
