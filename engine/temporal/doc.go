// Package temporal is a scheduler on Temporal, for an engine that runs on several machines with one
// Postgres database. It decides which process works on a session or a task, and when. It is a
// module of its own, so that the engine itself does not depend on Temporal.
//
// It may import the root package and Temporal's SDK. The one thing to know: Temporal receives ids,
// numbers and the names of task queues, and nothing else. The store holds everything that is to be
// done, so a signal that is lost, a workflow that is terminated, or a namespace without its data
// delays work and loses nothing: the reconciler lists what waits and starts it again.
//
// Three workflows do the scheduling:
//
//	Session      drives one session; it ends a minute after the session is idle
//	Run          runs one task until it has ended
//	Maintenance  one per prefix: fires schedules, cleans up, and reconciles
//
//	          wake                     rests
//	waiting ────────▶ Drive activity ────────▶ waiting ──60 s──▶ completed
//	   ▲                │  │
//	   └── backs off ◀──┘  └── moved: the process died, or stops: the next grant
//
// Each activity carries a grant, which the workflow counts. The store keeps the last grant of a
// session or task, and a grant that is not higher is Lost before anything is taken. A late activity
// of a former process therefore changes nothing.
package temporal
