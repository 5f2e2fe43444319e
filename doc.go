// Package perdure holds the types and rules of a durable runtime for the tool calls of AI agents.
//
// The work is divided between four layers:
//
//   - This package decides. It has the nouns (session, turn, call, task, approval, schedule) and
//     the rules about what may happen next.
//   - internal/effect carries out what was decided: it calls models and tools.
//   - A store keeps the journals and the tables that are derived from them.
//   - An engine schedules the work and answers callers.
//
// Three types connect them:
//
//   - A [Session] is the fold of its journal: [Session.Apply] takes one [NeedsEvent] after another.
//   - [Session.Decide] is a pure function of the session and a [Moment]. It returns what is due
//     next.
//   - A [Command] says what to record, or what to do outside. Its outcome comes back as events.
//
// A tool call takes this way through the system. A message is received and waits in the queue. A
// turn starts, and the model is called. One commit stores the model's message together with the
// claims of its calls; only then do the calls run. For each call, one commit stores its settlement
// and its tool.completed event. The model is called again until it asks for no more calls, and the
// turn ends. A call that runs as a [Task] can outlive the turn. The commit that ends the task also
// stores its result and its delivery; the delivery becomes a notification in the transcript.
//
// The package imports only the standard library. It has no clock, randomness, goroutine or I/O: the
// time, the session secret and the number of resumes are passed in as data. Because of that a
// replay of the same journal always gives the same session and the same decisions.
package perdure
