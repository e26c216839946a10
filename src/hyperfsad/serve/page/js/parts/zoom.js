// Zoom and pan: the wheel, two fingers, a drag, or keys. All panes show the same place at the same size.

const MOST = 16;
const WHEEL = 0.0015;
const STEP = 1.5;
const SLACK = 4; // pixels that a click may wander

export class Zoom {
  // Each of `panes` is { box, stage, ratio() }: the stage is laid into its box, whole at first.
  constructor(frame, panes) {
    this.frame = frame;
    this.panes = panes;
    this.fingers = new Map();
    this.dragged = false;
    this.whole();
    new ResizeObserver(() => this.draw()).observe(frame);
    frame.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
    frame.addEventListener("pointerdown", (event) => this.pressed(event));
    frame.addEventListener("pointermove", (event) => this.moved(event));
    for (const kind of ["pointerup", "pointercancel", "pointerleave"]) frame.addEventListener(kind, (event) => this.fingers.delete(event.pointerId));
    // what ends a drag is no click
    frame.addEventListener("click", (event) => { if (this.dragged) event.stopPropagation(); }, { capture: true });
  }

  whole() {
    this.scale = 1;
    this.middle = [0.5, 0.5];
    this.draw();
  }

  // About a place of the picture, which stays where it is.
  by(factor, about = this.middle) {
    const scale = Math.min(MOST, Math.max(1, this.scale * factor));
    const share = this.scale / scale;
    this.middle = this.middle.map((one, axis) => about[axis] + (one - about[axis]) * share);
    this.scale = scale;
    this.draw();
  }

  nearer() {
    this.by(STEP);
  }

  farther() {
    this.by(1 / STEP);
  }

  // So that a place of the picture is in sight.
  shows(place) {
    const reach = 0.5 / this.scale;
    this.middle = this.middle.map((one, axis) => Math.min(Math.max(one, place[axis] - 0.8 * reach), place[axis] + 0.8 * reach));
    this.draw();
  }

  draw() {
    for (const { box, stage, ratio } of this.panes) {
      const { clientWidth: width, clientHeight: height } = box;
      if (!width || !height) continue;
      const across = this.scale * Math.min(width, height * ratio()), down = across / ratio();
      const start = (room, size, axis) => (size <= room ? (room - size) / 2 : Math.min(0, Math.max(room - size, room / 2 - this.middle[axis] * size)));
      Object.assign(stage.style, { width: `${across}px`, height: `${down}px`, left: `${start(width, across, 0)}px`, top: `${start(height, down, 1)}px` });
    }
    this.frame.classList.toggle("near", this.scale > 1);
    this.frame.style.setProperty("--zoom", this.scale);
  }

  // Where a pointer is in the picture of its pane, as shares.
  under(event) {
    const pane = this.panes.find(({ box }) => box.contains(event.target)) ?? this.panes[0];
    const found = pane.stage.getBoundingClientRect();
    return [(event.clientX - found.left) / found.width, (event.clientY - found.top) / found.height];
  }

  wheeled(event) {
    if (event.deltaY > 0 && this.scale === 1) return; // the page scrolls
    event.preventDefault();
    this.by(Math.exp(-WHEEL * event.deltaY), this.under(event));
  }

  pressed(event) {
    if (!this.fingers.size) this.dragged = false;
    this.fingers.set(event.pointerId, { x: event.clientX, y: event.clientY, from: [event.clientX, event.clientY] });
  }

  spread() {
    const [one, other] = [...this.fingers.values()];
    return Math.hypot(one.x - other.x, one.y - other.y);
  }

  moved(event) {
    const finger = this.fingers.get(event.pointerId);
    if (!finger || !event.buttons) return;
    if (!this.dragged && Math.hypot(event.clientX - finger.from[0], event.clientY - finger.from[1]) < SLACK) return;
    const { width, height } = this.panes[0].stage.getBoundingClientRect();
    const before = this.fingers.size > 1 ? this.spread() : 0;
    const way = [event.clientX - finger.x, event.clientY - finger.y];
    Object.assign(finger, { x: event.clientX, y: event.clientY });
    if (before) {
      this.dragged = true;
      this.by(this.spread() / before, this.under(event));
    } else if (this.scale > 1) {
      this.dragged = true;
      const half = 0.5 / this.scale;
      this.middle = this.middle.map((one, axis) => Math.min(1 - half, Math.max(half, one - way[axis] / (axis ? height : width))));
      this.draw();
    }
  }
}
