// A region of interest, drawn on a picture: rectangles and polygons, several, each step with a way back.

import { h, replace, svg } from "../dom.js";
import { t } from "../i18n.js";

const NEAR = 14; // pixels of the screen from the first corner that end a polygon
const STEP = 0.02; // of the picture, for the arrow keys
const LEAST = 0.01; // a rectangle that is smaller was a slip

const rectangle = ([x, y], [across, down]) => [[x, y], [across, y], [across, down], [x, down]];
const text = (shape) => shape.map(([x, y]) => `${100 * x},${100 * y}`).join(" ");

export class Drawing {
  // `changed(shapes)` hears of each change; corners are shares of the picture's width and height.
  constructor(source, shapes, changed) {
    this.changed = changed;
    this.past = [shapes];
    this.kind = "rectangle";
    this.corners = []; // of the polygon that is being drawn
    this.from = null; // where a rectangle began
    this.at = [0.5, 0.5];
    this.picture = h("img", { src: source, alt: "", draggable: "false" });
    this.marks = svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" });
    this.place = h("div", { class: "drawing", tabindex: 0, role: "application", "aria-label": t("draw.stage"), "data-arrows": true }, this.picture, this.marks);
    const kind = (name, label) => h("button", { type: "button", class: "toggle", "data-kind": name, onclick: () => this.choose(name) }, label);
    this.kinds = [kind("rectangle", t("draw.rectangle")), kind("polygon", t("draw.polygon"))];
    this.undoing = h("button", { type: "button", onclick: () => this.undo() }, t("draw.undo"));
    this.clearing = h("button", { type: "button", onclick: () => this.set([]) }, t("draw.clear"));
    this.told = h("p", { class: "pale", role: "status" });
    this.node = h("div", { class: "draw" }, h("div", { class: "row" }, this.kinds, this.undoing, this.clearing), this.place, this.told);
    this.place.addEventListener("pointerdown", (event) => this.pressed(event));
    this.place.addEventListener("pointermove", (event) => this.moved(event));
    this.place.addEventListener("pointerup", (event) => this.released(event));
    this.place.addEventListener("keydown", (event) => this.typed(event));
    this.choose("rectangle");
  }

  get shapes() {
    return this.past.at(-1);
  }

  choose(kind) {
    this.kind = kind;
    this.corners = [];
    this.from = null;
    for (const button of this.kinds) button.setAttribute("aria-pressed", String(button.dataset.kind === kind));
    this.draw();
  }

  set(shapes) {
    this.past.push(shapes);
    this.corners = [];
    this.from = null;
    this.draw();
    this.changed(shapes);
  }

  // The last corner of what is being drawn, or else the last shape.
  undo() {
    if (this.corners.length) this.corners.pop();
    else if (this.from) this.from = null;
    else if (this.past.length > 1) {
      this.past.pop();
      this.changed(this.shapes);
    }
    this.draw();
  }

  under(event) {
    const box = this.place.getBoundingClientRect();
    return [[event.clientX - box.left, box.width], [event.clientY - box.top, box.height]].map(([way, whole]) => Math.min(1, Math.max(0, way / whole)));
  }

  // Whether a corner ends the polygon: it is the first one again.
  closes(corner) {
    const { width, height } = this.place.getBoundingClientRect();
    const [x, y] = this.corners[0] ?? [2, 2];
    return this.corners.length > 2 && Math.hypot((corner[0] - x) * width, (corner[1] - y) * height) < NEAR;
  }

  add(corner) {
    if (this.kind === "rectangle") {
      if (!this.from) this.from = corner;
      else if (Math.min(...this.from.map((one, axis) => Math.abs(one - corner[axis]))) >= LEAST) return this.set([...this.shapes, rectangle(this.from, corner)]);
    } else if (this.closes(corner)) return this.set([...this.shapes, this.corners]);
    else this.corners = [...this.corners, corner];
    return this.draw();
  }

  pressed(event) {
    if (event.button) return;
    this.at = this.under(event);
    if (this.kind === "polygon") return this.add(this.at);
    this.place.setPointerCapture(event.pointerId);
    return this.add(this.at);
  }

  moved(event) {
    this.at = this.under(event);
    if (this.from || this.corners.length) this.draw();
  }

  // A rectangle is dragged, or its second corner is pressed by itself.
  released(event) {
    if (this.kind === "rectangle" && this.from) {
      const corner = this.under(event);
      if (Math.min(...this.from.map((one, axis) => Math.abs(one - corner[axis]))) >= LEAST) this.add(corner);
    }
  }

  typed(event) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key in ways) {
      this.at = this.at.map((one, axis) => Math.min(1, Math.max(0, one + STEP * ways[event.key][axis])));
      this.draw();
    } else if (event.key === "Enter") this.add(this.at);
    else if (event.key === "Backspace") this.undo();
    else if (event.key === "Escape" && (this.from || this.corners.length)) this.choose(this.kind);
    else return;
    event.preventDefault();
  }

  draw() {
    const open = this.from ? rectangle(this.from, this.at) : this.corners.length ? [...this.corners, this.at] : null;
    const inside = this.shapes.map((shape) => `M${text(shape).replaceAll(" ", "L")}Z`).join("");
    replace(this.marks,
      // what is not inspected is dark
      this.shapes.length > 0 && svg("mask", { id: "draw-mask" }, svg("rect", { width: 100, height: 100, fill: "#fff" }), this.shapes.map((shape) => svg("polygon", { points: text(shape), fill: "#000" }))),
      this.shapes.length > 0 && svg("rect", { class: "outside", width: 100, height: 100, mask: "url(#draw-mask)" }),
      inside && svg("path", { class: "halo", d: inside }), inside && svg("path", { class: "shape-line", d: inside }),
      open && svg("polyline", { class: "halo", points: text(open) }), open && svg("polyline", { class: "shape-line open", points: text(open) }),
      svg("path", { class: "draw-cursor", d: `M${100 * this.at[0] - 2} ${100 * this.at[1]}h4M${100 * this.at[0]} ${100 * this.at[1] - 2}v4` }));
    this.undoing.disabled = this.past.length < 2 && !this.from && !this.corners.length;
    this.clearing.disabled = this.shapes.length === 0;
    const help = this.kind === "rectangle" ? t("draw.helprectangle") : t("draw.helppolygon");
    this.told.textContent = `${t("draw.count", { count: this.shapes.length })} ${help}`;
  }
}
