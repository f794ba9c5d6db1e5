// The openai package for JavaScript.
import OpenAI, { NotFoundError } from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "none" });
const messages = [{ role: "user", content: "Is Python's sort stable?" }];
const chat = await client.chat.completions.create({ model: "council", messages });
let streamed = "";
for await (const chunk of await client.chat.completions.create({
  model: "council",
  messages,
  stream: true,
})) {
  streamed += chunk.choices[0].delta.content ?? "";
}
const Judgement = z.object({ answer: z.string(), confidence: z.number() });
const parsed = await client.chat.completions.parse({
  model: "council",
  messages,
  response_format: zodResponseFormat(Judgement, "judgement"),
});
const response = await client.responses.create({ model: "council", input: "Why?" });
let error = "";
try {
  await client.chat.completions.create({ model: "gpt-9", messages });
} catch (refused) {
  if (!(refused instanceof NotFoundError)) throw refused;
  error = refused.message;
}
console.log(
  JSON.stringify({
    chat: chat.choices[0].message.content,
    streamed,
    structured: parsed.choices[0].message.parsed,
    response: response.output_text,
    error,
  }),
);
