// Opens session files with pi's own SessionManager, as it does to go on with a session, and builds the context.
//   node pi_manager.mjs PACKAGE FILE      once
//   node pi_manager.mjs PACKAGE           a path a line in; how many messages the model sees, a line out
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [packageFolder, file] = process.argv.slice(2);
const { SessionManager } = await import(pathToFileURL(join(packageFolder, "dist/core/session-manager.js")));

const count = (path) => SessionManager.open(path).buildSessionContext().messages.length;
if (file) console.log(count(file));
else for await (const path of createInterface({ input: process.stdin })) console.log(count(path));
