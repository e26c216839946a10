// The part with its map under a slider, whole or from near, perhaps a good part beside it. Any place can be asked about.

import { action, h } from "../dom.js";
import { address } from "../api.js";
import { t } from "../i18n.js";
import { tell } from "../said.js";
import { wish, wishes } from "../state.js";
import { Beside } from "./beside.js";
import { Marks } from "./marks.js";
import { Zoom } from "./zoom.js";

const STEP = 0.02;

export class Viewer {
  // `ask(x, y)` is called where somebody wants to know why, in pixels of the image.
  constructor(ask) {
    this.ask = ask;
    this.found = null;
    this.spot = [0.5, 0.5];
    this.marked = null; // where somebody has pointed, in pixels
    this.marks = new Marks();
    this.picture = h("img", { alt: "", draggable: "false" });
    this.map = h("img", { class: "map", alt: "", draggable: "false" });
    this.stage = h("div", { class: "stage", tabindex: "0", role: "application", "data-arrows": true }, this.picture, this.map, this.marks.node);
    this.pane = h("div", { class: "pane" }, this.stage);
    this.beside = new Beside(() => this.arranged());
    this.frame = h("div", { class: "frame" }, this.pane, this.beside.node);
    this.slider = h("input", { type: "range", min: 0, max: 100, step: 5, value: wishes.overlay, oninput: () => this.fade(Number(this.slider.value)) });
    const tool = (key, sign, run) => h("button", { type: "button", class: "quiet", "aria-label": t(key), title: t(key), onclick: run }, sign);
    this.compare = action([t("beside.show"), h("kbd", {}, "G")], () => this.beside.toggle(), tell, { class: "toggle", "aria-pressed": "false" });
    this.node = h("figure", { class: "viewer" }, this.frame,
      h("figcaption", {}, h("label", {}, h("span", {}, t("viewer.overlay")), this.slider),
        h("span", { class: "zoom-tools", role: "group", "aria-label": t("viewer.zoom") },
          tool("viewer.farther", "−", () => this.zoom.farther()), tool("viewer.whole", "⤢", () => this.zoom.whole()), tool("viewer.nearer", "+", () => this.zoom.nearer())),
        this.compare));
    const ratio = () => (this.found ? this.found.size[0] / this.found.size[1] : 1);
    this.zoom = new Zoom(this.frame, [
      { box: this.pane, stage: this.stage, ratio },
      { box: this.beside.node, stage: this.beside.stage, ratio: () => this.beside.ratio() },
    ]);
    this.stage.addEventListener("click", (event) => this.clicked(event));
    this.stage.addEventListener("keydown", (event) => this.moved(event));
    this.picture.addEventListener("load", () => this.stage.classList.remove("loading"));
    this.fade(wishes.overlay);
  }

  get keys() {
    return [
      { key: "o", text: "key.overlay", run: () => this.toggle() },
      { key: "g", text: "key.beside", run: () => this.found && this.compare.click() },
      { key: "+", text: "key.nearer", run: () => this.zoom.nearer() },
      { key: "-", text: "key.farther", run: () => this.zoom.farther() },
      { key: "0", text: "key.whole", run: () => this.zoom.whole() },
    ];
  }

  arranged() {
    const shown = !this.beside.node.hidden;
    this.compare.setAttribute("aria-pressed", String(shown));
    this.frame.classList.toggle("two", shown);
    this.zoom.draw();
  }

  fade(share) {
    wish({ overlay: share });
    this.slider.value = share;
    this.map.style.opacity = share / 100;
    this.slider.setAttribute("aria-valuetext", `${share} %`);
  }

  toggle() {
    this.fade(wishes.overlay ? 0 : 70);
  }

  shows(found) {
    if (this.found?.id === found.id) return;
    this.found = found;
    const [width, height] = found.size;
    this.frame.style.setProperty("--ratio", width / height);
    this.stage.setAttribute("aria-label", t("viewer.stage", { name: found.name }));
    this.stage.classList.add("loading");
    this.picture.alt = found.name;
    this.picture.src = address(`inspections/${found.id}/picture`);
    this.map.src = address(`inspections/${found.id}/heatmap`);
    this.marks.shows(found);
    this.spot = [found.map_peak_x / width, found.map_peak_y / height];
    this.marked = null;
    this.beside.of(found.product_id);
    this.zoom.whole();
  }

  mark(x, y) {
    this.marked = [x, y];
    this.spot = [x / this.found.size[0], y / this.found.size[1]];
    this.marks.at(x, y);
    this.zoom.shows(this.spot);
  }

  point(place) {
    this.marks.point(place);
  }

  clicked(event) {
    if (!this.found) return;
    const box = this.stage.getBoundingClientRect();
    this.spot = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    this.asked();
  }

  moved(event) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (!this.found || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Enter") this.asked();
    else if (event.key in ways) {
      const step = STEP / this.zoom.scale;
      const [x, y] = this.spot.map((share, axis) => Math.min(1, Math.max(0, share + step * ways[event.key][axis])));
      this.mark(x * this.found.size[0], y * this.found.size[1]);
    } else return;
    event.preventDefault();
  }

  asked() {
    const [x, y] = this.spot.map((share, axis) => Math.min(Math.max(share * this.found.size[axis], 0), this.found.size[axis] - 1));
    this.mark(x, y);
    this.ask(x, y);
  }
}
