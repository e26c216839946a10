// Verdicts as they come, whoever sent the parts: a screen beside the line.

import { h, replace } from "../dom.js";
import { address, ask, products as askProducts } from "../api.js";
import { number, percent, reached, t, when } from "../i18n.js";
import { go } from "../router.js";
import { sound } from "../parts/sound.js";
import { WORDS, Verdict, badge, defectName } from "../parts/verdict.js";

const MOST = 24;
const LOOK = 10000;

class Wall {
  constructor(product, context) {
    this.known = new Set();
    this.count = 0;
    this.bad = 0;
    this.verdict = new Verdict();
    this.verdict.waits(t("wall.waiting"));
    this.state = h("p", { class: "wall-state", role: "status" });
    this.summary = h("p", { class: "pale number" });
    this.watches = h("ul", { class: "notes", hidden: true });
    this.list = h("ul", { class: "wall-list", "aria-label": t("wall.latest") });
    this.node = h("div", { class: "wall" }, this.verdict.node,
      h("div", { class: "row" }, this.state, h("span", { class: "grow" }), this.summary), this.watches, this.list);
    const events = new EventSource(address(product ? `live?product=${product}` : "live"));
    events.addEventListener("start", () => this.tell("wall.on"));
    events.addEventListener("error", () => this.tell("live.lost"));
    events.addEventListener("verdict", (event) => this.arrived(JSON.parse(event.data)));
    this.tell("live.lost");
    this.before(product).catch(() => {});
    const look = setInterval(() => this.look(product), LOOK);
    this.look(product);
    context.leaving(() => { events.close(); clearInterval(look); });
  }

  tell(key) {
    const mark = h("span", { class: `dot ${key === "wall.on" ? "on" : "off"}`, "aria-hidden": "true" });
    replace(this.state, mark, t(key));
  }

  // What came before, so that the screen is not empty; it is neither counted nor heard.
  async before(product) {
    const query = new URLSearchParams({ limit: MOST / 2, ...(product ? { product } : {}) });
    const found = await ask("GET", `inspections?${query}`);
    const older = found.inspections.filter((one) => !this.known.has(one.id));
    for (const one of older) {
      this.known.add(one.id);
      this.list.append(this.item(one));
    }
  }

  // A browser that was away gets all that it missed; none is counted twice.
  arrived(found) {
    if (this.known.has(found.id)) return;
    this.known.add(found.id);
    this.count += 1;
    this.bad += found.verdict === "anomalous";
    this.verdict.shows({ ...found, name: `${found.product} · ${found.name}`, regions: { length: found.regions } });
    this.list.prepend(this.item(found));
    if (this.list.children.length > MOST) this.list.lastChild.remove();
    this.summary.textContent = `${t("strip.summary", { all: this.count, bad: this.bad })} (${percent(this.bad / this.count)})`;
    sound(found.verdict);
  }

  item(found) {
    const reach = found.level === null ? number(found.score, 3) : t("score.words", { reach: reached(found.level) });
    return h("li", {}, h("a", { href: `#/inspections/${found.id}`, class: `wall-item ${found.verdict}`, "aria-label": `${found.name}: ${t(WORDS[found.verdict])}` },
      h("img", { src: address(`inspections/${found.id}/thumbnail`), alt: "" }), badge(found.verdict),
      found.defect && h("strong", {}, defectName(found)), h("span", { class: "wall-name" }, found.name), h("span", { class: "pale number" }, `${reach} · ${when(found.time)}`)));
  }

  async look(product) {
    const found = await ask("GET", "watches").catch(() => []);
    const mine = found.filter((one) => !product || one.product_id === product || one.problem);
    this.watches.hidden = mine.length === 0;
    replace(this.watches, mine.map((one) => h("li", {}, h("strong", {}, one.product), ": ",
      one.problem ?? t("live.folder", { count: one.judged, failed: one.failed }))));
  }
}

async function show(place, context) {
  const products = await askProducts(context.signal);
  const product = context.params.id ?? "";
  const select = h("select", { "aria-label": t("inspect.product"), onchange: () => go(select.value ? `/live/${select.value}` : "/live") },
    h("option", { value: "" }, t("history.anyproduct")), products.map((one) => h("option", { value: one.id }, one.name)));
  select.value = product;
  replace(place, h("div", { class: "row inspect-head" }, h("h1", { class: "product-name" }, t("nav.live")), select),
    new Wall(product, context).node);
}

export default { name: "live", path: "/live", nav: "nav.live", show };
export const liveOf = { name: "live", path: "/live/:id", show };
