// aimock.mjs FILE starts the mock of providers and prints its URL. The file has the answers in their order: those of step 0 are for
// requests without the result of a tool, those of step 1 for the others. It ends with its standard input.
import { readFileSync } from 'node:fs'
import { LLMock } from '@copilotkit/aimock'

const called = (request) => request.messages.some((message) => message.role === 'tool')
const steps = [(request) => !called(request), called]

const mock = new LLMock({ port: 0, logLevel: 'warn' })
for (const { step, index, ...answer } of JSON.parse(readFileSync(process.argv[2], 'utf8'))) {
  mock.addFixture({ match: { predicate: steps[step], sequenceIndex: index }, ...answer })
}
await mock.start()
console.log(mock.url)
process.stdin.resume()
process.stdin.on('end', () => process.exit())
