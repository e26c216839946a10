// Three steps to the first verdict: show good parts and look at them, see what was learnt, inspect.

import { action, h, replace } from "../dom.js";
import * as api from "../api.js";
import { t } from "../i18n.js";
import { go } from "../router.js";
import { say, tell } from "../said.js";
import { wish } from "../state.js";
import { Camera } from "../parts/camera.js";
import { dropZone, isTouch } from "../parts/drop.js";
import { hand } from "../parts/handed.js";
import { learnt } from "../parts/learnt.js";
import { partWords } from "../parts/sources.js";


function freeName(products) {
  const taken = new Set(products.map((one) => one.name));
  for (let place = products.length + 1; ; place += 1) {
    const name = t("start.name", { number: String(place) });
    if (!taken.has(name)) return name;
  }
}

function step(place, title, ...content) {
  return h("section", { class: "card step", "data-step": place },
    h("h2", {}, h("span", { class: "step-number" }, String(place)), title), content);
}

export async function steps(place, context, products) {
  let product = null;
  const tray = [];
  let zone = null;
  context.leaving(() => zone?.close());
  const first = h("div", {}), second = h("div", {}), third = h("div", {});

  async function learn() {
    const files = tray.map((one) => one.file), name = title.value.trim();
    zone.close(); // what is dropped meanwhile is not a good part of another product
    replace(first, h("p", { class: "pale" }, t("start.wait")));
    replace(second, h("p", { class: "busy" }, t("start.learning", { count: files.length })));
    try {
      product = product ? await api.extendProduct(product.id, files, { confirm: true }) : await api.createProduct(name, files);
      wish({ product: product.id });
      empty();
      draw();
    } catch (error) {
      draw();
      tell(error);
    }
  }

  // Nothing is learnt before somebody has looked at it.
  const title = h("input", { "aria-label": t("product.name"), value: freeName(products), maxlength: 100, required: true });
  const shots = h("div", { class: "review" });
  function add(files) {
    tray.push(...files.map((file) => ({ file, url: URL.createObjectURL(file) })));
    drawTray();
  }

  function empty() {
    for (const { url } of tray.splice(0)) URL.revokeObjectURL(url);
    drawTray();
  }

  function takeAway(one) {
    URL.revokeObjectURL(one.url);
    tray.splice(tray.indexOf(one), 1);
    drawTray();
  }

  function drawTray() {
    const away = (one) => t("start.away", { name: one.file.name });
    replace(shots, tray.length > 0 && [h("p", {}, t("start.review")),
      h("ul", { class: "goods" }, tray.map((one) => h("li", {}, h("img", { src: one.url, alt: one.file.name, title: one.file.name }),
        h("button", { type: "button", class: "remove", "aria-label": away(one), title: away(one), onclick: () => takeAway(one) }, "×")))),
      !product && h("label", { class: "row" }, t("product.name"), title),
      h("div", { class: "row" }, action(t("start.learnthese", { count: tray.length }), () => title.reportValidity() && learn(), tell, { class: "main" }),
        h("button", { type: "button", onclick: empty }, t("cancel")))]);
    shots.scrollIntoView?.({ block: "nearest" });
  }

  const camera = new Camera({ take: (file) => add([file]) });
  context.leaving(() => { camera.stop(); empty(); });

  function nameField() {
    const field = h("input", { "aria-label": t("product.name"), value: product.name, maxlength: 100 });
    const rename = async () => {
      const name = field.value.trim();
      if (!name || name === product.name) return;
      try {
        product = await api.renameProduct(product.id, name);
        say(t("product.renamed", { name }));
      } catch (error) {
        tell(error);
      }
    };
    field.addEventListener("change", rename);
    return h("label", { class: "row" }, t("product.name"), field);
  }

  function draw() {
    drawTray();
    zone?.close();
    zone = dropZone({
      text: product ? t("start.dropmore") : isTouch() ? t("start.choose") : t("start.drop"),
      hint: product ? null : isTouch() ? t("start.howmany") : t("start.hint"), take: add,
      whole: !product,
    });
    replace(first, zone.node, h("details", { class: "more" }, h("summary", {}, t("start.camera")), camera.node), shots);
    replace(second, product ? [nameField(), learnt(product, context.signal)] : h("p", { class: "pale" }, t("start.second")));
    if (!product) {
      replace(third, h("p", { class: "pale" }, t("start.third")));
      return;
    }
    const inspect = (files) => { hand(files); go(`/inspect/${product.id}`); };
    const parts = dropZone({ ...partWords(), hint: null, take: inspect });
    replace(third, parts.node, h("p", {}, h("a", { class: "button main", href: `#/inspect/${product.id}` }, t("start.inspect"))));
    place.querySelector("[data-step='2']").scrollIntoView({ block: "nearest" });
  }

  replace(place, h("h1", {}, t("start.title")),
    h("div", { class: "steps" }, step(1, t("start.one"), first), step(2, t("start.two"), second), step(3, t("start.three"), third)));
  draw();
}

export default {
  name: "start",
  path: "/new",
  engineer: true,
  async show(place, context) {
    await steps(place, context, await api.products(context.signal));
  },
};
