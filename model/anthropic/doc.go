// Package anthropic calls models through the streaming Anthropic Messages API, at
// api.anthropic.com or at another server with the same API.
//
// The package may import the root package, model, internal/modelhistory, internal/modelwire,
// packages without dependencies of their own, and the provider's SDK.
//
// The one thing to know: one Stream is one request, unless the server refuses it because of
// something that can be left out, and only [Config] decides where it goes and
// with which key. The retries of the SDK are off, its environment variables are not read, and
// redirects are not followed, because they would take the key along.
//
//	system, tools ─▶ marked for the provider's prompt cache
//	transcript    ─▶ turns of user and assistant, results first
//	events        ─▶ answer: blocks by index; at the end the calls whose blocks are closed, even if their
//	                 arguments do not parse; of a broken stream only the calls that parse
//	other answers ─▶ *model.Error with the provider's text, without the key
//
// The protocol leaves these gaps, which are handled as follows:
//
//   - The turns of the conversation are those of internal/modelhistory.
//   - A message stores one signed thinking block at its start as thinking and signature. Any
//     other thinking is stored block by block, with its place, and goes back to the same server
//     and kind of model only. Thinking without a signature does not go back to Claude models,
//     which refuse it. A step whose tool calls have no thinking continues without it, as the
//     provider requires.
//   - Repeated events are recognised by block indexes. A repeated piece of text cannot be
//     recognised.
//   - Nothing in the protocol bounds an answer. More than 32 MiB, 16 MiB in one event, or 1,000
//     content blocks is an error of code Processing, and none of the calls is made.
//   - pause_turn counts as a regular end, because it only comes with the provider's own tools, and
//     none of them is offered. So does every other stop reason that is no word for a fault.
//   - Gateways leave out message_stop, the names of events, or the stop reason. An answer with a
//     stop reason is complete; without one it is if its end is marked and no call in it is half.
//
// The package is tested with local servers and with recorded streams that follow the public
// documentation. It was not tested with a paid account.
package anthropic
