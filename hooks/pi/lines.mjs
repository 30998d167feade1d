// The lines in which a session of pi-agent-core is stored: those of pi's session file, version 3.
//
// Each entry is a line, with pi's id. Its other fields are those of pi's file, so that gitsession, and pi itself, read
// it. Values, lists and usage rows have no line in that version. They are in the field `gitsession` of a line:
//
//   {"seq": 7, "writes": [{...}, null, {...}]}
//
// `seq` is the number of the first write, and null stands for the line itself. The writes of a commit without an entry
// are in a line of the type `custom`. A name or a label is a line of pi's file. Lines without the field come from pi.

import { randomUUID } from "node:crypto";

import { SessionState } from "./state.mjs";

/** The type of the lines that have only writes. */
const WRITES = "gitsession.writes";

const TIP = "pi.branch.tip";
const NAME = "pi.session.name";
const LABEL = "pi.entry.label";
const ENTRY_TYPES = new Set(["message", "compaction", "branch_summary", "custom"]);

const isText = (value) => typeof value === "string" && value.trim() === value && value !== "";

const iso = (timestamp) => new Date(timestamp).toISOString();

/** Return the line of pi's file for a write; undefined if it has none. */
function ownLine(write) {
  if (write.kind === "entry") {
    const { id, parentId, type, ...fields } = write.entry;
    if (!ENTRY_TYPES.has(type)) throw new TypeError(`Unknown type of entry: ${type}`);
    if ("gitsession" in fields) throw new TypeError("An entry cannot have the field 'gitsession'");
    return { type, id, parentId, fields };
  }
  if (write.kind !== "value" || (write.op === "set" && !isText(write.value))) return undefined;
  const text = write.op === "set" ? write.value : undefined;
  if (write.namespace === NAME && write.key === "") return { type: "session_info", fields: { name: text ?? "" } };
  if (write.namespace !== LABEL || write.key === "") return undefined;
  return { type: "label", fields: { targetId: write.key, ...(text === undefined ? {} : { label: text }) } };
}

/** Return the write that a line of pi's file stands for; undefined if it has none. */
function writeOf(line, state, owners) {
  const { type, id, parentId, timestamp: _, gitsession, ...fields } = line;
  if (type === "session_info" || type === "label") {
    const text = type === "label" ? fields.label : fields.name;
    const address = type === "label" ? { namespace: LABEL, key: fields.targetId } : { namespace: NAME, key: "" };
    if (typeof address.key !== "string") return undefined;
    const found = typeof text === "string" ? text.trim() : "";
    return { kind: "value", op: found ? "set" : "delete", ...address, ...(found ? { value: found } : {}) };
  }
  if (!ENTRY_TYPES.has(type) || typeof id !== "string" || state.entries.has(id)) return undefined;
  const entry = { id, parentId: owners.get(parentId) ?? null, type, ...fields };
  for (const name of gitsession?.added ?? []) delete entry[name];
  if (gitsession === undefined && type === "compaction") entry.retainedTail ??= keptMessages(entry, state);
  if (gitsession === undefined && (type === "compaction" || type === "branch_summary")) entry.fromHook ??= false;
  return { kind: "entry", entry };
}

/** Return the messages that a compaction of pi keeps: those from its first kept entry on. */
function keptMessages({ firstKeptEntryId, parentId }, state) {
  const path = state.path(parentId);
  const first = path.findIndex(({ id }) => id === firstKeptEntryId);
  return path.slice(0, first + 1).reverse().filter(({ type }) => type === "message").map(({ message }) => message);
}

/**
 * Return the id of the entry with which the messages that a compaction keeps begin; undefined if they are not the last
 * messages of the path. So pi's program and gitsession keep the same messages.
 */
function firstKept({ id, retainedTail }, path) {
  if (retainedTail.length === 0) return id; // pi's way to keep nothing
  let left = retainedTail.length;
  for (const entry of path) {
    if (entry.type === "compaction") return undefined;
    if (entry.type !== "message") continue;
    left -= 1;
    if (JSON.stringify(entry.message) !== JSON.stringify(retainedTail[left])) return undefined;
    if (left === 0) return entry.id;
  }
  return undefined;
}

/** Divide writes into those of each line. `at` is the place of the write that has a line of its own, `own`. */
function divide(items) {
  const parts = [];
  let lead = [];
  const flush = () => {
    if (lead.length > 0) parts.push({ items: lead });
    lead = [];
  };
  for (const item of items) {
    const last = lead.at(-1) ?? parts.at(-1)?.items.at(-1);
    const isNext = last !== undefined && last.seq + 1 === item.seq;
    const own = ownLine(item.write);
    if (!isNext) flush();
    if (own !== undefined) {
      parts.push({ own, at: lead.length, items: [...lead, item] });
      lead = [];
    } else if (isNext && lead.length === 0) parts.at(-1).items.push(item);
    else lead.push(item);
  }
  flush();
  return parts;
}

/** A session as lines: its state, and the position of the next line in pi's tree. */
export class SessionLines {
  state = new SessionState();
  count = 0;
  header;
  /** The entry to which a line belongs, by the id of the line; null for a line before the first entry. */
  #owners = new Map([[null, null]]);
  /** The last line that belongs to an entry; an entry or line below the entry becomes its child. */
  #ends = new Map();
  /** The entry to which lines without an entry are appended. */
  #position = null;

  constructor(header) {
    this.header = header;
    this.state.nextSeq = Math.max(1, header.gitsession?.nextSeq ?? 1);
  }

  /** Return the session in the lines of a file. */
  static parse(lines) {
    const session = new SessionLines(JSON.parse(lines[0]));
    for (const line of lines.slice(1)) session.#read(JSON.parse(line));
    session.count = lines.length;
    session.state.nextSeq = Math.max(session.state.nextSeq, session.header.gitsession?.nextSeq ?? 1);
    return session;
  }

  #read(line) {
    const { state } = this;
    const timestamp = Date.parse(line.timestamp) || 0;
    const { seq: first = state.nextSeq, writes = [null] } = line.gitsession ?? {};
    const isOurs = line.type === "custom" && line.customType === WRITES;
    const own = isOurs ? undefined : writeOf(line, state, this.#owners);
    writes.forEach((write, at) => {
      const found = write ?? own;
      if (found !== undefined) state.apply(found, first + at, timestamp);
    });
    if (line.gitsession === undefined && own?.kind === "entry") {
      // pi itself continued the session
      state.apply({ kind: "value", op: "set", namespace: TIP, key: "main", value: line.id }, state.nextSeq, timestamp);
    }
    this.#place(line, own);
    this.#follow(writes);
  }

  /** Record the position of a line. */
  #place({ id, parentId }, own) {
    if (typeof id !== "string") return;
    const owner = own?.kind === "entry" ? id : (this.#owners.get(parentId) ?? null);
    this.#owners.set(id, owner);
    this.#ends.set(owner, id);
    this.#position = owner;
  }

  /** Move to the entry to which the writes of a line move a branch. */
  #follow(writes) {
    const tip = this.#tipOf(writes);
    if (tip !== undefined) this.#position = tip;
  }

  #tipOf(writes) {
    const found = writes.findLast((write) => write?.namespace === TIP && write.op === "set")?.value;
    return found === null || this.state.entries.has(found) ? found : undefined;
  }

  /**
   * Return the lines for writes, and the function that applies them to this object.
   *
   * @param {{write: object, seq: number, timestamp: number}[]} items The writes, each with its number and time.
   */
  plan(items) {
    const draft = { ends: new Map(), owners: new Map(), position: this.#position, entries: new Map() };
    const lines = divide(items).map((part) => this.#line(part, draft));
    const accept = () => {
      for (const { write, seq, timestamp } of items) this.state.apply(write, seq, timestamp);
      for (const [id, owner] of draft.owners) this.#owners.set(id, owner);
      for (const [owner, id] of draft.ends) this.#ends.set(owner, id);
      this.#position = draft.position;
      this.count += lines.length;
    };
    return { lines, accept };
  }

  /** Return one line, and record its position in `draft`. */
  #line({ own, at, items }, draft) {
    const isEntry = own?.id !== undefined;
    const id = isEntry ? own.id : randomUUID();
    if (isEntry) draft.entries.set(id, items[at].write.entry);
    const writes = items.map(({ write }, index) => (index === at ? null : write));
    const tip = writes.findLast((write) => write?.namespace === TIP && write.op === "set")?.value;
    const isKnown = tip === null || draft.entries.has(tip) || this.state.entries.has(tip);
    if (!isEntry && isKnown) draft.position = tip;
    const owner = isEntry ? own.parentId : draft.position;
    const parentId = draft.ends.get(owner) ?? this.#ends.get(owner) ?? owner;
    const line = { type: own?.type ?? "custom", id, parentId, timestamp: iso(items[at ?? 0].timestamp) };
    Object.assign(line, own?.fields ?? { customType: WRITES });
    line.gitsession = { seq: items[0].seq, ...(writes.length > 1 || own === undefined ? { writes } : {}) };
    if (own?.type === "compaction") this.#keep(line, own.parentId, draft);
    draft.owners.set(id, isEntry ? id : owner);
    draft.ends.set(isEntry ? id : owner, id);
    if (isEntry) draft.position = isKnown ? tip : id;
    return JSON.stringify(line);
  }

  /** Add the field with which pi finds the messages that a compaction keeps. */
  #keep(line, parentId, draft) {
    if (line.firstKeptEntryId !== undefined || !Array.isArray(line.retainedTail)) return;
    const find = (id) => draft.entries.get(id) ?? this.state.entries.get(id);
    const path = [];
    for (let entry = find(parentId); entry !== undefined; entry = find(entry.parentId)) path.push(entry);
    const found = firstKept(line, path);
    if (found === undefined) return;
    line.firstKeptEntryId = found;
    line.gitsession.added = ["firstKeptEntryId"];
  }
}
