// Files that wait for a verdict. They outlive the view, a station that is away and a session that ends: each gets
// its verdict, or is named at the end.

import * as api from "../api.js";
import { t } from "../i18n.js";
import { takeValues } from "./fields.js";
import { hush, say, sayAll, sentence } from "../said.js";

const AT_ONCE = 2;
const TRIES = 5; // of a file that ends the connection while the station is there
const LATER = [0, 503, 507]; // away, not ready, disk full
const UNREADABLE = [413, 415, 422];
const LONGEST_NAME = 120;
const queues = new Map();

// Under its key a file is inspected once, though it may be sent again.
function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// A name as the station shows it: nothing in it turns or hides other text.
function shown(name) {
  const code = (sign) => `\\u${sign.codePointAt(0).toString(16).padStart(4, "0")}`;
  return name.replace(/(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, code).slice(0, LONGEST_NAME);
}

// The browser cannot send a file that has changed or gone since it was dropped, and calls that a lost connection.
async function isReadable(file) {
  return file.arrayBuffer().then(() => true, () => false);
}

class Queue {
  constructor(product) {
    this.product = product;
    this.found = []; // the verdicts since the page was opened, the latest last
    this.files = [];
    this.running = 0;
    this.paused = false;
    this.batch = []; // the verdicts of what was brought together
    this.view = null; // hears `arrived(found)`, `waits(name)` and `summed(batch)` while it is shown
  }

  get left() {
    return this.files.length + this.running;
  }

  // Resolves when each has a verdict or was refused.
  inspect(files) {
    if (!this.left) {
      hush();
      this.counts = { good: 0, anomalous: 0, unjudged: 0, unreadable: 0, failed: 0 };
      this.refused = [];
      this.batch = [];
    }
    const fields = takeValues(this.product);
    const all = files.map((file) => new Promise((done) => this.files.push({ file, fields, name: shown(file.name), done, key: newKey(), tries: 0 })));
    this.work();
    return Promise.all(all);
  }

  work() {
    while (!this.paused && this.running < AT_ONCE && this.files.length) this.judge(this.files.shift());
  }

  async judge(one) {
    this.running += 1;
    this.view?.waits(one.name);
    try {
      const waiting = (seconds) => say(t("inspect.busy", { count: seconds }));
      const answer = await api.patient(() => api.inspect(this.product, one.file, one.key, one.fields), { waiting });
      answer.inspections.forEach((found) => this.arrived(found));
      one.done();
    } catch (error) {
      if (!await this.postponed(one, error)) one.done();
    }
    this.running -= 1;
    this.view?.waits("");
    this.work();
    if (!this.left) this.sum();
  }

  arrived(found) {
    this.counts[found.verdict] += 1;
    this.batch.push(found);
    if (this.view) this.view.arrived(found);
    else this.found.push(found);
  }

  // Whether the file goes back into the queue, until the station is back or somebody has signed in.
  async postponed(one, error) {
    const gone = error.status === 0 && !await isReadable(one.file);
    one.tries += error.status === 0 ? 1 : 0;
    const again = error.status === 401 ? api.SIGNED_IN : LATER.includes(error.status) && one.tries < TRIES && !gone ? api.BACK : null;
    if (again === null) {
      this.refuse(one.name, gone ? t("inspect.unread") : sentence(error), gone || UNREADABLE.includes(error.status));
      return false;
    }
    this.files.unshift(one);
    this.paused = true;
    addEventListener(again, () => {
      this.paused = false;
      this.work();
    }, { once: true });
    if (again === api.BACK) dispatchEvent(new Event(api.AWAY));
    return true;
  }

  refuse(name, text, unreadable) {
    this.counts[unreadable ? "unreadable" : "failed"] += 1;
    this.refused.push(text.includes(name) ? text : `${name}: ${text}`);
  }

  // All of several files, and each that has no verdict.
  sum() {
    const { good, anomalous, unjudged, unreadable, failed } = this.counts;
    if (good + anomalous + unjudged + this.refused.length < 2) {
      if (this.refused.length) sayAll(this.refused, true);
      return;
    }
    const told = [t("sum.good", { count: good }), t("sum.anomalous", { count: anomalous }),
      unjudged && t("sum.unjudged", { count: unjudged }), unreadable && t("sum.unreadable", { count: unreadable }),
      failed && t("sum.failed", { count: failed })];
    if (this.view && this.batch.length > 1) this.view.summed(this.batch);
    if (!this.view || this.batch.length < 2 || this.refused.length) sayAll([told.filter(Boolean).join(", "), ...this.refused], this.refused.length > 0);
  }
}

export function queueOf(product) {
  if (!queues.has(product)) queues.set(product, new Queue(product));
  return queues.get(product);
}

// Closing the page would lose what waits.
addEventListener("beforeunload", (event) => {
  if ([...queues.values()].some((queue) => queue.left)) event.preventDefault();
});
