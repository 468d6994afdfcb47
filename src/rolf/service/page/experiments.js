/** The list of all experiments that the key may see. */

import { request } from "./api.js";
import { announce, fillKeyed, fromTemplate, setHidden, setText, showProblem } from "./dom.js";
import { Feed } from "./feed.js";
import { compareNames, count, counted, dateAndTime, NONE } from "./format.js";

const AT_ONCE = 100;

async function loadAll(signal) {
  const experiments = [];
  let after = null;
  do {
    const more = after === null ? "" : `&after=${encodeURIComponent(after)}`;
    const page = await request(`experiments?limit=${AT_ONCE}${more}`, { signal });
    experiments.push(...page.experiments);
    after = page.next;
  } while (after !== null);
  return experiments.sort((one, other) => compareNames(one.name, other.name));
}

export function showExperiments(main, app) {
  const parts = fromTemplate("experiments");
  let experiments = [];
  app.title("Experiments");
  main.replaceChildren(parts.root);

  function show() {
    const wanted = parts.search.value.trim().toLowerCase();
    const shown = experiments.filter(({ name, policy }) =>
      `${name}\n${policy}`.toLowerCase().includes(wanted),
    );
    const paused = experiments.filter((each) => each.paused).length;
    setText(
      parts.summary,
      counted(experiments.length, "experiment") + (paused ? `, ${paused} paused` : ""),
    );
    fillKeyed(parts.list, shown, ({ name }) => name, makeItem, fillItem);
    setHidden(parts.empty, shown.length > 0);
    setText(
      parts.empty,
      experiments.length
        ? "No experiment matches."
        : "There are no experiments yet. The first one is made with rolf new, with POST /v1/experiments, or in Python.",
    );
    setHidden(parts.content, false);
    return shown.length;
  }

  parts.search.addEventListener("input", () => announce(`${counted(show(), "experiment")} found`));
  const feed = new Feed(
    loadAll,
    app.listen(
      (data) => {
        experiments = data;
        show();
      },
      (problem) => showProblem(parts.problem, problem),
      () => feed.now(),
    ),
    { every: 2000, rest: 10 },
  );
  return { close: () => feed.stop() };
}

function makeItem() {
  const parts = fromTemplate("experiments-item");
  parts.root.parts = parts;
  return parts.root;
}

function fillItem({ parts }, { name, policy, created, paused, arms, asked, told, pending }) {
  const address = `#/experiments/${encodeURIComponent(name)}`;
  if (parts.name.getAttribute("href") !== address) parts.name.setAttribute("href", address);
  setText(parts.name, name);
  setHidden(parts.paused, !paused);
  setText(parts.about, `${policy}, since ${dateAndTime(created)}`);
  for (const [part, value] of Object.entries({ arms, asked, told, pending })) {
    setText(parts[part], value === null ? NONE : count(value));
  }
}
