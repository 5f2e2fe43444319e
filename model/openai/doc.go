// Package openai calls models through the streaming Chat Completions API: OpenAI's own and every
// server that offers the same API, such as vLLM, Ollama, llama.cpp, DeepSeek and OpenRouter.
// [MustNotExist] makes a model for a base URL.
//
// The package may import the root package, model, internal/modelhistory, internal/modelwire, and
// packages without dependencies of their own.
//
// The one thing to know: the protocol does not mark the end of a call. The package treats a call
// as complete in four cases, and counts and drops every other call:
//
//   - The answer has ended with a finish_reason. The arguments need not parse; the check of the
//     arguments then reports to the model what is wrong.
//   - The answer has ended with [DONE] and no finish_reason, and all calls have complete objects as
//     arguments.
//   - The answer has reached its length limit, and a later call has started.
//   - The stream broke, a later call has started, and the arguments are a complete object.
//
// One request goes like this:
//
//	request ─▶ one POST; another one only if a refusal names what can be left out (dialect.go)
//	        ─▶ status other than 200: a *model.Error that depends on status and body
//	        ─▶ events or JSON ─▶ text and thinking as they arrive; calls, usage and the finish at the end
//	        ─▶ a stream without an end, for any reason: the calls before the last one, then Unavailable
//
// The protocol leaves these gaps, which are handled as follows:
//
//   - Servers differ in nearly every member of a chunk. A member of another type than documented
//     costs that member only, and the bytes of an answer decide its form, not its content type.
//   - Chunks have no number. A repeated chunk is only recognised where it adds nothing: a finish,
//     usage, and a chunk that opens a call and directly follows itself. Repeated text cannot be
//     told from text that really repeats, so it stays. Arguments that arrive twice, or in each
//     piece as a whole, are used once.
//   - Content after a finish_reason belongs to the answer. The reader waits ten seconds for it.
//   - Usage is requested with stream_options, and the length limit is max_completion_tokens for
//     OpenAI and Azure, and max_tokens for all others. A server that refuses one of them teaches
//     the model to do without.
//   - Thinking is read from reasoning_content, reasoning, thinking, or parts of the content. Fields
//     that the protocol does not have, and thinking under the name that it had, go back to the same
//     server and kind of model, and to no other.
//   - Servers refuse different histories. internal/modelhistory follows the strictest of each kind.
//     What only one server demands, and another would refuse, is learned from its refusal.
//   - Arguments that contain half of a character are not text. They are kept with an escape in its
//     place, and do not parse.
//   - Nothing in the protocol bounds an answer. More than 64 MiB, 16 MiB in one event, or 1,000
//     calls is an error of code Processing, and none of the calls is made.
//   - An undocumented finish_reason is a regular end, unless it is a word for a fault.
//
// The package is tested with local servers and recorded streams; testdata/README.md says where
// their form comes from. It was not tested with a paid account.
package openai
