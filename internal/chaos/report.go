package chaos

import (
	"slices"
	"time"

	"github.com/perdure/perdure"
)

// Report is the result of a run, for programs. Later versions only add fields.
type Report struct {
	Seed             int64   `json:"seed"`
	Kills            int     `json:"kills"`
	Sessions         int     `json:"sessions"`
	Tasks            int     `json:"tasks"`
	Settled          int     `json:"settled"` // tasks in a terminal state other than unknown
	LostSettled      int     `json:"lost_settled"`
	DuplicateEffects int     `json:"duplicate_effects"`
	Unknown          int     `json:"unknown"` // tasks and foreground calls with an unknown outcome
	Stuck            int     `json:"stuck"`
	EventGaps        int     `json:"event_gaps"`
	Undelivered      int     `json:"undelivered"`
	DeliveredTwice   int     `json:"delivered_twice"`
	RecoveryP50MS    int64   `json:"recovery_p50_ms"`
	RecoveryP99MS    int64   `json:"recovery_p99_ms"`
	UpperBound95     float64 `json:"upper_bound_95"` // 3/kills; 0 after a violation, or without kills
	// supervised commands that survived the runtime and were adopted
	Adopted        int         `json:"adopted"`
	Resumed        int         `json:"resumed"` // calls and tasks that were recovered in another way
	Effects        int         `json:"effects"`
	EffectsMissing int         `json:"effects_missing"` // neither done nor reported as unknown
	RecoveryMS     Recovery    `json:"recovery_ms"`
	Violations     []Violation `json:"violations,omitempty"`
	OK             bool        `json:"ok"`

	// Only for "perdure chaos", not for the demo.
	Stops           int     `json:"stops,omitempty"`           // SIGSTOP and SIGCONT
	Terms           int     `json:"terms,omitempty"`           // SIGTERM, including the last one
	DiskFull        int     `json:"disk_full,omitempty"`       // how often the disk was full
	DatabaseOutages int     `json:"database_away,omitempty"`   // how often the database was down
	SchedulerCuts   int     `json:"scheduler_cut,omitempty"`   // how often the outside scheduler could not be reached
	SchedulerWipes  int     `json:"scheduler_wiped,omitempty"` // how often it lost everything
	Faults          []Fault `json:"faults,omitempty"`          // requested faults
	UnknownCalls    int     `json:"unknown_calls,omitempty"`   // foreground calls in Unknown
	// starts that recovered unfinished work: the n of the percentiles
	Recoveries int `json:"recoveries,omitempty"`
	// responses to clients that were compared at the end
	Answers int            `json:"answers,omitempty"`
	Kinds   map[string]int `json:"calls,omitempty"` // calls by effect class
}

// Recovery is the time from the start of a process to its first recovered step, in milliseconds.
type Recovery struct {
	P50 int64 `json:"p50"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
}

// Run contains the data that only the loop has.
type Run struct {
	Seed       int64
	Kills      int
	Recoveries []time.Duration
	// Known contains settled results that were read between kills: result texts by task. They must
	// be the same at the end (I1).
	Known map[perdure.TaskID]string
	// Found contains violations besides the invariants of a Record: contradictions to earlier
	// responses (I1, I6), remaining processes (I13), wrong exit codes.
	Found []Violation
	// Missing contains effects that were reported as successful but did not happen.
	Missing []Violation
}

// Evaluate counts the results of a run and checks every invariant.
func Evaluate(r Record, run Run) Report {
	rep := Report{Seed: run.Seed, Kills: run.Kills, Sessions: len(r.Journals), Violations: Check(r),
		Effects: len(r.Ledger)}
	rep.Violations = append(append(rep.Violations, run.Found...), run.Missing...)
	rep.EffectsMissing = len(run.Missing)
	final := map[perdure.TaskID]perdure.Task{}
	for _, journal := range r.Journals {
		rep.journal(journal, final)
	}
	for _, task := range final {
		rep.Tasks++
		switch {
		case task.State == perdure.TaskUnknown:
			rep.Unknown++
		case task.State.Terminal():
			rep.Settled++
		}
	}
	for _, v := range run.Found {
		if v.Invariant == "I1" {
			rep.LostSettled++
		}
	}
	rep.lostSettled(run, final)
	rep.missing(r, final)
	for _, v := range rep.Violations {
		switch v.Invariant {
		case "I2", "I3":
			rep.DuplicateEffects++
		case "I4":
			rep.Stuck++
		case "I6":
			rep.EventGaps++
		}
	}
	rep.recoveries(run.Recoveries)
	rep.OK = len(rep.Violations) == 0 && rep.LostSettled == 0 && rep.EffectsMissing == 0
	if rep.OK && run.Kills > 0 {
		rep.UpperBound95 = 3 / float64(run.Kills)
	}
	return rep
}

// journal counts the events of one session.
func (rep *Report) journal(j Journal, final map[perdure.TaskID]perdure.Task) {
	for _, event := range j.Events {
		switch f := event.Fact.(type) {
		case perdure.TaskCreated:
			final[f.Task.ID] = f.Task
		case perdure.TaskUpdated:
			final[f.Task.ID] = f.Task
		case perdure.TaskReattached:
			rep.takenOver(f.How)
		case perdure.ToolTakenOver:
			rep.takenOver(f.How)
		case perdure.ToolUnknown:
			rep.Unknown++
			rep.UnknownCalls++
		}
	}
	for _, n := range deliveries(j) {
		switch {
		case n == 0:
			rep.Undelivered++
		case n > 1:
			rep.DeliveredTwice++
		}
	}
}

func (rep *Report) takenOver(how perdure.TakeOver) {
	if how == perdure.TakeOverAdopt {
		rep.Adopted++
		return
	}
	rep.Resumed++
}

// lostSettled counts settled results that were read before and are now different or missing (I1).
func (rep *Report) lostSettled(run Run, final map[perdure.TaskID]perdure.Task) {
	for id, seen := range run.Known {
		if task, ok := final[id]; !ok || TaskResult(task) != seen {
			rep.LostSettled++
			rep.Violations = append(rep.Violations,
				Violation{Invariant: "I1", Text: "the result of task " + string(id) + " changed after it was reported"})
		}
	}
}

// TaskResult is the part of an ended task that must never change.
func TaskResult(t perdure.Task) string { return string(t.State) + " " + t.Summary }

// missing counts requested effects that are neither in the ledger nor reported as unknown.
func (rep *Report) missing(r Record, final map[perdure.TaskID]perdure.Task) {
	accounted := map[string]bool{}
	for _, line := range r.Ledger {
		accounted[line.Effect] = true
	}
	for _, journal := range r.Journals {
		for _, event := range journal.Events {
			if f, ok := event.Fact.(perdure.ToolUnknown); ok {
				accounted[string(journal.Session)+" "+f.Name] = true
			}
		}
	}
	for _, task := range final {
		if task.State == perdure.TaskUnknown {
			accounted[string(task.Session)+" "+task.Tool] = true
		}
	}
	for _, order := range r.Expected {
		if !accounted[order.Effect] && !accounted[string(order.Session)+" "+order.Tool] {
			rep.EffectsMissing++
		}
	}
}

func (rep *Report) recoveries(all []time.Duration) {
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	at := func(percent int) int64 { return all[min(len(all)*percent/100, len(all)-1)].Milliseconds() }
	rep.RecoveryP50MS, rep.RecoveryP99MS = at(50), at(99)
	rep.RecoveryMS = Recovery{P50: at(50), P99: at(99), Max: all[len(all)-1].Milliseconds()}
}
