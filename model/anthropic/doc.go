// Package anthropic is a model behind the Anthropic Messages API: api.anthropic.com, or a server that speaks the same
// wire. It streams.
//
// It may import the root, model, the leaves and the provider's SDK. The one thing to know: one Stream is one request,
// and nothing but [Config] says where it goes and under which key. The SDK's retries are off, its environment
// variables are not read and redirects are not followed, since they would carry the key along.
//
//	system, tools ─▶ marked for the provider's prompt cache
//	transcript    ─▶ turns of user and assistant that alternate, results first
//	events        ─▶ answer: blocks by index; in the end the calls whose blocks were closed, also where their arguments
//	                 do not parse (TL22), and of a stream that broke those that parse (TN7)
//	anything else ─▶ *model.Error with a code of 4.6, in the provider's words, without the key
//
// What the wire cannot say, and what is done about it:
//
//   - A transcript starts and ends with a user's turn. Where it starts with the agent, or is empty, a short text stands
//     first; where it ends with the agent, "Continue." stands last, so that it is never taken for the beginning of the
//     next answer. An agent's message with no text and no call is left out.
//   - A notification is a user's text behind model.NotificationMark.
//   - Our messages hold one signed thinking, in front. An answer with more than one thinking block, with a redacted one,
//     or with one behind other content keeps its thinking but no signature, and thinking without a signature is
//     not sent back. A step whose tool calls have none is continued without thinking, as the provider demands.
//   - Block indexes tell events that come twice; a text piece that comes twice looks like any other.
//   - Nothing bounds an answer. Beyond 32 MiB, 16 MiB in one event, or 1,000 content blocks it is an error of code
//     Processing, and none of its calls is made.
//   - pause_turn counts as a regular end: it only comes with the provider's own tools, and none of them is offered.
//
// All of this was tried against local servers and recorded streams that follow the public documentation, and never with
// a paid account.
package anthropic
