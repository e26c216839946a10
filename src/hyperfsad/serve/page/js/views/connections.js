// The machines that hear of the inspections: whether each is connected, and what is wrong if not.

import { action, h, replace } from "../dom.js";
import * as api from "../api.js";
import { currentLanguage, number, t } from "../i18n.js";
import { tell } from "../said.js";
import { shape } from "../parts/verdict.js";

const EVERY = 2000;
const NAMES = { webhook: "connect.webhook", mqtt: "connect.mqtt", opcua: "connect.opcua", modbus: "connect.modbus" };
const LINES = {
  stopped: "connect.line.stopped", starting: "connect.line.starting", ready: "connect.line.ready",
  busy: "connect.line.busy", result: "connect.line.result", fault: "connect.line.fault",
};
const FAULTS = { disk: "connect.reason.disk", restart: "connect.reason.restart", fault: "connect.reason.fault" };

function fact(name, value) {
  return h("div", { class: "fact" }, h("dt", {}, t(name)), h("dd", {}, h("strong", {}, value)));
}

// The station's own words; in other languages than English, ours come first.
function worded(problem) {
  return currentLanguage() === "en" ? problem : `${t("connect.away")} (${problem})`;
}

function filled(card, one) {
  const waits = one.problem !== null || one.waiting > 0;
  replace(card.facts, fact("connect.state", t(one.problem === null ? "connect.works" : "connect.broken")),
    fact("connect.delivered", number(one.delivered)), waits && fact("connect.waiting", number(one.waiting)));
  replace(card.problem, one.problem && worded(one.problem));
}

function made(one) {
  const card = { facts: h("dl", { class: "facts" }), problem: h("p", { class: "pale" }) };
  const said = h("p", { role: "status", class: "row" });
  const test = action(t("connect.test"), async () => {
    replace(said, t("connect.testing"));
    try {
      const found = await api.testConnection(one.name);
      replace(said, shape(found.works ? "good" : "anomalous"), h("span", { class: "grow" }, found.works ? t("connect.tested") : worded(found.problem)));
    } catch (error) {
      replace(said);
      throw error;
    }
  }, tell);
  card.node = h("li", { class: "card connection" }, h("h2", {}, t(NAMES[one.name])), h("p", { class: "pale" }, one.address),
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
    replace(state, t(LINES[found.state]), found.state === "fault" && ` ${t(FAULTS[found.reason])}`);
    for (const one of found.connections) filled(cards.get(one.name), one);
  };
  fill(first);
  replace(place, head, state, h("ul", { class: "cards" }, [...cards.values()].map((card) => card.node)));
  const timer = setInterval(() => api.connections(context.signal).then(fill, () => {}), EVERY);
  context.leaving(() => clearInterval(timer));
  return null;
}

export default { name: "connections", path: "/connections", menu: "nav.connections", engineer: true, show };
