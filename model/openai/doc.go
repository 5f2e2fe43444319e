// Package openai asks models by Chat Completions streaming: OpenAI's own, and every server that speaks that wire,
// such as vLLM, Ollama, llama.cpp, DeepSeek and OpenRouter. [New] makes one of a base URL.
//
// It may import the root, model, the leaves, and of the SDK its package ssestream only. The one thing to know: the
// wire closes no call. A call is closed when the answer has ended by a finish_reason, also where its arguments do not parse
// (TL22); at the limit of the length, when a later call has begun; in a stream that broke, when it is a whole object
// besides. Every other call is counted and dropped (TN7).
//
//	request ─▶ one POST, never a second one (TN21)
//	        ─▶ other than 200: a *model.Error by status and body (4.6)
//	        ─▶ events ─▶ text and thinking as they come; calls, usage and the finish in the end
//	        ─▶ a stream without finish_reason, whatever ended it: the calls before the last one, then Unavailable
//
// What the wire cannot say, and what is done about it:
//
//   - Chunks have no number. A chunk that came twice is known where its second coming adds nothing: a finish, usage,
//     whatever comes after the finish, and the chunk that opens a call, when it comes twice in a row. Text that came
//     twice cannot be told from text that repeats, and so stays; arguments that came twice mostly do not parse.
//   - Usage is asked for with stream_options. A server that refuses those needs [Config.NoUsage].
//   - The limit of an answer is max_completion_tokens at OpenAI and Azure, and max_tokens everywhere else.
//   - Thinking is taken from reasoning_content or reasoning, has no signature, and is never sent back.
//   - Arguments that hold half of a character are no text. It stands in them as an escape, and they do not parse.
//   - Nothing bounds an answer. Beyond 64 MiB, 16 MiB in one event, or 1,000 calls it is an error of code Processing, and
//     none of its calls is made.
//   - A finish_reason that nobody has documented is an error of code Processing, and not taken for a regular end.
//
// Tried against local servers and recorded streams only: testdata/README.md says where their form comes from. No paid
// account was asked.
package openai
