// Helpers of the tests that compare two programs by random steps.

import { isDeepStrictEqual, inspect } from "node:util";

let state = 1;

/** Begin another sequence of random numbers. */
export function seed(number) {
  state = number;
}

export function below(limit) {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * limit);
}

export const pick = (items) => items[below(items.length)];

export const TEXTS = ["", "a", " b ", "ü\u{10000}\ue000", "line\nbreak", "\ud800", "\u2028", "null"];

/** Return a random JSON value. */
export function json(depth = 2) {
  const leaves = [null, below(9) - 4, 0.1 * below(9), pick(TEXTS), below(2) === 0];
  if (depth === 0 || below(2)) return pick(leaves);
  return below(2) ? [json(depth - 1), json(depth - 1)] : { [pick(TEXTS)]: json(depth - 1), k: json(depth - 1) };
}

export function usage() {
  const cost = { input: 0.1 * below(3), output: 0, cacheRead: 0, cacheWrite: 0, total: 0.3 };
  const more = { ...(below(2) ? { reasoning: 2 } : {}), ...(below(2) ? { cacheWrite1h: 1 } : {}) };
  return { input: below(9), output: below(9), cacheRead: 1, cacheWrite: below(3), ...more, totalTokens: 5, cost };
}

/** Return a random message of pi. */
export function message() {
  const content = [{ type: "text", text: pick(TEXTS) }];
  const model = { api: "x", provider: "p", model: "m", usage: usage(), stopReason: "stop" };
  return pick([
    { role: "user", content: pick(TEXTS), timestamp: 1 },
    { role: "assistant", content, ...model, timestamp: 2 },
    { role: "toolResult", toolCallId: "c", toolName: "t", content, isError: false, details: json(), timestamp: 3 },
  ]);
}

/** Return the value of a call, or only that it failed. */
export async function outcome(call, describe = () => true) {
  try {
    return { value: await call() };
  } catch (error) {
    return { error: describe(error) };
  }
}

/** Fail unless two values are equal. */
export function assertSame([theirs, ours], what) {
  if (isDeepStrictEqual(theirs, ours)) return;
  const keys = new Set([...Object.keys(theirs ?? {}), ...Object.keys(ours ?? {})]);
  const key = [...keys].find((each) => !isDeepStrictEqual(theirs?.[each], ours?.[each]));
  const shown = (value) => inspect(key === undefined ? value : value?.[key], { depth: 9 });
  throw new Error(`${what}, ${key}:\npi: ${shown(theirs)}\nours: ${shown(ours)}`);
}

/** Do the same with both programs. */
export const both = (pair, call) => Promise.all(pair.map((each, side) => call(each, side)));
