// Random calls of pi's own session repository on its files and on hooks/pi/files.mjs.
// Usage: node pi_files_real.mjs MODULES CORE SEED STEPS
// CORE: the folder of @earendil-works/pi-agent-core 0.80 to 0.83.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { assertSame, below, both, message, outcome, pick, seed, TEXTS } from "./random_steps.mjs";

const [modules, core, number, steps] = process.argv.slice(2);
const pi = await import(`${core}/dist/node.js`);
const { GitSessionFiles } = await import(`${modules}/files.mjs`);

seed(Number(number));
const cwd = mkdtempSync(join(tmpdir(), "pi-"));
const files = new GitSessionFiles();
const repos = [
  new pi.JsonlSessionRepo({ fs: new pi.NodeExecutionEnv({ cwd }), sessionsRoot: join(cwd, "sessions") }),
  new pi.JsonlSessionRepo({ fs: files, sessionsRoot: "/sessions" }),
];
const counts = { calls: 0, refused: 0, forks: 0, opened: 0 };
const names = [new Map(), new Map()]; // a name for each id, because pi creates other ids in each session

const describe = (error) => [error.name, error.code];

/** Return a value with a name in place of each id, and without times and paths. */
function named(value, side) {
  const isOwn = (key, each) => ["createdAt", "path", "parentSessionPath"].includes(key) || (key === "timestamp" && (typeof each === "string" || each > 9));
  return JSON.parse(JSON.stringify(value ?? null, (key, each) => (isOwn(key, each) ? "" : (names[side].get(each) ?? each))));
}

async function learn(pair) {
  const entries = await both(pair, (session) => session.getEntries());
  entries[0].forEach(({ id }, at) => {
    const name = names[0].get(id) ?? `entry ${names[0].size}`;
    names[0].set(id, name);
    names[1].set(entries[1][at].id, name);
  });
  return entries;
}

async function content(session, side) {
  const entries = await session.getEntries();
  return named(
    {
      entries,
      leaf: await session.getLeafId(),
      branch: await session.getBranch(),
      context: await session.buildContext(),
      name: await session.getSessionName(),
      metadata: await session.getMetadata(),
      labels: await Promise.all(entries.map(({ id }) => session.getLabel(id))),
      list: (await repos[side].list()).map(({ id }) => id).sort(),
    },
    side,
  );
}

let pair = await both(repos, (repo) => repo.create({ id: "s0", cwd }));
for (let at = 0; at < Number(steps); at += 1) {
  const entries = await learn(pair);
  const [text, kind, target, choice] = [pick(TEXTS), below(14), below(entries[0].length + 1), below(3)];
  const said = message();
  const id = (side) => entries[side][target]?.id ?? "nobody";
  const calls = [
    (session) => session.appendMessage(said),
    (session) => session.appendMessage(said),
    (session) => session.appendThinkingLevelChange("high"),
    (session) => session.appendModelChange("p", text),
    (session, side) => session.appendCompaction(text, id(side), 100, { text }),
    (session) => session.appendCustomEntry("note", { text }),
    (session) => session.appendCustomMessageEntry("note", text, true, { text }),
    (session) => session.appendSessionName(text),
    (session, side) => session.appendLabel(id(side), [undefined, "start", text][choice]),
    (session, side) => session.moveTo(id(side), choice === 0 ? { summary: "left" } : undefined),
    (session) => session.moveTo(null),
    (session) => session.appendActiveToolsChange(["read"]),
  ];
  const metadata = await both(pair, (session) => session.getMetadata());
  if (kind === 12) {
    pair = await both(repos, (repo, side) => repo.open(metadata[side]));
    counts.opened += 1;
  } else if (kind === 13) {
    const options = (side) => ({ cwd, id: `f${at}`, ...(choice ? { entryId: id(side), position: ["at", "before"][choice - 1] } : {}) });
    const found = await both(repos, (repo, side) => outcome(() => repo.fork(metadata[side], options(side)), describe));
    assertSame(found.map(({ error }) => error), `fork at step ${at}`);
    pair = found[0].error ? pair : found.map(({ value }) => value);
    counts.forks += 1;
  } else {
    const found = await both(pair, (session, side) => outcome(() => calls[kind](session, side), describe));
    assertSame(found.map(({ error }) => error), `call ${kind} at step ${at}`);
    counts.calls += 1;
    counts.refused += found[0].error ? 1 : 0;
  }
  await learn(pair);
  assertSame(await both(pair, content), `step ${at}`);
}
const { id } = await pair[1].getMetadata();
await files.cleanup();
console.log(JSON.stringify({ ...counts, session: id }));
