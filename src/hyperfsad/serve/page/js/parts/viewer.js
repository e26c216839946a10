// The image with its map under a slider, its regions, and a place that can be asked about.

import { h, replace, svg } from "../dom.js";
import { address } from "../api.js";
import { t } from "../i18n.js";
import { wish, wishes } from "../state.js";

const STEP = 0.02;

// Points at the strongest place of a part that is anomalous without a region; no outline of a defect.
function ring({ map_peak_x: x, map_peak_y: y, size }) {
  const r = Math.min(...size) / 20, far = 0.6 * r;
  const d = `M${x - r} ${y}a${r} ${r} 0 1 1 ${2 * r} 0a${r} ${r} 0 1 1 ${-2 * r} 0h${-far}M${x + r} ${y}h${far}M${x} ${y - r}v${-far}M${x} ${y + r}v${far}`;
  return [svg("path", { class: "ring halo", d }), svg("path", { class: "ring", d })];
}

export class Viewer {
  // `ask(x, y)` is called where somebody wants to know why, in pixels of the image.
  constructor(ask) {
    this.ask = ask;
    this.found = null;
    this.spot = [0.5, 0.5];
    this.picture = h("img", { alt: "", draggable: "false" });
    this.map = h("img", { class: "map", alt: "", draggable: "false" });
    this.marks = svg("svg", { class: "marks", "aria-hidden": "true" });
    this.stage = h("div", { class: "stage", tabindex: "0", role: "application", "data-arrows": true }, this.picture, this.map, this.marks);
    this.slider = h("input", { type: "range", min: 0, max: 100, step: 5, value: wishes.overlay, oninput: () => this.fade(Number(this.slider.value)) });
    this.node = h("figure", { class: "viewer" }, this.stage,
      h("figcaption", {}, h("label", {}, t("viewer.overlay"), this.slider)));
    this.stage.addEventListener("click", (event) => this.clicked(event));
    this.stage.addEventListener("keydown", (event) => this.moved(event));
    this.picture.addEventListener("load", () => this.stage.classList.remove("loading"));
    this.fade(wishes.overlay);
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
    this.found = found;
    const [width, height] = found.size;
    this.stage.style.aspectRatio = `${width} / ${height}`;
    this.stage.style.setProperty("--ratio", width / height);
    this.stage.setAttribute("aria-label", t("viewer.stage", { name: found.name }));
    this.stage.classList.add("loading");
    this.picture.alt = found.name;
    this.picture.src = address(`inspections/${found.id}/picture`);
    this.map.src = address(`inspections/${found.id}/heatmap`);
    this.marks.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const size = Math.max(width, height) / 28;
    replace(this.marks, found.regions.map((region, place) => {
      const [x, y] = region.polygon.reduce((top, point) => (point[1] < top[1] ? point : top), region.bbox.slice(0, 2).map((one, axis) => one + (axis ? region.bbox[3] : 0)));
      return svg("g", { "data-region": place },
        svg("polygon", { class: "halo", points: region.polygon.map((point) => point.join(",")).join(" ") }),
        svg("polygon", { points: region.polygon.map((point) => point.join(",")).join(" ") }),
        svg("text", { x: Math.max(x, size / 2), y: Math.max(y - size / 4, size), "font-size": size, "text-anchor": "middle" }, String(place + 1)));
    }));
    if (found.anomalous && !found.regions.length) this.marks.append(...ring(found));
    this.cross = svg("path", { class: "cross", visibility: "hidden" });
    this.marks.append(this.cross);
    this.spot = [found.map_peak_x / width, found.map_peak_y / height];
  }

  mark(x, y) {
    const size = Math.max(...this.found.size) / 30;
    this.spot = [x / this.found.size[0], y / this.found.size[1]];
    this.cross.setAttribute("d", `M${x - size} ${y}h${2 * size}M${x} ${y - size}v${2 * size}`);
    this.cross.setAttribute("visibility", "visible");
  }

  point(place) {
    for (const mark of this.marks.querySelectorAll("[data-region]")) {
      mark.classList.toggle("chosen", mark.dataset.region === String(place));
    }
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
      const [x, y] = this.spot.map((share, axis) => Math.min(1, Math.max(0, share + STEP * ways[event.key][axis])));
      this.mark(x * this.found.size[0], y * this.found.size[1]);
    } else return;
    event.preventDefault();
  }

  asked() {
    const [width, height] = this.found.size;
    const x = Math.min(Math.max(this.spot[0] * width, 0), width - 1);
    const y = Math.min(Math.max(this.spot[1] * height, 0), height - 1);
    this.mark(x, y);
    this.ask(x, y);
  }
}
