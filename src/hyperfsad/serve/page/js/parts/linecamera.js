// The camera of a product on the line: its address and trigger, and how it keeps up.

import { action, h, replace } from "../dom.js";
import * as api from "../api.js";
import { number, t } from "../i18n.js";
import { say, tell } from "../said.js";

const EVERY = 2000; // milliseconds between two looks
const TRIGGERS = { "every:500ms": "linecam.half", "every:1s": "linecam.second", "every:5s": "linecam.five", still: "linecam.still", software: "linecam.software" };

const STATES = {
  connecting: "linecam.connecting", running: "linecam.running", away: "linecam.away", ended: "linecam.ended", stopped: "linecam.stopped",
};

function chooser(current) {
  const known = current in TRIGGERS ? TRIGGERS : { ...TRIGGERS, [current]: null };
  return h("select", {}, Object.entries(known).map(([value, key]) =>
    h("option", { value, selected: value === current }, key ? t(key) : value)));
}

const time = (value) => (value === null ? "–" : t("linecam.ms", { count: Math.round(value) }));

function figures(state) {
  const row = (key, value) => h("tr", {}, h("th", { scope: "row" }, t(key)), h("td", {}, value));
  return h("table", {}, h("tbody", {},
    row("linecam.state", t(STATES[state.state])),
    row("linecam.judged", number(state.judged)),
    row("linecam.late", number(state.late)),
    row("linecam.failed", number(state.failed)),
    row("linecam.dropped", number(state.dropped)),
    row("linecam.queue", state.queue ? t("linecam.waiting", { count: state.queue, oldest: time(state.oldest_ms) }) : "0"),
    row("linecam.losses", number(state.losses)),
    row("linecam.took", [state.p50_ms, state.p95_ms, state.p99_ms].map(time).join(" / "))));
}

function picture(product, finding) {
  const query = finding ? `finding=${finding}` : `at=${Date.now()}`;
  return h("img", { class: "linecam", src: api.address(`products/${product.id}/source/picture?${query}`), alt: t("linecam.picture") });
}

const FINDINGS = { "camera-dark": "linecam.dark", "camera-bright": "linecam.bright", "camera-blurred": "linecam.blurred", "camera-moved": "linecam.moved" };

function told(product, state) {
  return [
    state.problem && h("p", { role: "status" }, h("strong", {}, state.problem)),
    state.findings.map((one) => h("figure", {}, picture(product, one.code), h("figcaption", {}, t(FINDINGS[one.code])))),
  ];
}

export async function lineCamera(product, signal) {
  const place = h("div", {});
  let state = await api.source(product.id, signal);
  const sees = h("div", {});

  function show() {
    replace(place, state && [figures(state), told(product, state)]);
    removing.hidden = !state;
    if (!state || !state.frames) replace(sees);
    else if (state.state === "running" || !sees.firstChild) replace(sees, picture(product));
  }

  async function look() {
    try {
      state = await api.source(product.id, signal);
      if (!signal.aborted) show();
    } catch {
      // what the page says of a station that is away is enough
    }
  }

  const address = h("input", { value: state?.address ?? "", required: true, maxlength: 500, placeholder: "rtsp://…/stream1", class: "grow", autocomplete: "off", spellcheck: "false" });
  const trigger = chooser(state?.trigger ?? "every:500ms");
  const deadline = h("input", { value: state?.deadline ?? "", maxlength: 40, placeholder: "500ms", class: "short", autocomplete: "off" });
  const removing = action(t("linecam.remove"), async () => {
    await api.removeSource(product.id);
    state = null;
    show();
    say(t("linecam.removed"));
  }, tell, { class: "danger" });
  const form = h("form", {},
    h("label", { class: "row" }, t("linecam.address"), address),
    h("label", { class: "row" }, t("linecam.trigger"), trigger),
    h("label", { class: "row" }, t("linecam.deadline"), deadline),
    h("div", { class: "row" }, h("button", { class: "main" }, t("linecam.set")), removing));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const wanted = { address: address.value.trim(), trigger: trigger.value };
      if (deadline.value.trim()) wanted.deadline = deadline.value.trim();
      state = await api.setSource(product.id, wanted);
      show();
      say(t("linecam.done"));
    } catch (error) {
      tell(error);
    }
  });
  show();
  const timer = setInterval(() => state && look(), EVERY);
  signal.addEventListener("abort", () => clearInterval(timer));
  return [h("p", { class: "pale" }, t("linecam.text")), form, place, sees];
}
