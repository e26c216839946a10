// What is drawn over a part: outlines of its regions, a ring at its strongest place, a cross where somebody points.

import { replace, svg } from "../dom.js";

const UNIT = 0.036; // of the longer side: numbers, and the ring's radius is half as much again

function ring({ map_peak_x: x, map_peak_y: y, size }) {
  const r = Math.min(...size) / 20, far = 0.6 * r;
  const d = `M${x - r} ${y}a${r} ${r} 0 1 1 ${2 * r} 0a${r} ${r} 0 1 1 ${-2 * r} 0h${-far}M${x + r} ${y}h${far}M${x} ${y - r}v${-far}M${x} ${y + r}v${far}`;
  return [svg("path", { class: "ring halo", d }), svg("path", { class: "ring", d })];
}

function outline(region, place, size) {
  const points = region.polygon.map((point) => point.join(",")).join(" ");
  const corner = [region.bbox[0], region.bbox[1] + region.bbox[3]];
  const [x, y] = region.polygon.reduce((top, point) => (point[1] < top[1] ? point : top), corner);
  return svg("g", { "data-region": place },
    svg("polygon", { class: "halo", points }), svg("polygon", { points }),
    svg("text", { x: Math.max(x, size / 2), y: Math.max(y - size / 4, size), "font-size": size, "text-anchor": "middle" }, String(place + 1)));
}

export class Marks {
  constructor() {
    this.node = svg("svg", { class: "marks", "aria-hidden": "true" });
    this.cross = svg("path", { class: "cross", visibility: "hidden" });
  }

  shows(found) {
    this.size = found.size;
    const unit = UNIT * Math.max(...found.size);
    this.node.setAttribute("viewBox", `0 0 ${found.size[0]} ${found.size[1]}`);
    this.cross.setAttribute("visibility", "hidden");
    replace(this.node, ring(found), found.regions.map((region, place) => outline(region, place, unit)), this.cross);
  }

  at(x, y) {
    const size = Math.max(...this.size) / 30;
    this.cross.setAttribute("d", `M${x - size} ${y}h${2 * size}M${x} ${y - size}v${2 * size}`);
    this.cross.setAttribute("visibility", "visible");
  }

  point(place) {
    for (const mark of this.node.querySelectorAll("[data-region]")) mark.classList.toggle("chosen", mark.dataset.region === String(place));
  }
}
