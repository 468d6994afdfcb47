/** Numbers, times and names as people read them. */

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const day = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });
const clock = new Intl.DateTimeFormat("en", { timeStyle: "medium", hour12: false });
const past = new Intl.RelativeTimeFormat("en", { style: "narrow" });
const collator = new Intl.Collator("en", { numeric: true });

export const MINUS = "\u2212";
export const NONE = "\u2013";

const minus = (text) => text.replace("-", MINUS);

export const count = (value) => whole.format(value);

/** A sum, which is often a whole number. */
export const sum = (value) => (Number.isInteger(value) ? minus(count(value)) : number(value));

/** "1 arm", "2 arms". */
export const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

export const short = (value) => minus(compact.format(value));

/** How many decimals show numbers of this size to four digits. */
export function decimalsFor(values) {
  const largest = Math.max(0, ...values.filter(Number.isFinite).map(Math.abs));
  if (!largest) return 3;
  return Math.min(8, Math.max(0, 3 - Math.floor(Math.log10(largest))));
}

/** How many decimals show numbers with these errors: two digits of the smallest error. */
export function decimalsWithin(values, errors) {
  const smallest = Math.min(...errors.filter((error) => error > 0));
  const most = decimalsFor(values);
  if (!Number.isFinite(smallest)) return most;
  return Math.max(0, Math.min(most, 1 - Math.floor(Math.log10(smallest))));
}

export function number(value, decimals = decimalsFor([value])) {
  if (value === null || value === undefined) return NONE;
  if (Math.abs(value) >= 1e9 || (value && decimals === 8)) return minus(value.toPrecision(4));
  return minus(
    value.toLocaleString("en", {
      minimumFractionDigits: decimals,
      maximumFractionDigits: decimals,
    }),
  );
}

export function signed(value, decimals = decimalsFor([value])) {
  return value > 0 ? `+${number(value, decimals)}` : number(value, decimals);
}

export function interval(low, high, decimals = decimalsFor([low, high]), show = number) {
  if (low === null || high === null) return "any";
  return `${show(low, decimals)} to ${show(high, decimals)}`;
}

export function percent(share) {
  if (share === null || share === undefined) return NONE;
  if (share > 0 && share < 0.001) return "<0.1%";
  if (share < 1 && share > 0.999) return ">99.9%";
  return `${(100 * share).toFixed(share > 0 && share < 1 && (share < 0.1 || share > 0.9) ? 1 : 0)}%`;
}

export const dateAndTime = (seconds) => day.format(1000 * seconds);
export const timeOfDay = (seconds) => clock.format(1000 * seconds);

/** "90 s", "2 hours": lengths of time as people give them. */
export function duration(seconds) {
  for (const [size, unit] of [
    [86400, "day"],
    [3600, "hour"],
    [60, "minute"],
  ]) {
    if (seconds >= size && seconds % size === 0) return counted(seconds / size, unit);
  }
  return counted(seconds, "second");
}

/** "5m ago". */
export function ago(seconds) {
  for (const [size, unit] of [
    [86400, "day"],
    [3600, "hour"],
    [60, "minute"],
    [1, "second"],
  ]) {
    if (seconds >= size) return past.format(-Math.floor(seconds / size), unit);
  }
  return "just now";
}

/** The name of an arm, which may be a text, a number or any other plain data. */
export const nameOf = (arm) => (typeof arm === "object" ? JSON.stringify(arm) : String(arm));

/** The same inside a sentence or a table. */
export const briefly = (arm) => shortened(nameOf(arm), 80);

/** What the service says, which begins with a small letter, as a sentence. */
export const sentence = (text) =>
  text && text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

export const compareNames = collator.compare;

export const shortened = (text, longest) =>
  text.length > longest ? `${text.slice(0, longest - 1).trimEnd()}\u2026` : text;
