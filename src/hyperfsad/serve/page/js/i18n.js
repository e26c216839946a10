// Texts from one catalogue; every key has every language.

export const LANGUAGES = { en: "English", de: "Deutsch" };

let catalogue = {};
let language = "en";

export async function loadTexts() {
  const answer = await fetch("page/catalogue.json");
  catalogue = await answer.json();
}

export function setLanguage(wanted) {
  const known = wanted ?? navigator.languages.map((tag) => tag.slice(0, 2)).find((tag) => tag in LANGUAGES);
  language = known in LANGUAGES ? known : "en";
  document.documentElement.lang = language;
}

export function currentLanguage() {
  return language;
}

// t("learnt.parts", { count: 4 }) fills in {count}; a key with ".one" beside it has a singular.
export function t(key, values = {}) {
  const single = values.count === 1 ? catalogue[`${key}.one`] : undefined;
  const entry = single ?? catalogue[key];
  if (entry === undefined) {
    console.error(`The catalogue has no text ${key}.`);
    return key;
  }
  return entry[language].replace(/\{(\w+)\}/g, (whole, name) => {
    const value = values[name];
    if (value === undefined) return whole;
    return typeof value === "number" ? number(value) : String(value);
  });
}

export function number(value, digits) {
  const options = digits === undefined ? { maximumFractionDigits: 3 } : { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return new Intl.NumberFormat(language, options).format(value);
}

export function percent(value) {
  return new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 1 }).format(value);
}

// A level for people: only the limit itself reads as 100 %.
export function reached(level) {
  let digits = 0;
  while (level !== 1 && Number((100 * level).toFixed(digits)) === 100) digits += 1;
  return `${number(100 * level, digits)}\u00a0%`;
}

export function when(text) {
  return new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" }).format(new Date(text));
}
