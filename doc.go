// Package perdure holds the nouns and rules of a durable runtime for the tool calls of AI agents.
//
// The root decides, internal/effect does, store remembers, an engine turns the wheel:
//
//   - A [Session] is the fold of its journal: [Session.Apply] takes one [Event] after another.
//   - What must happen next is [Session.Decide], a pure function of the session and a [Moment].
//   - A [Command] says what to record, or what to do outside; its outcome comes back as events.
//
// This package imports the standard library only and has no clock, randomness, goroutine or I/O:
// time, take-ups and secrets come in as data.
//
// A tool call travels like this. A message is received and waits in the queue. A turn starts and the
// model is asked. Its message and the claims of its calls are one commit; only then do the calls run.
// Each ends with its settlement and tool.completed in one commit, and the model is asked again, until
// it asks for nothing more and the turn ends. A call that runs as a [Task] outlives the turn; its end
// is one commit with its result and its delivery, which becomes a notification in the transcript.
package perdure
