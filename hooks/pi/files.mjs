// Session files for pi-agent-core 0.80 to 0.83: a file system for pi's own `JsonlSessionRepo` and `JsonlSessionStorage`,
// whose files are the sessions of a gitsession store. See docs/how-to/keep-pi-sessions.md.

import { posix } from "node:path";

import { GitSessionServer, parseHeader, readHeader, readLines } from "./rpc.mjs";

export { GitSessionEnded, GitSessionError, GitSessionServer } from "./rpc.mjs";

const isFile = (path) => path.endsWith(".jsonl");

const folderOf = (cwd) => `--${cwd.replace(/^[/\\]/, "").replace(/[/\\:]/g, "-")}--`;

const nameOf = ({ timestamp, id }) => `${String(timestamp).replace(/[:.]/g, "-")}_${id}.jsonl`;

/** The part of pi's interface `FileSystem` that stores sessions. */
export class GitSessionFiles {
  cwd = "/";
  #server;
  /** The sessions by path: the id in the store, the header, and the number of lines that pi has read or written. */
  #files = new Map();
  #headers = new Map();
  #root;

  /**
   * @param {object} [options] The options of `GitSessionServer`, or `server`, one that the program closes; and `root`,
   *   the `sessionsRoot` of the repository.
   */
  constructor({ server, root = "/sessions", ...options } = {}) {
    this.#server = server ?? new GitSessionServer(options);
    this.#root = posix.resolve(this.cwd, root);
  }

  absolutePath(path) {
    return done(() => posix.resolve(this.cwd, path));
  }

  joinPath(parts) {
    return done(() => posix.join(...parts));
  }

  readTextFile(path) {
    return done(async () => {
      const file = await this.#find(path);
      const lines = await readLines(this.#server, file.session);
      file.count = lines.length;
      return lines.map((line) => `${line}\n`).join("");
    });
  }

  readTextLines(path, { maxLines } = {}) {
    return done(async () => {
      const { session } = await this.#find(path);
      if (maxLines === undefined) return readLines(this.#server, session);
      return (await this.#server.call("lines.read", { session, limit: maxLines })).lines;
    });
  }

  /** Create a session from the first lines of its file. A session that exists is not overwritten. */
  writeFile(path, content) {
    return done(async () => {
      const lines = linesOf(content);
      const { session, count } = await this.#server.call("lines.new", { agent: "pi", lines });
      this.#files.set(path, { session, header: parseHeader(lines[0]), count });
    });
  }

  /** Append lines. They are durable when the call returns. Fails if another program has appended lines. */
  appendFile(path, content) {
    return done(async () => {
      const file = await this.#find(path);
      const { session, count: after } = file;
      const { count } = await this.#server.call("lines.append", { session, lines: linesOf(content), after });
      file.count = count;
    });
  }

  /** List the folders of the sessions, or the sessions of a folder. */
  listDir(path) {
    return done(async () => {
      const files = await this.#list();
      if (path !== this.#root) return files.filter(({ path: file }) => posix.dirname(file) === path).map(infoOf);
      return [...new Set(files.map(({ path: file }) => posix.dirname(file)))].map((folder) => infoOf({ path: folder }));
    });
  }

  exists(path) {
    return done(async () => !isFile(path) || (await this.#lookUp(path)) !== undefined);
  }

  createDir() {
    return done(() => undefined);
  }

  /** Move a session to the trash of the store. `gitsession purge` deletes it permanently. */
  remove(path, { force = false } = {}) {
    return done(async () => {
      const file = force ? await this.#lookUp(path) : await this.#find(path);
      if (file !== undefined) await this.#server.call("sessions.delete", { session: file.session });
      this.#files.delete(path);
    });
  }

  /** End the server. */
  cleanup() {
    return this.#server.close();
  }

  async #find(path) {
    const found = await this.#lookUp(path);
    if (found === undefined) throw Object.assign(new Error(`no session has the file ${path}`), { type: "NotFound" });
    return found;
  }

  async #lookUp(path) {
    if (!this.#files.has(path)) await this.#list();
    return this.#files.get(path);
  }

  /** Return the sessions with their paths. */
  async #list() {
    const { sessions } = await this.#server.call("sessions.list");
    const ids = sessions.filter(({ agent }) => agent === "pi").map(({ session }) => session);
    const headers = await Promise.all(ids.map((session) => this.#header(session)));
    const found = ids.map((session, at) => ({ session, header: headers[at] })).filter(({ header }) => typeof header?.cwd === "string");
    const files = found.map((file) => ({ ...file, path: this.#path(file.header) }));
    for (const file of files) if (!this.#files.has(file.path)) this.#files.set(file.path, { ...file, count: 0 });
    return files;
  }

  async #header(session) {
    if (!this.#headers.has(session)) {
      const header = await readHeader(this.#server, session);
      if (header === undefined) return undefined;
      this.#headers.set(session, header);
    }
    return this.#headers.get(session);
  }

  #path(header) {
    return posix.join(this.#root, folderOf(header.cwd), nameOf(header));
  }
}

function infoOf({ path }) {
  return { name: posix.basename(path), path, kind: isFile(path) ? "file" : "directory", size: 0, mtimeMs: 0 };
}

function linesOf(content) {
  const lines = (typeof content === "string" ? content : Buffer.from(content).toString()).split("\n");
  return lines.at(-1) === "" ? lines.slice(0, -1) : lines;
}

/** Return the value of an operation, or its error, in the form that pi expects. */
async function done(operation) {
  try {
    return { ok: true, value: await operation() };
  } catch (error) {
    return { ok: false, error: Object.assign(error, { code: error.type === "NotFound" ? "not_found" : "unknown" }) };
  }
}
