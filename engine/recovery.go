package engine

import (
	"time"

	"github.com/perdure/perdure"
)

// Recovery is what crash recovery did with the work of one dead worker, as far as this process did
// it. All numbers count records that were taken over, not attempts to do so.
type Recovery struct {
	// Crashed says that the worker did not stop in an orderly way. Work that an orderly stop left
	// to the next start is taken over like that of a crash.
	Crashed bool `json:"crashed"`
	// LastSignAt is the last sign of life of the dead worker: a heartbeat, or a later write to work
	// that it left. The worker ended after it. Zero: it left none.
	LastSignAt time.Time `json:"last_sign_at,omitzero"`
	BeganAt    time.Time `json:"started_at"`  // when this process began to look for the work
	EndedAt    time.Time `json:"finished_at"` // of the last take-over so far

	Sessions int `json:"sessions"` // sessions that it drove, and that were resumed
	Tasks    int `json:"tasks"`    // tasks that were taken over
	Calls    int `json:"calls"`    // foreground calls that were taken over

	// Actions counts the tasks and calls by what was done with them; docs/architecture.md explains
	// the actions.
	Actions map[perdure.TakeOver]int `json:"actions"`
	// Unknown counts the tasks and calls whose outcome is unknown now; an operator resolves them.
	Unknown int `json:"unknown"`
	// Repeated counts the tasks and calls of class at_most_once that were started again although
	// they may have had their effect. The rules of crash recovery keep it at 0.
	Repeated int `json:"at_most_once_repeated"`
}

// TaskOverview counts tasks without reading their records.
type TaskOverview struct {
	States   map[perdure.TaskState]int `json:"states"`   // every state, with the number of its tasks
	Monitors map[perdure.TaskState]int `json:"monitors"` // of these, the tasks that only represent a schedule
	// HeartbeatMS is the interval in which a worker confirms that it is alive, and its tasks with
	// it.
	HeartbeatMS int64 `json:"heartbeat_interval_ms"`
	// GraceMS is how long a canceled task has to stop by itself. Tasks.Force ends that time.
	GraceMS int64 `json:"grace_period_ms"`
}
