// Inspecting, in one screen: the verdict across, the part in its place, and beside it what to do and why.

import { h, replace } from "../dom.js";
import * as api from "../api.js";
import { t } from "../i18n.js";
import { addKeys } from "../keys.js";
import { go } from "../router.js";
import { isEngineer, wish, wishes } from "../state.js";
import { LineHint } from "../parts/adapting.js";
import { Batch } from "../parts/batch.js";
import { EvidencePanel } from "../parts/evidence.js";
import { details, gauge, regions } from "../parts/facts.js";
import { FieldEntry } from "../parts/fields.js";
import { handed } from "../parts/handed.js";
import { LabelButtons } from "../parts/labelling.js";
import { queueOf } from "../parts/queue.js";
import { sound } from "../parts/sound.js";
import { Sources, partWords } from "../parts/sources.js";
import { Strip } from "../parts/strip.js";
import { Verdict } from "../parts/verdict.js";
import { Viewer } from "../parts/viewer.js";
import { steps } from "./start.js";

class Inspecting {
  constructor(products, product, context) {
    this.product = product;
    this.context = context;
    this.found = null;
    this.queue = queueOf(product.id);
    this.verdict = new Verdict();
    this.evidence = new EvidencePanel();
    this.viewer = new Viewer((x, y) => this.evidence.shows(this.found, x, y));
    this.labels = new LabelButtons((found) => this.changed(found), () => this.viewer.marked);
    this.facts = h("div", { class: "card facts-card", hidden: true });
    this.strip = new Strip((found) => this.shows(found), this.queue.found);
    this.batch = new Batch((found) => this.shows(found));
    this.back = h("button", { type: "button", class: "batch-back", hidden: true, onclick: () => this.sums() }, t("batch.back"), h("kbd", {}, "R"));
    this.camera = h("div", { class: "camera-place", hidden: true });
    this.sources = new Sources({
      product, take: (files) => this.queue.inspect(files), live: (id) => this.live(id), preview: (video) => this.previews(video), context,
    });
    this.line = new LineHint(product, context.signal);
    this.part = h("div", { class: "part empty" }, h("p", { class: "empty-hint", onclick: () => this.sources.choose() }, partWords().hint), this.viewer.node, this.batch.node, this.camera);
    this.panel = h("aside", { class: "panel", "aria-label": t("inspect.panel") },
      h("div", { class: "panel-head" }, chooser(products, product), this.sources.tabs),
      this.labels.node, this.back, new FieldEntry(product).node, this.sources.node, this.evidence.node, this.facts, this.line.node);
    this.node = h("div", { class: "inspect" }, this.verdict.node, this.panel, this.part, this.strip.node);
    this.queue.view = this;
    this.waits("");
    context.leaving(() => this.left());
    if (this.strip.all.length) this.shows(this.strip.all.at(-1));
    addKeys(
      ...this.labels.keys,
      { key: "e", text: "key.evidence", run: () => this.found && this.evidence.shows(this.found) },
      ...this.viewer.keys,
      { key: "ArrowLeft", shown: "key.left", text: "key.previous", run: () => this.strip.move(-1) },
      { key: "ArrowRight", shown: "key.right", text: "key.next", run: () => this.strip.move(1) },
      { key: "r", text: "key.batch", run: () => !this.back.hidden && this.sums() },
      { key: "d", text: "key.drop", run: () => this.sources.choose() },
      { key: " ", shown: "key.space", text: "key.shoot", run: () => this.sources.shoot() },
      { key: "c", text: "key.camera", run: () => this.swap() },
    );
  }

  // What waits goes on without the view.
  left() {
    this.evidence.clear();
    this.labels.close();
    this.queue.view = null;
  }

  waits(name) {
    this.verdict.works(this.queue.running > 0, name);
    this.strip.waits(this.queue.left);
  }

  // The camera sees where the part will be; beside a part it is small.
  previews(video) {
    this.camera.hidden = video === null;
    const swap = h("button", { type: "button", class: "camera-swap", "aria-label": t("camera.swap"), title: t("camera.swap"), onclick: () => this.swap() }, "⤢");
    replace(this.camera, video, video && swap);
    this.part.classList.toggle("on-camera", video !== null);
  }

  swap() {
    if (!this.camera.hidden && this.found) this.part.classList.toggle("on-camera");
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
    this.part.classList.remove("empty", "on-camera");
    this.batch.node.hidden = true;
    this.viewer.node.hidden = false;
    this.back.hidden = !this.batch.found.some((one) => one.id === found.id);
    this.verdict.shows(found);
    this.viewer.shows(found);
    this.evidence.clear();
    this.labels.node.hidden = this.facts.hidden = false;
    this.drawFacts();
    this.strip.choose(found.id);
  }

  summed(batch) {
    this.batch.shows(batch);
    this.sums();
  }

  sums() {
    this.found = this.labels.found = null;
    this.viewer.node.hidden = true;
    this.batch.node.hidden = false;
    this.verdict.sums(this.batch.found);
    this.evidence.clear();
    this.labels.node.hidden = this.facts.hidden = this.back.hidden = true;
    this.part.classList.remove("empty", "on-camera");
    this.strip.choose(null);
  }

  drawFacts() {
    const found = this.found;
    this.labels.shows(found);
    replace(this.facts, gauge(found),
      regions(found, {
        chosen: (place) => this.viewer.point(place),
        asked: (region) => {
          if (!region.peak) return this.evidence.shows(found);
          this.viewer.mark(region.peak.x, region.peak.y);
          return this.evidence.shows(found, region.peak.x, region.peak.y);
        },
      }),
      details(found, isEngineer()));
  }

  changed(found) {
    this.strip.update(found);
    if (this.found?.id !== found.id) return;
    this.found = found;
    this.verdict.shows(found);
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
  const inspecting = new Inspecting(products, product, context);
  replace(place, inspecting.node);
  const files = handed();
  if (files.length) inspecting.queue.inspect(files);
  return null;
}

export default { name: "inspect", path: "/", nav: "nav.inspect", show };
export const ofProduct = { name: "inspect", path: "/inspect/:id", show };
