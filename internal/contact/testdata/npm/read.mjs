// read.mjs openai|anthropic URL NAME... lets the client of a provider read a recorded stream of each name from URL/NAME, and prints
// what it read as JSON, by name.
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'

const messages = [{ role: 'user', content: 'go' }]

async function openai(baseURL) {
  const client = new OpenAI({ apiKey: 'none', baseURL, maxRetries: 0 })
  const stream = client.chat.completions.stream({ model: 'some-model', messages, stream_options: { include_usage: true } })
  const completion = await stream.finalChatCompletion()
  const { message, finish_reason } = completion.choices[0]
  const usage = completion.usage ?? {}
  return {
    text: (message.content ?? '') + (message.refusal ?? ''),
    thinking: message.reasoning_content ?? '',
    calls: (message.tool_calls ?? []).map((call) => ({ name: call.function.name, arguments: call.function.arguments })),
    finish: message.refusal ? 'refusal' : finish_reason,
    input: usage.prompt_tokens ?? 0,
    output: usage.completion_tokens ?? 0,
  }
}

async function anthropic(baseURL) {
  const client = new Anthropic({ apiKey: 'none', baseURL, maxRetries: 0 })
  const message = await client.messages.stream({ model: 'some-model', max_tokens: 1000, messages }).finalMessage()
  const of = (type) => message.content.filter((block) => block.type === type)
  return {
    text: of('text').map((block) => block.text).join(''),
    thinking: of('thinking').map((block) => block.thinking).join(''),
    calls: of('tool_use').map((block) => ({ name: block.name, arguments: JSON.stringify(block.input) })),
    finish: message.stop_reason,
    input: message.usage.input_tokens + (message.usage.cache_read_input_tokens ?? 0) + (message.usage.cache_creation_input_tokens ?? 0),
    output: message.usage.output_tokens,
  }
}

const [wire, url, ...names] = process.argv.slice(2)
const read = { openai, anthropic }[wire]
const all = {}
for (const name of names) {
  try {
    all[name] = await read(`${url}/${name}`)
  } catch (error) {
    all[name] = { error: String(error.message ?? error) }
  }
}
console.log(JSON.stringify(all))
process.exit() // a stream that stays open must not keep it
