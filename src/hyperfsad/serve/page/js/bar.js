// The bar at the top: where one can go, and how the page looks and sounds.

import { h, replace } from "./dom.js";
import { LANGUAGES, currentLanguage, t } from "./i18n.js";
import { showKeys } from "./keys.js";
import { here } from "./router.js";
import { ADMIN, ROLES, who, wish, wishes } from "./state.js";
import { tell } from "./said.js";
import { showSigning, signOut } from "./parts/signing.js";

const THEMES = { auto: "theme.auto", light: "theme.light", dark: "theme.dark" };

function choice(label, options, value, change) {
  const made = Object.entries(options).map(([key, text]) => h("option", { value: key }, text));
  const node = h("select", { "aria-label": label, title: label, onchange: () => change(node.value) }, made);
  node.value = value;
  return node;
}

function toggle(label, on, change) {
  return h("button", { type: "button", class: "toggle", "aria-pressed": String(on), onclick: change }, label);
}

// Where the focus was in the menu, so that it is there again after a change.
function focused() {
  const menu = document.querySelector("#bar .menu");
  return menu?.open ? [...menu.querySelectorAll("select, button")].indexOf(document.activeElement) : null;
}

// `redraw` draws the view again, which only another language or another view needs.
export function drawBar(views, redraw) {
  const before = focused();
  const change = (changes) => { wish(changes); redraw(); };
  const adjust = (changes) => { wish(changes); drawBar(views, redraw); };
  const links = views.filter((view) => view.nav).map((view) =>
    h("a", { href: `#${view.path}`, "data-path": view.path }, t(view.nav)));
  const engineer = wishes.view === "engineer";
  replace(document.getElementById("bar"),
    h("button", { type: "button", class: "skip", onclick: () => document.getElementById("main").focus() }, t("skip")),
    h("a", { class: "brand", href: "#/" }, h("img", { src: "page/icon.svg", alt: "", width: 28, height: 28 }), h("span", {}, "Hyper-FSAD")),
    links.length > 1 && h("nav", { "aria-label": t("nav.title") }, links),
    h("details", { class: "menu" },
      h("summary", {}, t("menu")),
      h("div", {},
        who.role === ADMIN && choice(t("view.title"), { engineer: t("view.engineer"), operator: t("view.operator") },
          engineer ? "engineer" : "operator", (view) => change({ view })),
        choice(t("language"), LANGUAGES, currentLanguage(), (language) => change({ language })),
        choice(t("theme.title"), Object.fromEntries(Object.entries(THEMES).map(([key, text]) => [key, t(text)])),
          wishes.theme, (theme) => adjust({ theme })),
        toggle(t("sound"), wishes.sound, () => adjust({ sound: !wishes.sound })),
        views.filter((view) => view.menu).map((view) => h("a", { class: "button", href: `#${view.path}` }, t(view.menu))),
        h("button", { type: "button", onclick: showKeys }, t("key.title")),
        engineer && who.role === ADMIN && h("a", { class: "button", href: "#/users" }, t("users.title")))),
    who.role && !who.open && h("button", { type: "button", class: "who", title: t(ROLES[who.role]), onclick: () => (who.users ? showSigning() : signOut().catch(tell)) }, who.user || t("signout")));
  document.documentElement.dataset.theme = wishes.theme;
  if (before !== null) {
    const menu = document.querySelector("#bar .menu");
    menu.open = true;
    menu.querySelectorAll("select, button")[before]?.focus();
  }
  mark();
}

// Which link leads to where one is.
function mark() {
  const { path } = here();
  for (const link of document.querySelectorAll("#bar nav a")) {
    const to = link.dataset.path;
    const near = to === "/" ? path === "/" || path.startsWith("/inspect/") : path === to || path.startsWith(`${to}/`);
    if (near) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function closeMenu(event) {
  const menu = document.querySelector("#bar .menu[open]");
  if (!menu || (event.type === "click" && menu.contains(event.target)) || (event.type === "keydown" && event.key !== "Escape")) return;
  menu.open = false;
  if (event.type === "keydown") menu.querySelector("summary").focus();
}

addEventListener("hashchange", mark);
addEventListener("click", closeMenu);
addEventListener("keydown", closeMenu);
