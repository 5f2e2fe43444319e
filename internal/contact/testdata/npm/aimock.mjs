// Starts the mock of providers with a file of fixtures, and prints its URL. It ends with its standard input.
import { LLMock } from '@copilotkit/aimock'

const mock = new LLMock({ port: 0, logLevel: 'warn' })
mock.loadFixtureFile(process.argv[2])
await mock.start()
console.log(mock.url)
process.stdin.resume()
process.stdin.on('end', () => process.exit())
