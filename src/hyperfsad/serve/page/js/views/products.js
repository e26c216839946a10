// Products, for the engineer.

import { h, replace } from "../dom.js";
import * as api from "../api.js";
import { number, t, when } from "../i18n.js";
import { go } from "../router.js";
import { tell } from "../said.js";
import { dropZone } from "../parts/drop.js";

// The first good part of which there is a picture; where none is, the product came as a file.
async function look(product, place, signal) {
  const { images } = await api.goodParts(product.id, signal);
  const first = images.find((part) => part.image !== null);
  replace(place, first ? h("img", { src: api.address(`products/${product.id}/images/${first.part}/thumbnail`), alt: "" }) : h("span", { class: "pale" }, t("product.nopicture")));
}

function row(product, signal) {
  const picture = h("div", { class: "product-picture" });
  look(product, picture, signal).catch(() => {});
  return h("li", { class: "card product-card" }, picture,
    h("h2", {}, h("a", { href: `#/products/${product.id}` }, product.name)),
    h("dl", { class: "facts" },
      h("div", { class: "fact" }, h("dt", {}, t("learnt.parts")), h("dd", {}, h("strong", {}, number(product.good_parts)))),
      h("div", { class: "fact" }, h("dt", {}, t("score.threshold")),
        h("dd", {}, h("strong", {}, product.threshold === null ? "–" : number(product.threshold, 3))))),
    h("p", { class: "pale" }, t("product.changed", { time: when(product.changed) })),
    h("div", { class: "row" },
      h("a", { class: "button main", href: `#/inspect/${product.id}` }, t("nav.inspect")),
      h("a", { class: "button", href: `#/products/${product.id}` }, t("product.open"))));
}

export default {
  name: "products",
  path: "/products",
  nav: "nav.products",
  engineer: true,
  async show(place, context) {
    const found = await api.products(context.signal);
    const bring = dropZone({
      text: t("product.bring"), hint: t("product.bringhint"), accept: ".hfsad", several: false,
      take: async ([file]) => {
        try {
          const made = await api.uploadProduct(file.name.replace(/\.hfsad$/, "") || file.name, file);
          go(`/products/${made.id}`);
        } catch (error) {
          tell(error);
        }
      },
    });
    replace(place,
      h("div", { class: "row" }, h("h1", { class: "grow" }, t("nav.products")), h("a", { class: "button main", href: "#/new" }, t("product.new"))),
      found.length ? h("ul", { class: "cards" }, found.map((one) => row(one, context.signal))) : h("p", {}, t("product.none")),
      bring.node);
  },
};
