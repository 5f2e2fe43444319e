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
//   - A [Session] is the fold of its journal: [Session.Apply] takes one [Event] after another.
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
// The package has no clock, randomness, goroutine or I/O: the time, the session secret and the
// number of resumes are passed in as data. Because of that a replay of the same journal always
// gives the same session and the same decisions. It imports the standard library and a few packages
// below internal that have no rule of the domain, such as the reader of JSON from outside.
//
// The files tell one story, in this order:
//
//   - session.go, event.go, sessionfact.go, eventtype.go, apply.go: a session, its journal, and how
//     one is folded from the other. sessionoutline.go has what an event changed, for people. id.go
//     has the names of all things.
//   - agent.go, label.go, title.go, message.go: what a session is configured with and found by, and
//     what it receives
//   - turn.go, turnfact.go, command.go, decide.go: a turn, and what is due in it
//   - retry.go, loop.go, compaction.go, repair.go: when a model call fails, calls repeat without
//     progress, the transcript is too long, or a call in it has no result
//   - call.go, callfact.go, result.go: calls, their effect classes, the rows of the effect ledger,
//     and the lanes
//   - task.go, taskupdate.go, taskfact.go, slot.go, resource.go, process.go: work that may outlive
//     its turn, the slots that limit it, what it leaves behind elsewhere, and the processes that do
//     it
//   - delivery.go: how a result reaches its session
//   - approval.go, egress.go, websecret.go: what a person has to decide, which URLs may be reached,
//     and which secrets may be sent there
//   - schedule.go, schedulestep.go: work that starts at its time
//   - subagent.go: sessions that work for other sessions
//   - budget.go, pause.go: what stops a session, and how it continues
//   - errors.go, json.go: the kinds of error, and the reader that makes wrong input one of them
package perdure
