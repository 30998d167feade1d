// The state of one session of pi-agent-core: its entries, values, lists and usage rows, in memory.

/** Return the sum of two usages. */
function addUsage(left, right) {
  const sum = (name) => left[name] + right[name];
  const optional = (name) =>
    left[name] === undefined && right[name] === undefined ? {} : { [name]: (left[name] ?? 0) + (right[name] ?? 0) };
  const cost = Object.fromEntries(Object.keys(left.cost).map((name) => [name, left.cost[name] + right.cost[name]]));
  const [input, output, cacheRead, cacheWrite] = ["input", "output", "cacheRead", "cacheWrite"].map(sum);
  const more = { ...optional("cacheWrite1h"), ...optional("reasoning") };
  return { input, output, cacheRead, cacheWrite, ...more, totalTokens: sum("totalTokens"), cost };
}

const NO_COST = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
const NO_USAGE = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: NO_COST };

/** Return the key of a value or list in a map. */
const keyOf = ({ namespace, key }) => `${namespace}\0${key}`;

/** Compare two keys by code points, as UTF-8 does. */
const compareKeys = (left, right) => Buffer.compare(Buffer.from(left), Buffer.from(right));

const inRange = (query) => ({ seq }) =>
  (query.fromSeq === undefined || seq >= query.fromSeq) && (query.toSeq === undefined || seq <= query.toSeq);

const ofType = (query) => (entry) =>
  (query.type === undefined || entry.type === query.type) &&
  (query.customType === undefined || entry.customType === query.customType);

const limited = (items, limit) => (limit === undefined ? items : items.slice(0, Math.max(0, Math.trunc(limit))));

export class SessionState {
  entries = new Map();
  values = new Map();
  lists = new Map();
  usage = new Map();
  stats = { messageCount: 0, usage: NO_USAGE };
  nextSeq = 1;

  /** Throw if the writes do not fit the state: ids are unique, and a parent precedes its children. */
  check(writes) {
    const ids = new Map();
    for (const write of writes) {
      if (write.kind !== "entry" && write.kind !== "usage") continue;
      const { id, parentId } = write.kind === "entry" ? write.entry : write.row;
      if (typeof id !== "string" || id === "") throw new Error("An entry or usage row needs an id");
      if (this.entries.has(id) || this.usage.has(id) || ids.has(id)) throw new Error(`Duplicate entry or usage id: ${id}`);
      if (write.kind === "entry") {
        const known = parentId === null || this.entries.has(parentId) || ids.get(parentId) === "entry";
        if (!known) throw new Error(`Missing parent entry: ${parentId}`);
      }
      ids.set(id, write.kind);
    }
  }

  /** Apply a write that `check` accepted. */
  apply(write, seq, timestamp) {
    this.nextSeq = Math.max(this.nextSeq, seq + 1);
    if (write.kind === "entry") {
      this.entries.set(write.entry.id, { ...write.entry, seq, timestamp });
      if (write.entry.type === "message") this.stats = { ...this.stats, messageCount: this.stats.messageCount + 1 };
    } else if (write.kind === "usage") {
      this.usage.set(write.row.id, { ...write.row, seq });
      this.stats = { ...this.stats, usage: addUsage(this.stats.usage, write.row.usage) };
    } else if (write.op === "delete") {
      (write.kind === "value" ? this.values : this.lists).delete(keyOf(write));
    } else if (write.kind === "value") {
      const address = Object.freeze({ namespace: write.namespace, key: write.key, kind: "value" });
      this.values.set(keyOf(write), { address, value: write.value, seq });
    } else {
      const elements = this.lists.get(keyOf(write))?.elements ?? [];
      elements.push({ seq, value: write.value });
      this.lists.set(keyOf(write), { namespace: write.namespace, key: write.key, elements });
    }
  }

  getEntries(ids) {
    return new Map(ids.filter((id) => this.entries.has(id)).map((id) => [id, this.entries.get(id)]));
  }

  getValue(address) {
    return this.values.get(keyOf(address));
  }

  scanValues(prefix) {
    return [...this.values.values()]
      .filter(({ address }) => address.namespace === prefix.namespace && address.key.startsWith(prefix.key))
      .sort((left, right) => compareKeys(left.address.key, right.address.key));
  }

  readList(address, { cursor, order = "asc", limit = 1_000 } = {}) {
    if (!Number.isSafeInteger(limit) || limit <= 0) throw new TypeError("List read limit must be a positive safe integer");
    const elements = this.lists.get(keyOf(address))?.elements ?? [];
    const after = ({ seq }) => cursor === undefined || (order === "asc" ? seq > cursor.seq : seq < cursor.seq);
    const found = elements.filter(after);
    return (order === "asc" ? found : found.reverse()).slice(0, Math.min(limit, 10_000));
  }

  /** Return the path from an entry to its root. */
  path(id) {
    const path = [];
    for (let at = this.entries.get(id); at !== undefined; at = this.entries.get(at.parentId)) path.push(at);
    return path;
  }

  scanBranch({ start, order, stopAtId, stopAtType, cursor, limit, ...filter }) {
    if (!this.entries.has(start)) throw new Error(`Unknown branch start: ${start}`);
    const isOldestFirst = order === "oldestFirst";
    const path = isOldestFirst ? this.path(start).reverse() : this.path(start);
    const stop = path.findIndex(({ id, type }) => id === stopAtId || type === stopAtType);
    const after = ({ seq }) => cursor === undefined || (isOldestFirst ? seq > cursor.seq : seq < cursor.seq);
    const found = (stop < 0 ? path : path.slice(0, stop + 1)).filter(ofType(filter)).filter(after);
    return limit === undefined ? found : found.slice(0, Math.max(0, limit));
  }

  scanBranchStructure(query) {
    return this.scanBranch(query).map(({ id, parentId, seq, timestamp, type, customType }) => ({
      ...{ id, parentId, seq, timestamp, type },
      ...(customType === undefined ? {} : { customType }),
    }));
  }

  scanEntries(query) {
    const entries = [...this.entries.values()];
    if (query.order === "desc") entries.reverse();
    return limited(entries.filter(ofType(query)).filter(inRange(query)), query.limit);
  }

  scanUsage(query) {
    const rows = [...this.usage.values()].filter(inRange(query));
    return limited(query.order === "desc" ? rows.reverse() : rows, query.limit);
  }
}
