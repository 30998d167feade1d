// A client of `gitsession rpc` for Node 20 and later, without dependencies: one server process, one JSON line for each message.
// The methods are those of docs/reference/rpc.md.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** The server does not read longer lines. */
const REQUEST_BYTES_MAX = 64 << 20;

/** An error that the server answered. `type` is the class of the error in docs/reference/errors.md. */
export class GitSessionError extends Error {
  constructor({ message, code, data = {} }) {
    super(data.hint ? `${message} (${data.hint})` : message);
    this.name = "GitSessionError";
    this.type = data.type ?? "";
    this.code = code;
  }
}

/** The server process could not be started, was killed, or has exited. The outcome of unanswered calls is unknown. */
export class GitSessionEnded extends Error {
  constructor(message) {
    super(message);
    this.name = "GitSessionEnded";
  }
}

export class GitSessionServer {
  #child;
  #waiting = new Map();
  #last = 0;
  #ended;

  /**
   * Start a server.
   *
   * @param {object} [options]
   * @param {string[]} [options.command] Command of the program. Default: `["gitsession"]`.
   * @param {string} [options.store] Folder of the store. Default: the store of the user.
   * @param {string} [options.cwd] Working directory of the server.
   * @param {object} [options.env] Environment variables of the server.
   */
  constructor({ command = ["gitsession"], store, cwd, env } = {}) {
    const [program, ...words] = command;
    const args = [...words, ...(store === undefined ? [] : ["--store", store]), "rpc"];
    const child = spawn(program, args, { cwd, env, stdio: ["pipe", "pipe", "inherit"] });
    this.#child = child;
    createInterface({ input: child.stdout, crlfDelay: Infinity }).on("line", (line) => this.#receive(line));
    child.stdin.on("error", () => {}); // the end of the process is reported by "close"
    child.on("error", (error) => this.#end(`cannot start '${program}': ${error.message}`));
    child.on("close", (status, signal) => {
      const how = signal === null ? `exited with status ${status}` : `was killed by ${signal}`;
      this.#end(`'gitsession rpc' (process ${child.pid}) ${how}`);
    });
    this.#unref();
  }

  /** The id of the server process. */
  get pid() {
    return this.#child.pid;
  }

  /** Call a method, and return its result. Throws `GitSessionError` or `GitSessionEnded`. */
  call(method, params = {}) {
    if (this.#ended !== undefined) return Promise.reject(new GitSessionEnded(this.#ended));
    const id = ++this.#last;
    const line = `${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`;
    if (Buffer.byteLength(line) > REQUEST_BYTES_MAX) {
      return Promise.reject(new GitSessionError({ message: `a request of ${method} is too large`, data: { type: "Malformed" } }));
    }
    if (this.#waiting.size === 0) this.#ref();
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#child.stdin.write(line);
    });
  }

  /** End the server after it has answered all calls. */
  close() {
    this.#ref();
    return new Promise((resolve) => {
      if (this.#ended !== undefined) return resolve();
      this.#child.on("close", () => resolve());
      this.#child.stdin.end();
    });
  }

  #receive(line) {
    const message = JSON.parse(line);
    const call = this.#waiting.get(message.id);
    if (call === undefined) return;
    this.#waiting.delete(message.id);
    if (this.#waiting.size === 0) this.#unref();
    if (message.error) call.reject(new GitSessionError(message.error));
    else call.resolve(message.result);
  }

  #end(message) {
    this.#ended ??= message;
    for (const { reject } of this.#waiting.values()) reject(new GitSessionEnded(this.#ended));
    this.#waiting.clear();
  }

  // A server without calls must not keep the program running.
  #ref() {
    for (const handle of [this.#child, this.#child.stdin, this.#child.stdout]) handle.ref?.();
  }

  #unref() {
    for (const handle of [this.#child, this.#child.stdin, this.#child.stdout]) handle.unref?.();
  }
}

const PAGE_LINES = 500;

/** Return the lines of a session, parsed, and their number. */
export async function readLines(server, session) {
  const lines = [];
  for (;;) {
    const page = await server.call("lines.read", { session, after: lines.length, limit: PAGE_LINES });
    for (const line of page.lines) lines.push(line);
    if (page.lines.length === 0 || lines.length >= page.count) return lines;
  }
}

/** Return the header of each of pi's sessions in the store, with the id of the session in the store. */
export async function listHeaders(server) {
  const { sessions } = await server.call("sessions.list");
  const found = sessions.filter(({ agent }) => agent === "pi").map(async ({ session }) => {
    return { session, header: await readHeader(server, session) };
  });
  return (await Promise.all(found)).filter(({ header }) => header !== undefined);
}

/** Return the header of a session; undefined if it has none, or if it cannot be read, so that it hides no other one. */
export async function readHeader(server, session) {
  try {
    const { lines } = await server.call("lines.read", { session, limit: 1 });
    return parseHeader(lines[0]);
  } catch (error) {
    if (error instanceof GitSessionError) return undefined;
    throw error;
  }
}

/** Return the header in a line; undefined if the line is no header. */
export function parseHeader(line) {
  try {
    const header = JSON.parse(line);
    return header.type === "session" && typeof header.id === "string" ? header : undefined;
  } catch {
    return undefined;
  }
}
