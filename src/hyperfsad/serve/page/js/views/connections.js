// The machines that hear of the inspections: whether each is connected, and what is wrong if not.

import { action, h, replace } from "../dom.js";
import * as api from "../api.js";
import { number, t } from "../i18n.js";
import { tell } from "../said.js";
import { shape } from "../parts/verdict.js";

const EVERY = 2000;

function fact(name, value) {
  return h("div", { class: "fact" }, h("dt", {}, t(name)), h("dd", {}, h("strong", {}, value)));
}

function filled(card, one) {
  const waits = one.problem !== null || one.waiting > 0;
  replace(card.facts, fact("connect.state", t(one.problem === null ? "connect.works" : "connect.broken")),
    fact("connect.delivered", number(one.delivered)), waits && fact("connect.waiting", number(one.waiting)));
  replace(card.problem, one.problem);
}

function made(one) {
  const card = { facts: h("dl", { class: "facts" }), problem: h("p", { class: "pale" }) };
  const said = h("p", { role: "status" });
  const test = action(t("connect.test"), async () => {
    replace(said, t("connect.testing"));
    try {
      const found = await api.testConnection(one.name);
      replace(said, shape(found.works ? "good" : "anomalous"), " ", found.works ? t("connect.tested") : found.problem);
    } catch (error) {
      replace(said);
      throw error;
    }
  }, tell);
  card.node = h("li", { class: "card" }, h("h2", {}, t(`connect.${one.name}`)), h("p", { class: "pale" }, one.address),
    card.facts, card.problem, h("div", { class: "row" }, test), said);
  return card;
}

async function show(place, context) {
  const first = await api.connections(context.signal);
  const head = h("h1", {}, t("nav.connections"));
  if (!first.connections.length) return replace(place, head, h("p", { class: "card" }, t("connect.none")));
  const cards = new Map(first.connections.map((one) => [one.name, made(one)]));
  const state = h("p", {});
  const fill = (found) => {
    replace(state, t(`connect.line.${found.state}`), found.state === "fault" && ` ${t(`connect.reason.${found.reason}`)}`);
    for (const one of found.connections) filled(cards.get(one.name), one);
  };
  fill(first);
  replace(place, head, state, h("ul", { class: "cards" }, [...cards.values()].map((card) => card.node)));
  const timer = setInterval(() => api.connections(context.signal).then(fill, () => {}), EVERY);
  context.leaving(() => clearInterval(timer));
  return null;
}

export default { name: "connections", path: "/connections", nav: "nav.connections", engineer: true, show };
