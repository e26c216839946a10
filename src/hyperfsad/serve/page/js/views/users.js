// Who may sign in, and who did what.

import { action, h, replace } from "../dom.js";
import * as api from "../api.js";
import { t, when } from "../i18n.js";
import { show } from "../router.js";
import { say, tell } from "../said.js";
import { ROLES, who } from "../state.js";
import { confirmed } from "../parts/asking.js";

function pinField() {
  return h("input", { type: "password", autocomplete: "new-password", required: true, minlength: 4, maxlength: 64, "aria-label": t("login.pin"), placeholder: t("login.pin") });
}

function roleField(value) {
  const node = h("select", { "aria-label": t("version.role") }, Object.entries(ROLES).map(([role, text]) => h("option", { value: role }, t(text))));
  node.value = value;
  return node;
}

async function done(work, text) {
  await work();
  say(text);
  show();
}

function changing(user) {
  const pin = pinField(), role = roleField(user.role);
  const save = action(t("users.save"), async () => {
    await done(() => api.changeUser(user.id, { role: role.value, pin: pin.value }), t("users.changed", { name: user.name }));
    dialog.close();
  }, tell, { class: "main" });
  const dialog = h("dialog", { "aria-label": t("users.change", { name: user.name }) },
    h("h2", {}, t("users.change", { name: user.name })), h("div", { class: "row" }, role, pin), h("p", { class: "pale" }, t("users.pins")),
    h("form", { method: "dialog" }, h("button", {}, t("cancel")), save));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function row(user) {
  const remove = action(t("users.remove"), async () => {
    if (!await confirmed(t("users.remove"), h("p", {}, t("users.removetext", { name: user.name })))) return;
    const own = user.name === who.user;
    await done(() => api.removeUser(user.id), t("users.removed", { name: user.name }));
    if (!own) return;
    await api.loadSession(); // one's own has ended
    dispatchEvent(new Event(api.SIGNED_IN));
  }, tell, { class: "danger" });
  return h("tr", {}, h("th", { scope: "row" }, user.name),
    h("td", { class: "whole" }, t(ROLES[user.role]), user.locked && h("strong", {}, ` · ${t("users.locked")}`)),
    h("td", {}, h("div", { class: "row" }, h("button", { type: "button", onclick: () => changing(user) }, t("users.edit")), remove)));
}

function adding(first) {
  const name = h("input", { required: true, maxlength: 60, autocomplete: "off", "aria-label": t("login.name"), placeholder: t("login.name") });
  const role = roleField(first ? "admin" : "inspect"), pin = pinField();
  const form = h("form", { class: "row" }, name, !first && role, pin, h("button", { class: "main" }, t("users.add")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await done(() => api.addUser({ name: name.value, role: role.value, pin: pin.value }), t("users.added", { name: name.value.trim() }));
    } catch (error) {
      tell(error);
    }
  });
  return [h("p", { class: "pale" }, t(first ? "users.first" : "users.pins")), form];
}

async function log(signal) {
  const body = h("tbody", {});
  const heads = ["history.time", "users.who", "version.change", "users.detail"];
  let last = null;
  const load = async () => {
    const found = await api.auditLog(last, signal);
    body.append(...found.entries.map((one) => h("tr", {}, h("td", {}, when(one.time)),
      h("td", {}, one.user || one.role, " ", h("small", { class: "pale" }, one.client)),
      h("td", {}, one.action), h("td", { class: "names" }, one.detail))));
    last = found.next;
    more.hidden = last === null;
  };
  const more = action(t("history.older"), load, tell);
  await load();
  return [h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": t("users.log") },
    h("table", {}, h("thead", {}, h("tr", {}, heads.map((key) => h("th", { scope: "col" }, t(key))))), body)), more];
}

export default {
  name: "users",
  path: "/users",
  engineer: true,
  async show(place, context) {
    const { users } = await api.users(context.signal);
    if (who.users && !users.length) { // nobody is left: the station is as open as it was
      await api.loadSession();
      dispatchEvent(new Event(api.SIGNED_IN));
      return;
    }
    const heads = h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("login.name")), h("th", { scope: "col" }, t("version.role")), h("td", {})));
    replace(place, h("h1", {}, t("users.title")),
      h("section", { class: "card" }, users.length > 0 && h("table", {}, heads, h("tbody", {}, users.map(row))), adding(!users.length)),
      h("section", { class: "card" }, h("h2", {}, t("users.log")), h("p", { class: "pale" }, t("users.logtext")), await log(context.signal)));
  },
};
