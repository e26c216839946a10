// Inspecting: the verdict first, then where and why, then what a person says of it.

import { h, replace } from "../dom.js";
import * as api from "../api.js";
import { t } from "../i18n.js";
import { addKeys } from "../keys.js";
import { go } from "../router.js";
import { isEngineer, wish, wishes } from "../state.js";
import { LineHint } from "../parts/adapting.js";
import { EvidencePanel } from "../parts/evidence.js";
import { LabelButtons, details, gauge, regions } from "../parts/facts.js";
import { FieldEntry } from "../parts/fields.js";
import { handed } from "../parts/handed.js";
import { queueOf } from "../parts/queue.js";
import { sound } from "../parts/sound.js";
import { Sources } from "../parts/sources.js";
import { Strip } from "../parts/strip.js";
import { Verdict } from "../parts/verdict.js";
import { Viewer } from "../parts/viewer.js";
import { steps } from "./start.js";

class Inspecting {
  constructor(product, context) {
    this.product = product;
    this.context = context;
    this.found = null;
    this.queue = queueOf(product.id);
    this.verdict = new Verdict();
    this.evidence = new EvidencePanel();
    this.viewer = new Viewer((x, y) => this.evidence.shows(this.found, x, y));
    this.labels = new LabelButtons((found) => this.changed(found));
    this.facts = h("div", { class: "card facts-card", hidden: true });
    this.strip = new Strip((found) => this.shows(found), this.queue.found);
    this.sources = new Sources({ product, take: (files) => this.queue.inspect(files), live: (id) => this.live(id), context });
    this.body = h("div", { class: "inspect-body empty" }, this.viewer.node, h("aside", {}, this.facts, new FieldEntry(product).node, this.sources.node), this.evidence.node);
    this.line = new LineHint(product, context.signal);
    this.node = h("div", { class: "inspect" }, this.verdict.node, this.line.node, this.strip.node, this.body);
    this.queue.view = this;
    this.waits("");
    context.leaving(() => this.left());
    if (this.strip.all.length) this.shows(this.strip.all[0]);
    addKeys(
      { key: "f", text: "key.fine", run: () => this.labels.set("fine") },
      { key: "b", text: "key.bad", run: () => this.labels.set("bad") },
      { key: "u", text: "key.undo", run: () => this.labels.undo() },
      { key: "e", text: "key.evidence", run: () => this.found && this.evidence.shows(this.found) },
      { key: "o", text: "key.overlay", run: () => this.viewer.toggle() },
      { key: "ArrowLeft", shown: "key.left", text: "key.previous", run: () => this.strip.move(-1) },
      { key: "ArrowRight", shown: "key.right", text: "key.next", run: () => this.strip.move(1) },
      { key: "d", text: "key.drop", run: () => this.sources.choose() },
      { key: " ", shown: "key.space", text: "key.shoot", run: () => this.sources.shoot() },
    );
  }

  // What waits goes on without the view.
  left() {
    this.evidence.clear();
    this.queue.view = null;
  }

  waits(name) {
    this.verdict.works(this.queue.running > 0, name);
    this.strip.waits(this.queue.left);
  }

  async live(id) {
    if (!this.strip.of(id)) this.arrived(await api.inspection(id, this.context.signal));
  }

  arrived(found) {
    this.strip.add(found);
    this.shows(found);
    this.line.look();
    sound(found.verdict);
  }

  shows(found) {
    this.found = found;
    this.body.classList.remove("empty");
    this.verdict.shows(found);
    this.viewer.shows(found);
    this.evidence.clear();
    this.facts.hidden = false;
    this.drawFacts();
    this.strip.choose(found.id);
  }

  drawFacts() {
    const found = this.found;
    this.labels.shows(found);
    replace(this.facts, h("h2", {}, t("score.reach")), gauge(found), this.labels.node,
      h("h2", {}, t("region.title")),
      regions(found, {
        chosen: (place) => this.viewer.point(place),
        asked: (region) => {
          if (!region.peak) return this.evidence.shows(found);
          this.viewer.mark(region.peak.x, region.peak.y);
          return this.evidence.shows(found, region.peak.x, region.peak.y);
        },
      }),
      h("p", { class: "pale" }, t("evidence.hint")),
      isEngineer() && details(found));
  }

  changed(found) {
    this.strip.update(found);
    if (this.found?.id !== found.id) return;
    this.found = found;
    this.drawFacts();
  }
}

function chooser(products, product) {
  if (products.length < 2) return h("h1", { class: "product-name" }, product.name);
  const select = h("select", { class: "product-select", "aria-label": t("inspect.product"), onchange: () => go(`/inspect/${select.value}`) },
    products.map((one) => h("option", { value: one.id }, one.name)));
  select.value = product.id;
  return h("h1", { class: "product-name" }, select);
}

async function show(place, context) {
  const products = await api.products(context.signal);
  document.body.classList.toggle("first", products.length === 0);
  context.leaving(() => document.body.classList.remove("first"));
  if (!products.length) {
    if (isEngineer()) return steps(place, context, products);
    return replace(place, h("div", { class: "card narrow" }, h("h1", {}, t("inspect.noproduct")), h("p", {}, t("inspect.noproducttext"))));
  }
  const wanted = context.params.id ?? wishes.product;
  const product = products.find((one) => one.id === wanted) ?? products[0];
  wish({ product: product.id });
  const inspecting = new Inspecting(product, context);
  replace(place, h("div", { class: "row inspect-head" }, chooser(products, product), inspecting.sources.tabs), inspecting.node);
  const files = handed();
  if (files.length) inspecting.queue.inspect(files);
  return null;
}

export default { name: "inspect", path: "/", nav: "nav.inspect", show };
export const ofProduct = { name: "inspect", path: "/inspect/:id", show };
