/** Changes to the document that touch only what differs, so that nothing flickers and focus stays. */

import { sentence } from "./format.js";

/** The elements of a template, by their data-part. Data only ever enters as text. */
export function fromTemplate(id) {
  const root = document.getElementById(id).content.cloneNode(true).firstElementChild;
  const parts = { root };
  for (const each of root.querySelectorAll("[data-part]")) parts[each.dataset.part] = each;
  return parts;
}

export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setHidden(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

export function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** One child per item: make() gives an element, fill(element, item) shows the item in it. */
export function fillChildren(parent, items, make, fill) {
  while (parent.childElementCount > items.length) parent.lastElementChild.remove();
  items.forEach((item, position) => {
    let child = parent.children[position];
    if (!child) parent.append((child = make()));
    fill(child, item);
  });
}

/** The same, but an item keeps its element, and with it the focus, wherever it moves. */
export function fillKeyed(parent, items, key, make, fill) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  const wanted = new Set(items.map(key));
  for (const [name, child] of known) if (!wanted.has(name)) child.remove();
  items.forEach((item, position) => {
    let child = known.get(key(item));
    if (!child) {
      child = make();
      child.dataset.key = key(item);
    }
    if (parent.children[position] !== child)
      parent.insertBefore(child, parent.children[position] ?? null);
    fill(child, item);
  });
}

/** The options [value, text] of a select; what was chosen stays chosen. */
export function fillOptions(select, options) {
  const { value } = select;
  fillChildren(
    select,
    options,
    () => new Option(),
    (option, [key, text]) => {
      setAttribute(option, "value", key);
      setText(option, text);
    },
  );
  const kept = options.some(([key]) => key === value) ? value : options[0][0];
  if (select.value !== kept) select.value = kept;
}

let waiting;

/** Says something to those who cannot see it; the latest of quickly repeated messages. */
export function announce(text) {
  clearTimeout(waiting);
  waiting = setTimeout(() => setText(document.getElementById("announcer"), text), 300);
}

/** An error in words inside a box. */
export function showProblem(box, problem, lead = "") {
  const lines = [
    element("strong", { textContent: lead + problem.message }),
    problem.detail && element("p", { textContent: sentence(problem.detail) }),
    ...problem.errors.map((text) => element("p", { textContent: text })),
    problem.request &&
      element("p", { className: "soft", textContent: `Request ${problem.request}` }),
  ];
  box.replaceChildren(...lines.filter(Boolean));
  box.hidden = false;
}
