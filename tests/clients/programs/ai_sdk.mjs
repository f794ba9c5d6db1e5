// The AI SDK of Vercel, with its provider for compatible servers.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateObject, generateText, streamText } from "ai";
import { z } from "zod";

const panel = createOpenAICompatible({
  name: "peerage",
  baseURL: process.argv[2],
  apiKey: "none",
  supportsStructuredOutputs: true,
});
const prompt = "Is Python's sort stable?";
const { text: chat, reasoning } = await generateText({ model: panel("council"), prompt });
const stream = streamText({ model: panel("council"), prompt });
let streamed = "";
for await (const piece of stream.textStream) streamed += piece;
const schema = z.object({ answer: z.string(), confidence: z.number() });
const { object } = await generateObject({ model: panel("council"), prompt, schema });
let error = "";
try {
  await generateText({ model: panel("gpt-9"), prompt, maxRetries: 0 });
} catch (refused) {
  if (!APICallError.isInstance(refused)) throw refused;
  error = refused.message;
}
console.log(JSON.stringify({ chat, streamed, structured: object, error }));
