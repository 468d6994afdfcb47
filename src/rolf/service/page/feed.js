/** Asks the service again and again while the page can be seen. */

const LONGEST = 15;

export class Feed {
  #load;
  #every;
  #rest;
  #on;
  #timer = null;
  #inFlight = null;
  #again = false;
  #failures = 0;
  #stopped = false;
  #seen = () => (document.hidden ? this.#pause() : this.now());

  /**
   * load(signal) gives data or throws a Problem. Between two loads lie at least `every`
   * milliseconds, and `rest` times as long as the last one took, so that no page keeps a service
   * busy. `on` holds loaded(data), retrying(problem, seconds) and refused(problem); what was
   * refused is not asked again.
   */
  constructor(load, on, { every = 1500, rest = 4 } = {}) {
    this.#load = load;
    this.#on = on;
    this.#every = every;
    this.#rest = rest;
    document.addEventListener("visibilitychange", this.#seen);
    this.now();
  }

  /** At once, or right after the load that is under way. */
  now() {
    if (this.#stopped) return;
    if (this.#inFlight) {
      this.#again = true;
      return;
    }
    this.#pause();
    this.#turn();
  }

  stop() {
    this.#stopped = true;
    this.#pause();
    this.#inFlight?.abort();
    document.removeEventListener("visibilitychange", this.#seen);
  }

  #pause() {
    clearTimeout(this.#timer);
  }

  async #turn() {
    const started = performance.now();
    this.#inFlight = new AbortController();
    this.#again = false;
    let data, problem;
    try {
      data = await this.#load(this.#inFlight.signal);
    } catch (error) {
      problem = error;
    }
    this.#inFlight = null;
    if (this.#stopped) return;
    let wait = Math.max(this.#every, this.#rest * (performance.now() - started));
    if (!problem) {
      this.#failures = 0;
      this.#on.loaded(data);
      if (this.#stopped) return;
    } else if (problem.passing) {
      const backoff = Math.min(LONGEST, 2 ** this.#failures++);
      const seconds = Math.max(problem.retryAfter, backoff);
      wait = 1000 * seconds;
      this.#on.retrying(problem, seconds);
    } else {
      this.stop();
      if (!("status" in problem)) throw problem;
      this.#on.refused(problem);
      return;
    }
    if (this.#again) this.#turn();
    else if (!document.hidden) this.#timer = setTimeout(() => this.#turn(), wait);
  }
}
