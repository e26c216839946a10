// Why the map has its value at a place: the place itself, and the good patches that are nearest to it, side by side.

import { h, replace } from "../dom.js";
import { address, ask } from "../api.js";
import { number, percent, t } from "../i18n.js";
import { sentence } from "../said.js";

const MOST = 2; // good patches
const AROUND = 7; // patches along a crop's side: one says little without its surroundings

// The surroundings of a place; `middle` and `patch` are shares of the picture's width and height.
function crop(source, words, middle, patch, { angle = 0, shape = 1, mark = "" } = {}) {
  const wide = Math.min(1, AROUND * patch[0]), high = Math.min(1, AROUND * patch[1]);
  const start = (axis, size) => Math.min(Math.max(middle[axis] - size / 2, 0), 1 - size);
  const left = start(0, wide), top = start(1, high);
  const picture = h("img", { src: source, alt: "" });
  Object.assign(picture.style, { width: `${100 / wide}%`, height: `${100 / high}%`, left: `${(-100 * left) / wide}%`, top: `${(-100 * top) / high}%` });
  const box = h("span", { class: `crop-mark ${mark}` });
  Object.assign(box.style, {
    width: `${(100 * patch[0]) / wide}%`, height: `${(100 * patch[1]) / high}%`,
    left: `${(100 * (middle[0] - patch[0] / 2 - left)) / wide}%`, top: `${(100 * (middle[1] - patch[1] / 2 - top)) / high}%`,
  });
  const turned = h("div", { class: "crop-inside" }, picture, box);
  turned.style.transform = `rotate(${-angle}deg)`;
  const frame = h("div", { class: "crop" }, turned);
  frame.style.aspectRatio = (wide * shape) / high;
  return h("figure", { class: "crop-figure" }, frame, h("figcaption", {}, words));
}

// The neighbours of all layers, each patch once, the heaviest first; weights add up to 1.
function nearest(layers) {
  const found = new Map();
  const whole = layers.reduce((sum, layer) => sum + layer.neighbours.reduce((part, one) => part + one.weight, 0), 0) || 1;
  for (const one of layers.flatMap((layer) => layer.neighbours)) {
    const key = `${one.sha256} ${one.centre}`;
    const known = found.get(key) ?? { ...one, weight: 0 };
    known.weight += one.weight / whole;
    found.set(key, known);
  }
  return [...found.values()].sort((one, other) => other.weight - one.weight).slice(0, MOST);
}

export class EvidencePanel {
  constructor() {
    this.node = h("section", { class: "evidence card", "aria-live": "polite", hidden: true });
    this.turn = 0;
  }

  clear() {
    this.turn += 1;
    this.node.hidden = true;
    replace(this.node);
  }

  // Without x and y: the peak of the map.
  async shows(found, x, y) {
    this.clear();
    const mine = this.turn;
    const place = x === undefined ? "" : `?${new URLSearchParams({ x: x.toFixed(1), y: y.toFixed(1) })}`;
    const title = h("h2", {}, x === undefined ? t("evidence.peak") : t("evidence.title", { x: number(Math.round(x)), y: number(Math.round(y)) }));
    replace(this.node, title, h("p", { class: "busy" }, t("evidence.wait")));
    this.node.hidden = false;
    try {
      const known = await ask("GET", `inspections/${found.id}/evidence${place}`);
      if (mine === this.turn) replace(this.node, title, this.drawn(found, known, place));
    } catch (error) {
      if (mine === this.turn) replace(this.node, title, h("p", {}, sentence(error)));
    }
  }

  drawn(found, known, place) {
    const [width, height] = found.size;
    const [left, top, across, down] = known.bbox;
    const shape = width / height, patch = [across / width, down / height];
    const good = (one, words) => crop(address(`products/${found.product_id}/images/${one.sha256}/picture`), words,
      one.centre, [1 / one.columns, 1 / one.rows], { angle: one.angle, shape, mark: "good" });
    // where a piece is missing, the place itself shows only what lies behind it
    const piece = known.missing && good(known.missing.patch, t("evidence.piece"));
    const here = crop(address(`inspections/${found.id}/picture`), t("evidence.here"), [(left + across / 2) / width, (top + down / 2) / height], patch, { shape });
    const others = nearest(known.layers).slice(0, piece ? MOST - 1 : MOST)
      .map((one) => good(one, t("evidence.good", { share: percent(Math.round(100 * one.weight) / 100) })));
    return [h("div", { class: "crops" }, here, piece, others),
      h("p", { class: "pale" }, t(piece ? "evidence.missing" : "evidence.text"), " ",
        h("a", { href: address(`inspections/${found.id}/evidence.jpg${place}`), target: "_blank" }, t("evidence.whole")))];
  }
}
