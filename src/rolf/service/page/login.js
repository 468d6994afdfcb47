/** Logging in with a key. */

import { whoIs, Problem, session } from "./api.js";
import { fromTemplate, setHidden, showProblem } from "./dom.js";

/** `entered(who)` is called when the key is kept; `problem` says why a key is asked for again. */
export function showLogin(main, app, entered, problem) {
  const parts = fromTemplate("login");
  const { form, key, submit } = parts;
  app.title("Log in");
  main.replaceChildren(parts.root);

  function refuse(refusal) {
    showProblem(parts.problem, refusal);
    key.setAttribute("aria-invalid", "true");
    key.focus();
    key.select();
  }

  if (problem) showProblem(parts.problem, problem);

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const given = key.value.trim();
    setHidden(parts.problem, true);
    key.removeAttribute("aria-invalid");
    if (!given) {
      refuse(new Problem(401, { title: "No key", detail: "Enter a key to log in." }));
      return;
    }
    if (!/^[\x21-\x7e]+$/.test(given)) {
      refuse(new Problem(401, { detail: "A key has only letters, digits, - and _." }));
      return;
    }
    submit.disabled = true;
    let who;
    try {
      who = await whoIs(given);
    } catch (refusal) {
      refuse(refusal);
      return;
    } finally {
      submit.disabled = false;
    }
    session.keep(given);
    entered(who);
  });
  return { close() {} };
}
