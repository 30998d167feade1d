// Pi's own tests of its storage, and random commits to its JSONL storage and to hooks/pi/storage.mjs.
// Usage: node pi_storage_real.mjs MODULES CORE conformance | random SEED STEPS
// CORE: the folder of @earendil-works/pi-agent-core 0.86 to 0.99.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { assertSame, below, both, json, message, outcome, pick, seed, TEXTS, usage } from "./random_steps.mjs";

const [modules, core, step, ...numbers] = process.argv.slice(2);
const pi = await import(`${core}/dist/harness/session/index.js`);
const { BACKGROUND_CONTEXT: CONTEXT } = await import(`${core}/dist/harness/context.js`);
const { GitSessionRepo, GitSessionServer, GitSessionStorage } = await import(`${modules}/storage.mjs`);

const folder = () => mkdtempSync(join(tmpdir(), "pi-"));
const begin = () => new GitSessionServer({ store: join(folder(), "store.git") });

async function conformance() {
  const testing = await import(`${core}/dist/harness/session/testing/index.js`);
  let server;
  const close = () => server.close();
  const storage = testing.createStorageConformance(async () => {
    server = begin();
    return { storage: await GitSessionStorage.create(server), [Symbol.asyncDispose]: close };
  });
  const factory = async () => new GitSessionRepo(pi, { server: (server = begin()) });
  const repo = testing.createSessionRepoConformance(factory, close);
  const forks = testing.createSessionRepoStreamingForkConformance(factory, close);
  for (const each of [...storage, ...repo, ...forks]) {
    await each.run().catch((error) => {
      throw new Error(`${each.group}: ${each.name}`, { cause: error });
    });
  }
  return { storage: storage.length, repo: repo.length, forks: forks.length };
}

const BRANCHES = ["main", "review", "ü"];
const NAMESPACES = ["app", "pi.session.name", "pi.entry.label", "pi.branch.tip", "pi.lane.config", "pi.op.state"];
let last = 0;

function entry(known) {
  const id = known.length > 0 && below(15) === 0 ? pick(known) : `e${(last += 1)}`;
  const parentId = below(12) === 0 ? "nobody" : pick([null, ...known, ...known.slice(-3)]);
  const fields = pick([
    { type: "message", message: message(), ...(below(4) ? {} : { terminate: true }) },
    { type: "custom", customType: pick(["note", "x"]), ...(below(2) ? { data: json() } : {}) },
    { type: "compaction", summary: pick(TEXTS), retainedTail: below(2) ? [] : [message()], tokensBefore: 5, fromHook: false },
    { type: "branch_summary", fromId: pick([null, ...known]), summary: pick(TEXTS), fromHook: true, details: json() },
  ]);
  known.push(id);
  return pi.insertEntry({ id, parentId, ...fields });
}

function write(known) {
  const target = pick(["e1", ...known]);
  const lane = { model: { provider: "p", modelId: "m" }, thinkingLevel: "off", activeToolNames: [] };
  const state = { currentOperationId: null, lastOperationId: "o", inbox: [] };
  const list = pi.list("app.list", pick(["", "a"]));
  return pick([
    () => entry(known),
    () => entry(known),
    () => pi.insertUsage({ id: `u${(last += 1)}`, usage: usage(), adjustment: below(2) === 0, details: json() }),
    () => pi.setValue(pi.branchTip(pick(BRANCHES)), pick([null, ...known])),
    () => pi.setValue(pi.sessionName, pick(["Name", ...TEXTS])),
    () => pi.deleteValue(pi.sessionName),
    () => pi.setValue(pi.entryLabel(target), pick(["start", ...TEXTS])),
    () => pi.deleteValue(pi.entryLabel(target)),
    () => pi.setValue(pi.value(pick(["app", "pi.op.state"]), pick(TEXTS)), json()),
    () => pi.deleteValue(pi.value("app", pick(TEXTS))),
    () => pi.appendList(list, json()),
    () => pi.deleteList(list),
    () => pi.setValue(pi.laneConfig(pick(BRANCHES)), lane),
    () => pi.setValue(pi.laneState(pick(BRANCHES)), state),
  ])();
}

const QUERIES = [
  {},
  { order: "oldestFirst", limit: 2 },
  { stopAtType: "compaction" },
  { stopAtId: "e3", type: "message", order: "oldestFirst" },
  { cursor: { seq: 6 } },
];

/** Return everything that a session contains. */
async function content(session, known) {
  const found = {
    entries: await session.findEntries({ order: "asc" }, CONTEXT),
    notes: await session.findEntries({ customType: "note", limit: 2 }, CONTEXT),
    page: await session.findEntries({ order: "desc", cursor: { seq: 5 }, limit: 3 }, CONTEXT),
    prefix: await session.scanValues(pi.value("app", "a"), CONTEXT),
    stats: await session.getStats(CONTEXT),
    name: await session.getName(CONTEXT),
  };
  for (const name of NAMESPACES) found[name] = await session.scanValues(pi.value(name), CONTEXT);
  for (const key of ["", "a"]) {
    found[`list ${key}`] = await session.readList(pi.list("app.list", key), undefined, CONTEXT);
    found[`end of ${key}`] = await session.readList(pi.list("app.list", key), { order: "desc", limit: 3 }, CONTEXT);
  }
  for (const start of known.slice(-3)) {
    const scans = QUERIES.map((query) => outcome(() => session.scanBranch({ ...query, start }, CONTEXT)));
    found[`branch ${start}`] = await Promise.all(scans);
  }
  return found;
}

async function random(number, steps) {
  seed(number);
  const { NodeExecutionEnv } = await import(`${core}/dist/harness/env/nodejs.js`);
  const cwd = folder();
  let clock = 1_769_904_000_000;
  const now = () => clock;
  const fileSystem = new NodeExecutionEnv({ cwd });
  const repos = [
    new pi.JsonlSessionRepo({ fileSystem, sessionsRoot: join(cwd, "sessions"), now }),
    new GitSessionRepo(pi, { server: begin(), now }),
  ];
  let pair = await both(repos, (repo) => repo.create({ id: "s0", cwd }, CONTEXT));
  const known = [];
  const counts = { commits: 0, refused: 0, forks: 0, opened: 0 };
  const reopen = async () => {
    await both(pair, (session) => session.close(CONTEXT));
    pair = await both(repos, (repo, side) => repo.open(pair[side].metadata, CONTEXT));
    counts.opened += 1;
  };
  const fork = async (name) => {
    const position = below(2) ? { position: pick(["before", "at"]) } : {};
    const part = { scope: "branch", branch: pick(BRANCHES), ...(below(2) ? { entryId: pick(["e1", ...known]) } : {}), ...position };
    const options = { id: name, ...(below(2) ? { scope: "tree" } : part) };
    const sources = pair.map(({ metadata }) => metadata);
    const isClosed = below(2) === 0;
    if (isClosed) await both(pair, (session) => session.close(CONTEXT));
    const found = await both(repos, (repo, side) => outcome(() => repo.fork(sources[side], options, CONTEXT)));
    assertSame(found.map(({ error }) => error), `fork ${JSON.stringify(options)}`);
    if (isClosed) pair = await both(repos, (repo, side) => repo.open(sources[side], CONTEXT));
    if (found[0].error) return;
    counts.forks += 1;
    const forks = found.map(({ value }) => value);
    assertSame(await both(forks, (session) => content(session, known)), `step ${name}`);
    await both(below(2) ? pair : forks, (session) => session.close(CONTEXT));
    pair = await both(repos, (repo, side) => outcome(() => repo.open(forks[side].metadata, CONTEXT))).then((opened) =>
      opened[0].error ? forks : opened.map(({ value }) => value),
    );
  };
  const commit = async () => {
    const before = known.length;
    const writes = Array.from({ length: below(5) }, () => write(known));
    const found = await both(pair, (session) => outcome(() => session.mutate((to) => to.commit(writes, CONTEXT), CONTEXT)));
    assertSame(found, JSON.stringify(writes));
    counts.commits += 1;
    if (!found[0].error) return;
    known.length = before;
    counts.refused += 1;
  };
  for (let at = 0; at < steps; at += 1) {
    clock += below(3);
    const kind = below(10);
    if (kind === 0) await fork(`f${at}`);
    else if (kind === 1) await reopen();
    else await commit();
    assertSame(await both(pair, (session) => content(session, known)), `step ${at}`);
  }
  const metadata = ({ id, createdAt, cwd: at, parentSessionId, storageVersion }) => [id, createdAt, at, parentSessionId, storageVersion];
  const lists = await both(repos, (repo) => repo.list({ cwd }, CONTEXT));
  assertSame(lists.map((list) => list.map(metadata).sort()), "list");
  return counts;
}

console.log(JSON.stringify(step === "random" ? await random(...numbers.map(Number)) : await conformance()));
process.exit();
