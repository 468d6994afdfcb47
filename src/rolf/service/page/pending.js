/** The latest decisions that wait for a reward, asked for only while somebody looks at them. */

import { request } from "./api.js";
import { element, fillKeyed, setAttribute, setHidden, setText } from "./dom.js";
import { ago, briefly, count, counted, dateAndTime, nameOf } from "./format.js";

/** Decisions that are listed. */
const LISTED = 10;

export class Pending {
  #parts;
  #path;
  #latest = null;
  #counts = null; // those that the latest answer belongs to

  /** opened() is called when the list is wanted. */
  constructor(parts, path, opened) {
    this.#parts = parts;
    this.#path = path;
    parts.pendingBox.addEventListener("toggle", () => parts.pendingBox.open && opened());
  }

  /** Asks for the list if it is open and the counts have changed. */
  async load({ asked, told, pending }, signal) {
    const counts = `${asked} ${told} ${pending}`;
    if (!this.#parts.pendingBox.open || counts === this.#counts) return;
    this.#latest = await request(`${this.#path}/pending?limit=${LISTED}`, { signal });
    this.#counts = counts;
  }

  /** A list that is open stays where it is, even if nothing waits for a moment. */
  show({ pending }) {
    const parts = this.#parts;
    const { open } = parts.pendingBox;
    setHidden(parts.pendingBox, !pending && !open);
    if (!open || !this.#latest) return;
    const { decisions } = this.#latest;
    const now = Date.now() / 1000;
    setHidden(parts.pendingTable, !decisions.length);
    fillKeyed(
      parts.pendingRows,
      decisions,
      ({ id }) => id,
      makeRow,
      (row, decision) => fillRow(row, decision, now),
    );
    setText(parts.pendingRest, restOf(this.#latest));
  }
}

function restOf({ decisions, total, looked_at }) {
  if (!total) return "None at the moment.";
  const older = total - decisions.length;
  if (!older) return "";
  return decisions.length
    ? `and ${counted(older, "older one")}`
    : `${counted(older, "decision")}, older than the latest ${count(looked_at)}`;
}

function makeRow() {
  const id = element("th", { scope: "row" }, element("code"));
  return element("tr", {}, id, element("td"), element("td", {}, element("time")));
}

function fillRow(row, { id, arm, asked_at }, now) {
  const [name, chosen, asked] = row.children;
  setText(name.firstChild, id);
  setText(chosen, briefly(arm));
  setAttribute(chosen, "title", nameOf(arm));
  setText(asked.firstChild, ago(now - asked_at));
  setAttribute(asked.firstChild, "datetime", new Date(1000 * asked_at).toISOString());
  setAttribute(asked, "title", dateAndTime(asked_at));
}
