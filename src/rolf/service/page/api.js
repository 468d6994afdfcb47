/** Requests to the service, and their errors in words. */

const STORED = "rolf-key";
const SECONDS = 30;

/** The key of this tab: gone when the tab is closed, and never part of an address. */
export const session = {
  get key() {
    return sessionStorage.getItem(STORED);
  },
  keep(key) {
    sessionStorage.setItem(STORED, key);
  },
  forget() {
    sessionStorage.removeItem(STORED);
  },
};

const WORDS = {
  0: ["The service cannot be reached", "It may be restarting, or the network may be down."],
  401: ["This key is not accepted", "It may be mistyped or revoked."],
  403: ["This key may not do that", "It needs a key with a wider scope."],
  404: ["There is nothing here", "It may have been deleted, or this key may not see it."],
  429: ["Too many requests", "The service asks for a pause."],
  503: ["The service is not ready", "It may be busy, or without its database."],
};

/** What went wrong, in words, with the id under which the service's log has it. */
export class Problem extends Error {
  constructor(status, { title, detail, instance, errors } = {}, retryAfter = 0) {
    const [words, more] = WORDS[status] ?? [`The service answered with an error (${status})`, ""];
    super(title ?? words);
    this.status = status;
    this.detail = detail ?? more;
    this.errors = (errors ?? []).map(({ message }) => message);
    this.request = instance ?? null;
    this.retryAfter = retryAfter;
  }

  /** Whether the same request may succeed later. */
  get passing() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/** The JSON that the service answers under /v1; throws a Problem. */
export async function request(path, { method = "GET", key = session.key, signal } = {}) {
  const limit = AbortSignal.timeout(SECONDS * 1000);
  const headers = { Accept: "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  let response, text;
  try {
    response = await fetch(new URL(`v1/${path}`, document.baseURI), {
      method,
      headers,
      cache: "no-cache",
      credentials: "omit",
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
    });
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0);
  }
  let data = null;
  try {
    data = text ? JSON.parse(text) : null;
  } catch {
    if (response.ok) throw new Problem(502);
  }
  if (!response.ok) {
    throw new Problem(
      response.status,
      data ?? {},
      Number(response.headers.get("Retry-After")) || 0,
    );
  }
  return data;
}

/** The path of an experiment under /v1. */
export const pathOf = (name) => `experiments/${encodeURIComponent(name)}`;

/** Scope and experiment of a key; null tries without one, which some services allow. */
export const whoIs = (key, signal) => request("whoami", { key, signal });
