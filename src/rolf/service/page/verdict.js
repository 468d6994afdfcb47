/** The diagnosis in plain words. */

import { setText } from "./dom.js";
import { briefly, sentence } from "./format.js";

const LISTED = 5;

const MEANINGS = {
  "trust the features": [
    "Yes, almost entirely",
    "Arms with similar features earn similar rewards: what is learned about one arm holds for those like it.",
  ],
  "use RoLF": [
    "Only in part",
    "Something beyond the features moves the arms as well. Policies that learn both parts, such as rolf-bayes, are right here.",
  ],
  "ignore the features": [
    "Hardly",
    "The features say little about which arm is good; every arm has to be tried for itself.",
  ],
  "not enough data": ["Too early to say", "More rewards will tell."],
};

export function showDiagnosis(parts, { verdict, reason, deviating = [] }) {
  const [answer, meaning] = MEANINGS[verdict] ?? [verdict ?? "Does not apply", ""];
  setText(parts.verdict, answer);
  setText(parts.meaning, meaning);
  setText(parts.reason, sentence(reason ?? ""));
  const names = deviating.slice(0, LISTED).map(briefly);
  const more = deviating.length - names.length;
  setText(
    parts.deviating,
    names.length
      ? `Arms that differ from what their features say: ${names.join(", ")}${more ? ` and ${more} more` : ""}.`
      : "",
  );
}
