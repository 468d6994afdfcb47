/** Which view is shown, with which key, and whether the service answers. */

import { whoIs, session } from "./api.js";
import { announce, setAttribute, setHidden, setText, showProblem } from "./dom.js";
import { showExperiment } from "./experiment.js";
import { showExperiments } from "./experiments.js";
import { Feed } from "./feed.js";
import { timeOfDay } from "./format.js";
import { showLogin } from "./login.js";

const get = (id) => document.getElementById(id);
const main = get("main");
let view = null;
let retry = () => {};
let loadedAt = null;
let lost = false;

/** What views tell the rest of the page. */
const app = {
  who: null, // scope and experiment of the key

  title(text) {
    document.title = text ? `${text} · rolf` : "rolf";
  },

  /** The callbacks of a feed whose errors concern the whole page. */
  listen(show, refused, again) {
    return {
      loaded(data) {
        loadedAt = Date.now() / 1000;
        answered();
        show(data);
      },
      retrying(problem, seconds) {
        retry = again;
        disconnected(problem, seconds);
      },
      refused(problem) {
        answered();
        setHidden(get("state"), true);
        if (problem.status === 401) leave(problem);
        else refused(problem);
      },
    };
  },

  leave,
};

function showState(text) {
  setText(get("state"), text);
  setAttribute(get("state"), "class", lost ? "state lost" : "state");
  setHidden(get("state"), false);
}

function answered() {
  if (lost) announce("The connection is back.");
  lost = false;
  showState("live");
  setHidden(get("notice"), true);
}

function disconnected(problem, seconds) {
  const box = get("notice-text");
  const lead = problem.status === 0 ? "Connection lost. " : "";
  if (!lost || !box.textContent.startsWith(lead + problem.message)) {
    showProblem(box, problem, lead);
  }
  const since = loadedAt ? ` What you see is from ${timeOfDay(loadedAt)}.` : "";
  setText(get("notice-when"), `Retrying in ${Math.ceil(seconds)} s.${since}`);
  lost = true;
  showState(problem.status === 0 ? "connection lost" : "retrying");
  setHidden(get("notice"), false);
}

function open(make) {
  view?.close();
  setHidden(get("state"), true);
  setHidden(get("notice"), true);
  lost = false;
  loadedAt = null;
  scrollTo(0, 0);
  view = make();
  setHidden(get("leave"), !session.key);
  main.querySelector("h1")?.focus({ preventScroll: true });
}

function leave(problem) {
  const expected = problem?.status === 401 && !session.key; // nobody has logged in yet
  session.forget();
  open(() => showLogin(main, app, entered, expected ? null : problem));
}

function route() {
  const experiment = /^#\/experiments\/(.+)$/.exec(location.hash);
  if (experiment) open(() => showExperiment(main, app, decoded(experiment[1])));
  else open(() => showExperiments(main, app));
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Finds out whether a key is needed, and what the one of this tab may do. */
function enter() {
  const feed = new Feed(
    (signal) => whoIs(session.key, signal),
    app.listen(
      (who) => {
        feed.stop();
        entered(who);
      },
      leave,
      () => feed.now(),
    ),
  );
  view = { close: () => feed.stop() };
}

function entered(who) {
  app.who = who;
  route();
}

get("retry").addEventListener("click", () => retry());
get("leave").addEventListener("click", () => leave());
get("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", () => {
  if (!main.querySelector(".login")) route();
});
enter();
