// Session storage for pi-agent-core 0.86 to 0.99: its interfaces `Storage` and `SessionRepo` on a gitsession store.
// See docs/how-to/keep-pi-sessions.md.

import { randomUUID } from "node:crypto";
import { resolve } from "node:path";

import { SessionLines } from "./lines.mjs";
import { GitSessionServer, listHeaders, readLines } from "./rpc.mjs";

export { GitSessionEnded, GitSessionError, GitSessionServer } from "./rpc.mjs";

const STORAGE_VERSION = 1;

/** Maximum length of the lines of one request, in UTF-16 units; escaped, they are shorter than the limit of 64 MiB. */
const REQUEST_MAX = 8 << 20;

/** Storage of one session. Commits are durable when they return. Reads are answered from memory. */
export class GitSessionStorage {
  #server;
  #lines;
  #now;
  #queue = Promise.resolve();
  #isOpen = true;

  /** Wrap a stored session. Programs call `create` or `open` instead. */
  constructor(server, session, lines, now = Date.now) {
    this.#server = server;
    this.session = session;
    this.#lines = lines;
    this.#now = now;
  }

  /**
   * Create a session.
   *
   * @param {GitSessionServer} server
   * @param {object} [options] `id`, `cwd`, `parentSessionId`, and `now`, a function that returns the time in ms.
   */
  static async create(server, { id, cwd = process.cwd(), parentSessionId, now = Date.now } = {}) {
    return GitSessionStorage.#begin(server, headerOf(id ?? randomUUID(), now(), cwd, parentSessionId), [], now);
  }

  /** Open the session with an id in the store. */
  static async open(server, session, { now } = {}) {
    return new GitSessionStorage(server, session, SessionLines.parse(await readLines(server, session)), now);
  }

  /** Create a session with writes that have numbers already. */
  static async #begin(server, header, items, now) {
    const lines = new SessionLines(header);
    const { lines: added, accept } = lines.plan(items);
    const [first, ...rest] = divided([JSON.stringify(header), ...added]);
    const { session } = await server.call("lines.new", { agent: "pi", lines: first });
    try {
      let after = first.length;
      for (const part of rest) {
        await server.call("lines.append", { session, lines: part, after });
        after += part.length;
      }
    } catch (error) {
      await server.call("sessions.delete", { session }).catch(() => undefined);
      throw error;
    }
    accept();
    lines.count += 1;
    return new GitSessionStorage(server, session, lines, now);
  }

  get header() {
    return this.#lines.header;
  }

  async commit(writes, context) {
    this.#assertOpen();
    return this.#queued(() => this.#commit(writes, context));
  }

  async #commit(writes, context) {
    const { state } = this.#lines;
    const [firstSeq, timestamp] = [state.nextSeq, this.#now()];
    state.check(writes);
    const seqs = writes.map((_, at) => firstSeq + at);
    const { lines, accept } = this.#lines.plan(writes.map((write, at) => ({ write, seq: seqs[at], timestamp })));
    if (lines.length > 0) {
      context?.abortSignal?.throwIfAborted();
      await this.#server.call("lines.append", { session: this.session, lines, after: this.#lines.count });
      accept();
    }
    return { firstSeq, seqs, timestamp, stats: state.stats };
  }

  async getEntries(ids, _context) {
    return this.#state().getEntries(ids);
  }

  async getValue(address, _context) {
    return this.#state().getValue(address);
  }

  async scanValues(prefix, _context) {
    return this.#state().scanValues(prefix);
  }

  async readList(address, options, _context) {
    return this.#state().readList(address, options);
  }

  async scanBranch(query, _context) {
    return this.#state().scanBranch(query);
  }

  async scanBranchStructure(query, _context) {
    return this.#state().scanBranchStructure(query);
  }

  async scanEntries(query, _context) {
    return this.#state().scanEntries(query);
  }

  async scanUsage(query, _context) {
    return this.#state().scanUsage(query);
  }

  async getStats(_context) {
    return this.#state().stats;
  }

  /**
   * Create a session with a part of this one, as it is after the commits so far.
   *
   * @param {object} header
   * @param {(state: object) => object[]} select A function that returns the writes of the new session.
   */
  fork(header, select) {
    this.#assertOpen();
    return this.#queued(() => {
      const { state } = this.#lines;
      const found = { ...header, gitsession: { ...header.gitsession, nextSeq: state.nextSeq } };
      return GitSessionStorage.#begin(this.#server, found, select(state), this.#now);
    });
  }

  /** Complete the admitted commits, and refuse further calls. */
  close(_context) {
    this.#isOpen = false;
    return this.#queue;
  }

  #state() {
    this.#assertOpen();
    return this.#lines.state;
  }

  #assertOpen() {
    if (!this.#isOpen) throw new Error("GitSessionStorage is closed");
  }

  #queued(operation) {
    const result = this.#queue.then(operation);
    this.#queue = result.then(
      () => undefined,
      () => undefined,
    );
    return result;
  }
}

/** Return the header of a session. pi and gitsession read its fields, but not the field `gitsession`. */
function headerOf(id, createdAt, cwd, parentSessionId) {
  const parent = parentSessionId === undefined ? {} : { parentSessionId };
  const base = { type: "session", version: 3, id, timestamp: new Date(createdAt).toISOString(), cwd: resolve(cwd) };
  const more = parentSessionId === undefined ? {} : { parentSession: parentSessionId };
  return { ...base, ...more, gitsession: { storageVersion: STORAGE_VERSION, ...parent } };
}

function metadataOf(session, header) {
  const { storageVersion = STORAGE_VERSION, parentSessionId } = header.gitsession ?? {};
  return {
    id: header.id,
    createdAt: Date.parse(header.timestamp) || 0,
    storageVersion,
    ...(typeof header.cwd === "string" ? { cwd: header.cwd } : {}),
    ...(parentSessionId === undefined ? {} : { parentSessionId }),
    ...(header.parentSession === undefined || parentSessionId !== undefined
      ? {}
      : { legacyParentSessionPath: header.parentSession }),
    session,
  };
}

/** Divide lines into parts that fit a request. */
function divided(lines) {
  const parts = [[]];
  let length = 0;
  for (const line of lines) {
    length += line.length;
    if (length > REQUEST_MAX && parts.at(-1).length > 0) {
      parts.push([]);
      length = line.length;
    }
    parts.at(-1).push(line);
  }
  return parts;
}

/** Sessions of pi-agent-core in a gitsession store. */
export class GitSessionRepo {
  #pi;
  #server;
  #isOwn;
  #now;
  #open = new Map();
  #isClosed = false;

  /**
   * @param {object} pi The module `@earendil-works/pi-agent-core/harness/session`.
   * @param {object} [options] The options of `GitSessionServer`, or `server`, one that the program closes; and `now`, a
   *   function that returns the time in ms.
   */
  constructor(pi, { server, now = Date.now, ...options } = {}) {
    this.#pi = pi;
    this.#server = server ?? new GitSessionServer(options);
    this.#isOwn = server === undefined;
    this.#now = now;
  }

  async create({ id, cwd = process.cwd(), parentSessionId } = {}, _context) {
    const header = headerOf(id ?? randomUUID(), this.#now(), cwd, parentSessionId);
    return this.#reserved(header.id, async () => {
      const storage = await GitSessionStorage.create(this.#server, {
        ...{ id: header.id, cwd, parentSessionId },
        now: this.#now,
      });
      return storage;
    });
  }

  async open(metadata, _context) {
    this.#assertOpen();
    if (this.#open.has(metadata.id)) throw new Error(`Session is already open: ${metadata.id}`);
    this.#open.set(metadata.id, undefined);
    return this.#publish(metadata.id, async () => this.#load(metadata));
  }

  async list(options, _context) {
    this.#assertOpen();
    const found = (await listHeaders(this.#server)).map(({ session, header }) => metadataOf(session, header));
    const wanted = options?.cwd === undefined ? found : found.filter(({ cwd }) => cwd === resolve(options.cwd));
    return wanted.sort((left, right) => right.createdAt - left.createdAt || (left.id < right.id ? -1 : 1));
  }

  /** Move a session to the trash of the store. `gitsession purge` deletes it permanently. */
  async delete(metadata, _context) {
    this.#assertOpen();
    if (this.#open.has(metadata.id)) throw new Error(`Session is open: ${metadata.id}`);
    await this.#server.call("sessions.delete", { session: await this.#find(metadata) });
  }

  async fork(source, options, _context) {
    const id = options.id ?? randomUUID();
    return this.#reserved(id, async () => {
      const isOpen = this.#open.get(source.id) !== undefined;
      const storage = isOpen ? this.#open.get(source.id) : await this.#load(source);
      try {
        const header = headerOf(id, this.#now(), storage.header.cwd, source.id);
        const at = this.#now();
        return await storage.fork(header, (state) => forkedWrites(this.#pi, state, options, at));
      } finally {
        if (!isOpen) await storage.close();
      }
    });
  }

  /** End the server that this object started. */
  async close(_context) {
    this.#isClosed = true;
    if (this.#isOwn) await this.#server.close();
  }

  async #reserved(id, make) {
    this.#assertOpen();
    if (this.#open.has(id)) throw new Error(`Session already exists: ${id}`);
    this.#open.set(id, undefined);
    return this.#publish(id, make);
  }

  /** Return the session in the storage that `make` returns. The id of the session is reserved. */
  async #publish(id, make) {
    const forget = () => this.#open.delete(id);
    try {
      const storage = await make();
      this.#open.set(id, storage);
      const metadata = metadataOf(storage.session, storage.header);
      return new this.#pi.StorageBackedSession(metadata, storage, { onClose: forget });
    } catch (error) {
      forget();
      throw error;
    }
  }

  async #load(metadata) {
    const session = await this.#find(metadata);
    const storage = await GitSessionStorage.open(this.#server, session, { now: this.#now });
    const { storageVersion } = metadataOf(session, storage.header);
    if (storage.header.id !== metadata.id) throw new Error(`Session identity does not match header: ${metadata.id}`);
    if (storageVersion === STORAGE_VERSION) return storage;
    throw new Error(`Session ${metadata.id} uses unsupported storage version ${storageVersion}`);
  }

  /** Return the id in the store of a session. */
  async #find({ id, session }) {
    const { sessions } = await this.#server.call("sessions.list");
    const found = sessions.find((row) => (session === undefined ? row.agent === "pi" && row.source_id === id : row.session === session));
    if (found === undefined) throw new Error(`Unknown session: ${id}`);
    return found.session;
  }

  #assertOpen() {
    if (this.#isClosed) throw new Error("GitSessionRepo is closed");
  }
}

/** Return the writes of a fork, with the numbers that they have in the source, as pi's repositories do. */
function forkedWrites(pi, state, options, timestamp) {
  const { plan, entries } = forkPlan(state, options);
  const isCopied = (id) => plan.scope === "tree" || entries.has(id);
  const items = [];
  for (const id of entries) {
    const { seq, timestamp: at, ...entry } = state.entries.get(id);
    items.push({ write: { kind: "entry", entry }, seq, timestamp: at });
  }
  const project = (write) => {
    const { seq, ...found } = pi.projectForkCurrentStateWrite(write, plan, isCopied) ?? {};
    if (seq !== undefined) items.push({ write: found, seq, timestamp });
  };
  for (const { address, value, seq } of state.values.values()) {
    project({ kind: "value", op: "set", seq, namespace: address.namespace, key: address.key, value });
  }
  for (const { namespace, key, elements } of state.lists.values()) {
    for (const { seq, value } of elements) project({ kind: "list", op: "append", seq, namespace, key, value });
  }
  return items.sort((left, right) => left.seq - right.seq);
}

/** Return the plan of a fork for pi's rules, and the ids of its entries. */
function forkPlan(state, { scope, branch, entryId, position }) {
  if (scope === "tree") return { plan: { scope }, entries: new Set(state.entries.keys()) };
  const valueOf = (namespace) => state.getValue({ namespace, key: branch });
  const tip = valueOf("pi.branch.tip");
  if (tip === undefined) throw new Error(`Unknown source branch: ${branch}`);
  const path = tip.value === null ? [] : state.path(tip.value);
  const first = path.findIndex(({ id }) => id === (entryId ?? tip.value));
  if (first < 0 && entryId !== undefined) {
    throw new Error(`Fork entry ${entryId} is not on source branch ${JSON.stringify(branch)}`);
  }
  if (valueOf("pi.lane.config") === undefined || valueOf("pi.lane.state") === undefined) {
    throw new Error(`Source branch ${JSON.stringify(branch)} is not a configured AgentLane`);
  }
  const copied = path.slice(position === "before" ? first + 1 : Math.max(first, 0)).map(({ id }) => id);
  const plan = { scope, branch, destinationTip: copied[0] ?? null };
  return { plan, entries: new Set(copied.reverse()) };
}
