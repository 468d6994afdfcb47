/** One experiment, live. */

import { pathOf, request } from "./api.js";
import { Arms } from "./arms.js";
import { TimelineChart } from "./charts.js";
import {
  announce,
  element,
  fillChildren,
  fillOptions,
  fromTemplate,
  setHidden,
  setText,
  showProblem,
} from "./dom.js";
import { Feed } from "./feed.js";
import {
  briefly,
  count,
  counted,
  dateAndTime,
  decimalsWithin,
  duration,
  interval,
  number,
  percent,
  sentence,
  signed,
  sum,
  NONE,
} from "./format.js";
import { showDiagnosis } from "./verdict.js";
import { Pending } from "./pending.js";

/** Milliseconds after which the status is asked for even if no count has changed. */
const LATEST = 15000;

/** A timeline is read from the whole log: at most this share of the time goes to it. */
const TIMELINE_SHARE = 0.1;

export function showExperiment(main, app, name) {
  const parts = fromTemplate("experiment");
  const path = pathOf(name);
  const arms = new Arms(parts);
  const timeline = new TimelineChart(parts.timeline);
  const pending = new Pending(parts, path, () => feed.now());
  const closing = [() => arms.close(), () => timeline.close()];
  let details = null;
  let status = null;
  let past = null; // the last answer with a timeline
  let nextTimeline = 0;
  let nextStatus = 0;

  app.title(name);
  setText(parts.name, name);
  main.replaceChildren(parts.root);

  async function load(signal) {
    details = await request(path, { signal });
    await pending.load(details, signal);
    const started = performance.now();
    const control = parts.control.value;
    const same = status && past.control === control && sameCounts(status, details);
    if (same && started < nextStatus) return status;
    const wanted = started >= nextTimeline || past?.control !== control;
    const query = new URLSearchParams();
    if (wanted) query.set("timeline", "true");
    if (control) query.set("control", JSON.parse(control));
    const latest = await request(`${path}/status?${query}`, { signal });
    nextStatus = performance.now() + LATEST;
    if (wanted) {
      nextTimeline = performance.now() + (performance.now() - started) / TIMELINE_SHARE;
      past = { control, timeline: latest.timeline, uplift: latest.uplift, notes: latest.notes };
    }
    return latest;
  }

  function show(latest) {
    pending.show(details);
    if (latest === status) return;
    if (status && status.best?.arm !== latest.best?.arm && latest.best) {
      announce(`The best arm is now ${briefly(latest.best.arm)}`);
    }
    status = latest;
    setHidden(parts.loading, true);
    setHidden(parts.content, false);
    setHidden(parts.paused, !status.paused);
    setText(parts.about, `${status.policy}, since ${dateAndTime(details.created)}`);
    fillChildren(parts.notes, notesOf(status, past), () => element("li"), setText);
    showTiles(parts, status, details);
    showUplift(parts, status, past);
    showTimeline(parts, timeline, past);
    arms.update(status);
    setHidden(parts.pause, app.who?.scope !== "admin");
    setText(parts.pause, status.paused ? "Resume" : "Pause");
  }

  const feed = new Feed(
    load,
    app.listen(show, refuse, () => feed.now()),
  );
  const diagnosis = new Feed(
    (signal) => request(`${path}/diagnosis`, { signal }),
    {
      loaded: (data) => showDiagnosis(parts, data),
      retrying() {},
      refused: (problem) => showDiagnosis(parts, { verdict: null, reason: problem.detail }),
    },
    { every: 10000, rest: 20 },
  );
  closing.push(
    () => feed.stop(),
    () => diagnosis.stop(),
  );

  function refuse(problem) {
    diagnosis.stop();
    setHidden(parts.loading, true);
    showProblem(parts.problem, problem);
    if (problem.status === 404) setHidden(parts.content, true);
  }

  parts.control.addEventListener("change", () => {
    setText(parts.uplift, "…");
    feed.now();
  });
  parts.pause.addEventListener("click", () => {
    const { paused } = status;
    setText(parts.question, paused ? `Resume ${name}?` : `Pause ${name}?`);
    setText(
      parts.consequence,
      paused
        ? "Programs that ask for decisions get them again."
        : "Programs that ask for decisions are refused until it is resumed. Rewards are still taken.",
    );
    setText(parts.confirm, paused ? "Resume" : "Pause");
    parts.dialog.returnValue = "";
    parts.dialog.showModal();
  });
  parts.dialog.addEventListener("close", async () => {
    if (parts.dialog.returnValue !== "yes") return;
    const change = status.paused ? "resume" : "pause";
    try {
      await request(`${path}/${change}`, { method: "POST" });
      setHidden(parts.problem, true);
      announce(`${name} is ${change}d`);
      feed.now();
    } catch (problem) {
      if (problem.status === 401) app.leave(problem);
      else showProblem(parts.problem, problem);
    }
  });

  return { close: () => closing.forEach((close) => close()) };
}

/** Whether a status, which is large for many arms, still shows what has happened. */
const sameCounts = (status, { asked, told, pending, paused, arms }) =>
  status.asked === asked &&
  status.told === told &&
  status.pending === pending &&
  status.paused === paused &&
  status.arms.filter(({ active }) => active).length === arms;

/** A note says why there is no uplift; it has its place beside it. */
const NO_UPLIFT = "no uplift: ";

function notesOf({ paused }, { notes }) {
  const others = notes.filter((note) => !note.startsWith(NO_UPLIFT)).map(sentence);
  if (!paused) return others;
  return ["Paused: no decisions are made until it is resumed. Rewards are still taken.", ...others];
}

function showTiles(parts, status, { default_reward, reward_after }) {
  const { best, asked, told, pending, defaults, history } = status;
  const learned = told + defaults + history > 0;
  setText(parts.best, best && learned ? briefly(best.arm) : NONE);
  const unknown = best
    ? "no rewards yet"
    : "not known: it depends on the features of each decision";
  setText(
    parts.bestMore,
    best && learned ? `best with a probability of ${percent(best.probability)}` : unknown,
  );
  setText(parts.asked, count(asked));
  setText(
    parts.askedMore,
    history
      ? `and ${counted(history, "round")} of history`
      : `among ${counted(status.arms.length, "arm")}`,
  );
  setText(parts.told, count(told));
  setText(
    parts.toldMore,
    defaults
      ? `and ${count(defaults)} by default`
      : asked
        ? `for ${percent(told / asked)} of the decisions`
        : "",
  );
  setText(parts.pending, count(pending));
  setText(
    parts.pendingMore,
    default_reward === null || default_reward === undefined
      ? "decisions without a reward so far"
      : `each counts as ${sum(default_reward)} after ${duration(reward_after)}`,
  );
  setText(parts.mean, number(status.mean_reward));
  setText(
    parts.meanMore,
    status.mean_reward === null ? "no rewards yet" : `${sum(status.total_reward)} in total`,
  );
}

function showUplift(parts, status, past) {
  fillOptions(parts.control, [
    ["", "an equal share of all active arms"],
    ...status.arms.map(({ arm }) => [JSON.stringify(arm), briefly(arm)]),
  ]);
  const uplift = status.uplift ?? past.uplift;
  if (past.control !== parts.control.value) return;
  setText(
    parts.uplift,
    uplift ? `${signed(uplift.estimate, decimalsOf(uplift))} per decision` : NONE,
  );
  setText(parts.upliftWords, uplift ? upliftWords(uplift) : reasonFor(past));
}

function reasonFor({ notes }) {
  const note = notes.find((each) => each.startsWith(NO_UPLIFT));
  return note ? sentence(note.slice(NO_UPLIFT.length)) : "Not known before the first decisions.";
}

const decimalsOf = ({ estimate, low, high }) => decimalsWithin([estimate, low, high], [high - low]);

function upliftWords(uplift) {
  const { control, level, low, high, baseline } = uplift;
  const decimals = decimalsOf(uplift);
  const against = control === null ? "An equal share of all active arms" : briefly(control);
  const side = low > 0 ? "above" : high < 0 ? "below" : null;
  const meaning = side
    ? `lies ${side} zero: the difference is clear`
    : "includes zero: the difference is not clear yet";
  return (
    `${against} would earn ${number(baseline, decimals)} per decision. ` +
    `The ${percent(level)} interval, ${interval(low, high, decimals, signed)}, ${meaning}.`
  );
}

function showTimeline(parts, chart, { timeline, uplift }) {
  const known = timeline?.some(({ mean }) => mean !== null) ?? false;
  setHidden(parts.timelineBox, !known);
  const baseline = uplift ? " The dashed line is what the control would earn." : "";
  setText(
    parts.timelineWords,
    known
      ? `Mean reward of consecutive decisions; the band is one standard error to both sides.${baseline}`
      : "No rewards yet.",
  );
  if (known) chart.draw(timeline, uplift?.baseline ?? null);
}
