// Steps of a program that keeps a session with hooks/pi/storage.mjs or files.mjs, for tests/frameworks/test_pi_storage.py.
// Usage: node pi_storage.mjs MODULES STEP [WORD...]; the result is printed as JSON.

import { deepStrictEqual, rejects, strictEqual } from "node:assert/strict";
import { kill } from "node:process";

const [modules, step, ...words] = process.argv.slice(2);
const { GitSessionEnded, GitSessionError, GitSessionServer, GitSessionStorage } = await import(`${modules}/storage.mjs`);
const { GitSessionFiles } = await import(`${modules}/files.mjs`);
const { listHeaders } = await import(`${modules}/rpc.mjs`);

const said = (id, parentId, content = `words of ${id}`) => {
  const message = { role: "user", content, timestamp: 1 };
  return { kind: "entry", entry: { id, parentId, type: "message", message } };
};
const note = (id, parentId) => ({ kind: "entry", entry: { id, parentId, type: "custom", customType: "note" } });
const set = (namespace, key, value) => ({ kind: "value", op: "set", namespace, key, value });
const tip = (id, branch = "main") => set("pi.branch.tip", branch, id);
const usage = (id) => {
  const cost = { input: 0.1, output: 0.2, cacheRead: 0, cacheWrite: 0, total: 0.3 };
  return { kind: "usage", row: { id, adjustment: false, usage: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0, totalTokens: 3, cost } } };
};
const ids = (entries) => entries.map(({ id }) => id);

/** Return what a storage contains. */
async function content(storage) {
  const found = {
    entries: await storage.scanEntries({ order: "asc" }),
    values: await storage.scanValues({ namespace: "pi.branch.tip", key: "" }),
    list: await storage.readList({ namespace: "app.list", key: "" }),
    name: await storage.getValue({ namespace: "pi.session.name", key: "" }),
    label: await storage.getValue({ namespace: "pi.entry.label", key: "a" }),
    usage: await storage.scanUsage({ order: "asc" }),
    stats: await storage.getStats(),
  };
  return JSON.parse(JSON.stringify(found));
}

const steps = {
  async keep() {
    const server = new GitSessionServer();
    const storage = await GitSessionStorage.create(server, { id: "kept", now: () => 1_769_904_000_000 });
    await storage.commit([set("app", "early", { x: 1 })]);
    const first = await storage.commit([said("a", null), tip("a"), usage("u1")]);
    deepStrictEqual(first.seqs, [2, 3, 4]);
    await storage.commit([said("b", "a", "\ud800 \u2028 \u{10000}"), note("c", "a"), tip("b"), tip("c", "side")]);
    await storage.commit([set("pi.session.name", "", "Name"), set("pi.entry.label", "a", "start")]);
    for (const value of [1, { two: [2] }]) {
      await storage.commit([{ kind: "list", op: "append", namespace: "app.list", key: "", value }]);
    }
    const kept = { type: "compaction", summary: "s", tokensBefore: 5, fromHook: false };
    const { message } = said("b", "a", "\ud800 \u2028 \u{10000}").entry;
    await storage.commit([{ kind: "entry", entry: { id: "d", parentId: "b", ...kept, retainedTail: [message] } }, tip("d")]);
    await storage.commit([tip("a")]); // back to the first entry
    const before = await content(storage);
    for (const writes of [[said("x", "b"), said("a", null)], [said("x", "nobody")], [usage("b")], [said("", null)]]) {
      await rejects(storage.commit(writes));
    }
    deepStrictEqual(await content(storage), before);
    deepStrictEqual(ids(await storage.scanBranch({ start: "d", order: "oldestFirst" })), ["a", "b", "d"]);
    const { session } = storage;
    await storage.close();
    await rejects(async () => storage.commit([]), /closed/);
    const again = await GitSessionStorage.open(server, session);
    deepStrictEqual(await content(again), before);
    await again.commit([said("e", "a")]);
    await server.close();
    return { session, content: before };
  },

  async read() {
    const server = new GitSessionServer();
    const found = await content(await GitSessionStorage.open(server, words[0]));
    await server.close();
    return found;
  },

  async race() {
    const [one, two] = [new GitSessionServer(), new GitSessionServer()];
    const ours = await GitSessionStorage.create(one, { id: "shared" });
    const theirs = await GitSessionStorage.open(two, ours.session);
    await theirs.commit([said("a", null)]);
    const moved = await ours.commit([said("b", null)]).catch((error) => error);
    strictEqual(moved instanceof GitSessionError && moved.type, "LeafMoved");
    deepStrictEqual(await ours.scanEntries({ order: "asc" }), []);
    const again = await GitSessionStorage.open(one, ours.session);
    await again.commit([said("b", "a")]);
    await Promise.all([one.close(), two.close()]);
    return { session: ours.session, message: moved.message };
  },

  async kill() {
    const server = new GitSessionServer();
    const storage = await GitSessionStorage.create(server, { id: "killed" });
    await storage.commit([said("a", null)]);
    kill(server.pid, "SIGKILL");
    const errors = await Promise.all([said("b", "a"), said("c", "a")].map((write) => storage.commit([write]).catch((error) => error)));
    strictEqual(errors.every((error) => error instanceof GitSessionEnded), true);
    const missing = new GitSessionServer({ command: ["gitsession-that-is-not-installed"] });
    const absent = await missing.call("version").catch((error) => error);
    return { session: storage.session, pid: server.pid, message: errors[0].message, absent: absent.message };
  },

  async large() {
    const server = new GitSessionServer();
    const storage = await GitSessionStorage.create(server, { id: "large" });
    const refused = await storage.commit([said("a", null, "x".repeat(66 << 20))]).catch((error) => error);
    await storage.commit([said("a", null, "x".repeat(20 << 20)), said("b", "a")]);
    const { length } = (await (await GitSessionStorage.open(server, storage.session)).getEntries(["a"])).get("a").message.content;
    await server.close();
    return { error: `${refused.type}: ${refused.message}`, length };
  },

  /** Append messages until the test kills this program. */
  async forever() {
    const server = new GitSessionServer();
    const storage = await GitSessionStorage.create(server, { id: "forever" });
    console.log(storage.session);
    for (let number = 0, parent = null; ; number += 1) {
      await storage.commit([said(`m${number}`, parent), tip(`m${number}`)]);
      parent = `m${number}`;
      console.log(parent);
    }
  },

  /** Return the sessions that `listHeaders` and `GitSessionFiles` list. */
  async list() {
    const server = new GitSessionServer();
    const headers = await listHeaders(server);
    const files = new GitSessionFiles({ server });
    const folders = (await files.listDir("/sessions")).value;
    await server.close();
    return { ids: headers.map(({ header }) => header.id).sort(), folders: folders.map(({ name }) => name) };
  },

  async files() {
    const files = new GitSessionFiles();
    const path = "/sessions/--work--/2026-02-01T00-00-00-000Z_f.jsonl";
    const header = { type: "session", version: 3, id: "f", timestamp: "2026-02-01T00:00:00.000Z", cwd: "/work" };
    const lines = [header, { type: "custom", customType: "x", id: "a", parentId: null, timestamp: header.timestamp }];
    const text = lines.map((line) => `${JSON.stringify(line)}\n`);
    strictEqual((await files.readTextFile(path)).error.code, "not_found");
    strictEqual((await files.writeFile(path, text[0])).ok, true);
    strictEqual((await files.writeFile(path, text[0])).ok, false);
    strictEqual((await files.appendFile(path, text[1])).ok, true);
    strictEqual((await files.appendFile(path, "{\n")).error.code, "unknown");
    const other = new GitSessionFiles();
    deepStrictEqual((await other.listDir("/sessions")).value.map(({ path: at }) => at), ["/sessions/--work--"]);
    deepStrictEqual((await other.listDir("/sessions/--work--")).value.map(({ path: at }) => at), [path]);
    strictEqual((await other.readTextFile(path)).value, text.join(""));
    deepStrictEqual((await other.readTextLines(path, { maxLines: 1 })).value, [text[0].trim()]);
    strictEqual((await other.exists(path)).value, true);
    strictEqual((await other.remove(path)).ok, true);
    strictEqual((await other.exists(path)).value, false);
    strictEqual((await other.remove(path, { force: true })).ok, true);
    await Promise.all([files.cleanup(), other.cleanup()]);
    return {};
  },
};

console.log(JSON.stringify(await steps[step]()));
