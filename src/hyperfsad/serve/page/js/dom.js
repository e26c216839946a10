// Elements without markup in strings: what people typed never becomes HTML.

const SVG = "http://www.w3.org/2000/svg";

// h("button", { class: "main", onclick: go }, "Go"); null children and false attributes are left out.
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function replace(node, ...children) {
  node.replaceChildren(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

// A button that does something that takes time: it cannot be pressed twice, and failures are told.
export function action(label, work, tell, attributes = {}) {
  const node = h("button", { type: "button", ...attributes }, label);
  node.addEventListener("click", async () => {
    if (node.getAttribute("aria-busy") === "true") return;
    node.setAttribute("aria-busy", "true");
    try {
      await work(node);
    } catch (error) {
      tell(error);
    } finally {
      node.removeAttribute("aria-busy");
    }
  });
  return node;
}

let ids = 0;

export function newId(start) {
  ids += 1;
  return `${start}-${ids}`;
}
