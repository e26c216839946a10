// Where pictures come from: dropped files, the camera, or whatever reaches the station.

import { h, replace } from "../dom.js";
import { t } from "../i18n.js";
import { wish, wishes } from "../state.js";
import { Camera } from "./camera.js";
import { dropZone, isTouch, phoneCamera } from "./drop.js";
import { Live } from "./live.js";

const KINDS = { drop: "source.drop", camera: "source.camera", live: "source.live" };

// What stands on the place for parts.
export function partWords() {
  return isTouch() ? { text: t("inspect.choose"), hint: null } : { text: t("inspect.drop"), hint: t("inspect.hint") };
}

export class Sources {
  // `take(files)` inspects pictures, `live(id)` shows an inspection that somebody else made, `preview(video)` shows what
  // the camera sees.
  constructor({ product, take, live, preview, context }) {
    this.zone = dropZone({ ...partWords(), take, whole: true });
    this.camera = new Camera({
      take: (file) => take([file]), every: wishes.every, onEvery: (every) => wish({ every }), preview,
    });
    this.live = new Live(product, live);
    this.phone = phoneCamera(take);
    this.tabs = h("div", { class: "tabs", role: "group", "aria-label": t("source.title") });
    this.node = h("section", { class: "card source", "aria-label": t("source.title") });
    context.leaving(() => { this.zone.close(); this.camera.stop(); this.live.stop(); });
    this.show(wishes.source in KINDS ? wishes.source : "drop");
  }

  show(kind) {
    this.kind = kind;
    wish({ source: kind });
    if (kind !== "camera" && this.camera.running) this.camera.stop();
    if (kind === "live") this.live.start();
    else this.live.stop();
    replace(this.tabs, Object.entries(KINDS).map(([name, text]) =>
      h("button", { type: "button", class: "toggle", "aria-pressed": String(name === kind), onclick: () => this.show(name) }, t(text))));
    const parts = { drop: [this.zone.node, h("div", { class: "touch-only" }, this.phone)], camera: this.camera.node, live: this.live.node };
    replace(this.node, parts[kind]);
  }

  choose() {
    if (this.kind !== "drop") this.show("drop");
    this.zone.open();
  }

  shoot() {
    if (this.kind !== "camera") return;
    if (this.camera.running) this.camera.shoot();
    else this.camera.node.querySelector("button")?.click();
  }
}
