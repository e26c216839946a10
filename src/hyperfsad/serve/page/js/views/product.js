// One product, for the engineer: what it has learnt, and all that can be changed.

import { action, h, replace } from "../dom.js";
import * as api from "../api.js";
import { number, percent, t, when } from "../i18n.js";
import { go, show } from "../router.js";
import { say, tell } from "../said.js";
import { adapting } from "../parts/adapting.js";
import { confirmed, taught } from "../parts/asking.js";
import { fieldSettings } from "../parts/fields.js";
import { Configuring } from "../parts/configuring.js";
import { dropZone } from "../parts/drop.js";
import { learnt } from "../parts/learnt.js";
import { lineCamera } from "../parts/linecamera.js";

async function changed(work, text) {
  try {
    if (await taught(work) === null) return;
    say(text);
    show();
  } catch (error) {
    tell(error);
  }
}

function renaming(product) {
  const field = h("input", { "aria-label": t("product.name"), value: product.name, maxlength: 100, required: true, class: "grow" });
  const form = h("form", { class: "row" }, field, h("button", {}, t("product.rename")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    changed(() => api.renameProduct(product.id, field.value), t("product.renamed", { name: field.value.trim() }));
  });
  return form;
}

function calibrating(product) {
  const rate = h("input", { type: "number", min: 0.1, max: 50, step: "any", required: true, value: Number((100 * (product.false_alarm_rate ?? 0.05)).toPrecision(4)), class: "short" });
  const share = () => Number(rate.value) / 100;
  // with so many the bound holds (docs/theory.md)
  const hint = () => t("calibrate.hint", { count: Math.ceil(1 / share() - 1 - 1e-9), rate: percent(share()) });
  const hand = h("input", { type: "number", min: 0, step: "any", required: true, value: product.threshold === null ? "" : Number(product.threshold.toPrecision(4)), class: "short" });
  const zone = dropZone({
    text: t("calibrate.drop"), hint: hint(), take: (files) => calibrate(files),
  });
  const calibrate = (files) => rate.reportValidity() && changed(() => api.calibrateProduct(product.id, files, { false_alarm_rate: share() }), t("calibrate.done"));
  rate.addEventListener("input", () => { if (rate.checkValidity()) zone.node.querySelector(".pale").textContent = hint(); });
  const again = action(t("calibrate.again"), () => calibrate([]), tell);
  const set = action(t("calibrate.set"), () => hand.reportValidity() && changed(() => api.calibrateProduct(product.id, [], { threshold: hand.value }), t("calibrate.done")), tell);
  return [h("label", { class: "row" }, t("calibrate.rate"), rate, "%"), zone.node,
    h("div", { class: "row" }, again), h("label", { class: "row" }, t("calibrate.byhand"), hand, set)];
}

// What to do about wrong verdicts, in the order that helps most; the station decides on it.
const ADVICE = {
  "advice-cannot-tell": "advice.cannottell", "advice-learn": "advice.learn", "advice-more-good": "advice.moregood",
  "advice-line": "advice.line", "advice-view": "advice.view", "advice-threshold": "advice.threshold",
};

function evaluating(product) {
  const place = h("div", {});
  const ask = action(t("evaluate.button"), async () => {
    const found = await api.evaluateProduct(product.id);
    const share = (rate) => (!rate || rate.share === null ? "–" : `${percent(rate.share)} (${rate.count} / ${rate.total})`);
    const rows = [
      [t("evaluate.good"), number(found.good_parts)], [t("evaluate.bad"), number(found.defects)],
      [t("evaluate.false"), share(found.false_alarms)], [t("evaluate.found"), share(found.found)],
    ];
    const steps = found.advice.map(({ code, facts }) => h("li", {}, t(ADVICE[code],
      { ...facts, names: facts.names?.join(", "), auroc: number(facts.auroc ?? 0, 2) })));
    replace(place, h("table", {}, h("tbody", {}, rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value))))),
      steps.length > 0 && [h("h3", {}, t("learnt.more")), h("ol", { class: "advice" }, steps)]);
  }, tell);
  return [h("p", {}, t("evaluate.text")), ask, place];
}

function deleting(product) {
  return action(t("product.delete"), async () => {
    if (!await confirmed(t("product.delete"), h("p", {}, t("product.deletetext", { name: product.name })))) return;
    await api.deleteProduct(product.id);
    say(t("product.deleted", { name: product.name }));
    go("/products");
  }, tell, { class: "danger" });
}

const ACTIONS = {
  created: "version.created", uploaded: "version.uploaded", extended: "version.extended", taught: "version.taught", adapted: "version.adapted",
  configured: "version.configured", undone: "version.undone", calibrated: "version.calibrated", removed: "version.removed", restored: "version.restored",
};

function restoring(product, revision, label) {
  return action(label, () => changed(() => api.restore(product.id, revision), t("version.isback", { number: revision })), tell);
}

// The latest changes, each a way back.
async function versions(product, signal) {
  const found = await api.versions(product.id, signal);
  const head = ["version.number", "history.time", "version.change", "version.role", "learnt.parts", "score.threshold"];
  return h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": t("version.title") }, h("table", { class: "versions" },
    h("thead", {}, h("tr", {}, head.map((key) => h("th", { scope: "col" }, t(key))), h("td", {}))),
    h("tbody", {}, found.versions.map((one) => h("tr", {},
      h("td", { class: "number" }, number(one.revision)), h("td", {}, when(one.time)),
      h("td", { class: "names" }, t(ACTIONS[one.action], { detail: one.detail })), h("td", {}, one.user || one.role),
      h("td", { class: "number" }, number(one.good_parts)),
      h("td", { class: "number" }, one.threshold === null ? "–" : number(one.threshold, 3)),
      h("td", {}, one.revision === product.revision ? t("version.current") : restoring(product, one.revision, t("version.restore"))))))));
}

// Without a part; it is said with a way back.
async function removed(product, part) {
  await api.removePart(product.id, part.part);
  await show();
  say(t("product.removed", { name: part.name }), { actions: [restoring(product, product.revision, t("label.undo"))] });
}

// From the line, or with other settings; it is said with a way back.
async function applied(product, text) {
  await show();
  say(text, { actions: [restoring(product, product.revision, t("label.undo"))] });
}

function card(title, ...content) {
  return h("section", { class: "card" }, h("h2", {}, title), content);
}

export default {
  name: "product",
  path: "/products/:id",
  engineer: true,
  async show(place, context) {
    const product = await api.product(context.params.id, context.signal);
    const parts = await api.goodParts(product.id, context.signal);
    const zone = dropZone({
      text: t("product.drop"),
      take: (files) => changed((more) => api.extendProduct(product.id, files, more), t("product.extended", { count: files.length })),
    });
    replace(place,
      h("p", {}, h("a", { href: "#/products" }, `← ${t("nav.products")}`)),
      h("div", { class: "row" }, h("h1", { class: "grow" }, product.name),
        h("a", { class: "button main", href: `#/inspect/${product.id}` }, t("nav.inspect"))),
      card(t("start.two"), learnt(product, context.signal, show, (part) => removed(product, part))),
      card(t("set.title"), new Configuring(product, parts.images, () => applied(product, t("set.applied"))).node),
      !product.tiles && card(t("adapt.title"), await adapting(product, context.signal, () => applied(product, t("adapt.applied")))),
      h("div", { class: "columns" },
        card(t("product.extend"), zone.node),
        card(t("calibrate.title"), calibrating(product)),
        card(t("linecam.title"), await lineCamera(product, context.signal)),
        card(t("evaluate.title"), evaluating(product)),
        card(t("product.file"),
          h("p", { class: "pale" }, t("product.times", { created: when(product.created), changed: when(product.changed), count: product.revision })),
          renaming(product),
          h("div", { class: "row" },
            h("a", { class: "button", href: api.address(`products/${product.id}/detector`), download: true }, t("product.download")),
            deleting(product)))),
      card(t("field.title"), fieldSettings(product, show)),
      card(t("version.title"), h("p", { class: "pale" }, t("version.text")), await versions(product, context.signal)));
  },
};
