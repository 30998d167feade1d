// What the released pi sends to each API for a context: node pi_requests.mjs < contexts.json > requests.json
// LAB holds the release. Nothing is sent: the request is taken as it would leave.
import { readFileSync } from "node:fs";

const root = `${process.env.LAB}/pi-087/node_modules/@earendil-works`;
const anthropic = await import(`${root}/pi-ai/dist/api/anthropic-messages.js`);
const chat = await import(`${root}/pi-ai/dist/api/openai-completions.js`);
const responses = await import(`${root}/pi-ai/dist/api/openai-responses-shared.js`);
const { convertToLlm } = await import(`${root}/pi-coding-agent/dist/core/messages.js`);

const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };

function modelOf(context, api, provider) {
  const id = context.model?.modelId ?? "m";
  const limits = { maxTokens: 1000, contextWindow: 200000, cost, reasoning: true, input: ["text", "image"] };
  return { id, name: id, api, provider: context.model?.provider ?? provider, baseUrl: "http://127.0.0.1:9", compat: {}, ...limits };
}

async function toAnthropic(context, messages) {
  let sent;
  const keep = (payload) => {
    sent = JSON.parse(JSON.stringify(payload));
    throw new Error("not sent");
  };
  const model = modelOf(context, "anthropic-messages", "anthropic");
  const options = { apiKey: "none", cacheRetention: "none", maxRetries: 0, onPayload: keep };
  for await (const event of anthropic.stream(model, { messages }, options)) if (event.type === "error") break;
  return sent.messages;
}

async function requestsOf(context) {
  try {
    const messages = convertToLlm(context.messages);
    return {
      anthropic: await toAnthropic(context, messages),
      "openai-chat": chat.convertMessages(modelOf(context, "openai-completions", "openai"), { messages }, {}, {}),
      "openai-responses": responses.convertResponsesMessages(
        modelOf(context, "openai-responses", "openai"), { messages }, new Set(["openai"]), {},
      ),
    };
  } catch (error) {
    return { error: String(error) };
  }
}

const made = [];
for (const context of JSON.parse(readFileSync(0, "utf8"))) made.push(await requestsOf(context));
process.stdout.write(JSON.stringify(made), () => process.exit(0));
