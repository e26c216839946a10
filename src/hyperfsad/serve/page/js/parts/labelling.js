// What a person says of the part that is shown: fine, bad, and which defect it is; by button or by key.

import { h, replace } from "../dom.js";
import * as api from "../api.js";
import { t } from "../i18n.js";
import { hush, say, tell } from "../said.js";
import { isEngineer } from "../state.js";
import { taught } from "./asking.js";
import { Names } from "./naming.js";

const LABELS = { fine: "label.isfine", bad: "label.isbad" };

export class LabelButtons {
  // `changed(found)` hears of what was said; `place()` is where somebody has pointed, or null.
  constructor(changed, place) {
    this.changed = changed;
    this.place = place;
    this.names = new Names((name) => this.named(name));
    this.found = null;
    this.latest = new Map(); // each part as the station knows it
    this.turns = new Map();
    this.others = new BroadcastChannel("labels");
    this.others.addEventListener("message", ({ data }) => this.look(data));
    this.looking = () => this.look(this.found?.id); // another machine may have said something meanwhile
    addEventListener("focus", this.looking);
    this.buttons = h("div", { class: "labels" });
    this.node = h("div", { class: "labelling", hidden: true }, this.buttons, this.names.node);
  }

  // Their letters are those of the words, so each language has its own.
  get keys() {
    const key = (letter, text, run) => ({ key: letter.toLowerCase(), text, run });
    return [key(t("letter.fine"), "key.fine", () => this.set("fine")), key(t("letter.bad"), "key.bad", () => this.set("bad")),
      key(t("letter.undo"), "key.undo", () => this.undo()), ...this.names.keys];
  }

  // One after the other for each part: taking back waits for what is being learnt.
  turn(id, work) {
    const mine = (this.turns.get(id) ?? Promise.resolve()).then(() => work(this.latest.get(id))).catch((error) => this.failed(id, error));
    this.turns.set(id, mine);
    mine.then(() => { if (this.turns.get(id) === mine) this.turns.delete(id); });
    return mine;
  }

  failed(id, error) {
    tell(error);
    if (error.status === 409) setTimeout(() => this.look(id));
  }

  came(found) {
    this.latest.set(found.id, found);
    this.changed(found);
    this.others.postMessage(found.id);
  }

  // A part as others see it now; what is being said here comes first.
  async look(id) {
    if (!this.latest.has(id) || this.turns.has(id)) return;
    const found = await api.inspection(id).catch(() => null);
    const known = this.latest.get(id);
    if (!found || this.turns.has(id) || (found.label === known.label && found.defect === known.defect && found.learnt === known.learnt)) return;
    this.latest.set(id, found);
    this.changed(found);
  }

  close() {
    removeEventListener("focus", this.looking);
    this.others.close();
  }

  set(kind) {
    const learn = kind === "fine" && isEngineer();
    return this.found && this.turn(this.found.id, async ({ id, label, learnt }) => {
      if (label && !(learn && label === "fine" && !learnt)) return;
      if (learn) say(t("label.learning"), { stays: true });
      const answer = await taught((more) => api.label(id, kind, kind === "fine" ? { learn, ...more } : {})).catch((error) => {
        hush();
        throw error;
      });
      if (answer === null) {
        hush();
        return;
      }
      this.came(answer);
      if (kind === "bad") return; // it stands there, with the names to choose from
      say(t(learn ? "label.taught" : "label.keptfine"), { actions: [h("button", { type: "button", onclick: () => this.undo(id) }, t("label.undo"))] });
    });
  }

  // Bad, and this is what it is. Whoever pointed at a place has said where.
  named(defect) {
    const at = this.place();
    return this.found && this.turn(this.found.id, async ({ id, label, product_id: product }) => {
      if (label === "fine") return;
      this.came(await api.patient(() => api.label(id, "bad", { defect, ...(at ? { at } : {}) })));
      await this.names.of(product);
      say(t(at ? "name.doneat" : "name.done", { name: defect }), { actions: [h("button", { type: "button", onclick: () => this.undo(id) }, t("label.undo"))] });
    });
  }

  undo(id = this.found?.id) {
    if (this.turns.has(id)) say(t("label.undoing"), { stays: true });
    return id && this.turn(id, async ({ label }) => {
      if (!label) return;
      const found = await api.patient(() => api.undoLabel(id));
      this.came(found);
      await this.names.of(found.product_id);
      say(t("label.undone"));
    });
  }

  shows(found) {
    this.found = found;
    this.node.hidden = false;
    this.latest.set(found.id, found);
    if (found.product_id !== this.names.product) this.names.of(found.product_id);
    this.names.shows(found);
    if (found.label) {
      const learnt = found.learnt && found.label === "fine" ? t("label.learnt") : "";
      replace(this.buttons, h("p", {}, h("strong", {}, t(LABELS[found.label])), " ", learnt),
        isEngineer() && found.label === "fine" && !found.learnt
          && h("button", { type: "button", onclick: () => this.set("fine") }, t("learnt.teach"), h("kbd", {}, t("letter.fine"))),
        (isEngineer() || !found.learnt || found.label === "bad") && h("button", { type: "button", onclick: () => this.undo() }, t("label.undo"), h("kbd", {}, t("letter.undo"))));
    } else {
      replace(this.buttons,
        h("button", { type: "button", class: "label-fine", onclick: () => this.set("fine") }, t("label.fine"), h("kbd", {}, t("letter.fine"))),
        h("button", { type: "button", class: "label-bad", onclick: () => this.set("bad") }, t("label.bad"), h("kbd", {}, t("letter.bad"))));
    }
  }
}
