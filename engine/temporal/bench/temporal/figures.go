package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// spread is the distribution of a time, in milliseconds.
type spread struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

// spreadOf returns the distribution of at least one time.
func spreadOf(times []time.Duration) spread {
	slices.Sort(times)
	at := func(share float64) float64 {
		return float64(times[int(share*float64(len(times)-1))].Microseconds()) / 1000
	}
	return spread{len(times), at(0.5), at(0.99), at(1)}
}

func (s spread) String() string {
	return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, max %.1f ms, n = %d", s.P50, s.P99, s.Max, s.N)
}

// figures are the results of a run.
type figures struct {
	Version   int        `json:"version"`          // of this format: 1
	Alone     spread     `json:"alone"`            // Temporal alone: start → the activity runs in another process
	Commit    spread     `json:"commit"`           // of a small row to the store
	Message   spread     `json:"message"`          // message → first event of its turn in another process
	Spawn     spread     `json:"spawn"`            // call → its run runs in another process
	AloneRate float64    `json:"alone_per_second"` // activities that Temporal alone has run, 64 workflows at once
	RunRate   float64    `json:"runs_per_second"`
	Cancel    spread     `json:"cancel"`         // request → the context of the run in another process is done
	Moved     spread     `json:"moved"`          // kill -9 → the run runs in another process; heartbeat timeout 1 s
	Events    int64      `json:"history_events"` // of a session's workflow, for one turn
	Bytes     int64      `json:"history_bytes"`
	Turns     []turnRate `json:"turns"`
	Outage    *outage    `json:"outage"` // nil: not measured
}

func (f figures) print(w io.Writer) {
	line := func(name string, value any, goal string, met bool) {
		word := "met"
		if !met {
			word = "missed"
		}
		fmt.Fprintf(w, "%-28s %v\n%-28s goal: %s: %s\n", name, value, "", goal, word)
	}
	fmt.Fprintf(w, "%-28s %v\n", "Temporal alone", f.Alone)
	fmt.Fprintf(w, "%-28s %v\n", "commit", f.Commit)
	line("message → first event", fmt.Sprintf("%v: %.2f × Temporal alone", f.Message, f.Message.P50/f.Alone.P50),
		"p50 at most 1.25 ×", f.Message.P50 <= 1.25*f.Alone.P50)
	line("spawn → running", f.Spawn, "p50 at most 1.25 × Temporal alone, and two commits",
		f.Spawn.P50 <= 1.25*f.Alone.P50+2*f.Commit.P50)
	line("runs placed, 64 at once", fmt.Sprintf("%.1f/s; Temporal alone %.1f/s: %.2f ×", f.RunRate, f.AloneRate, f.RunRate/f.AloneRate),
		"at least 0.8 ×", f.RunRate >= 0.8*f.AloneRate)
	line("cancel → context done", f.Cancel, "p50 at most 2 ms, p99 at most 20 ms", f.Cancel.P50 <= 2 && f.Cancel.P99 <= 20)
	line("kill -9 → moved", f.Moved, "at most 1.6 s", f.Moved.Max <= 1600)
	line("history of a turn", fmt.Sprintf("%d events, %d bytes", f.Events, f.Bytes), "at most 12 events, 4,000 bytes",
		f.Events <= 12 && f.Bytes <= 4000)
	for _, t := range f.Turns {
		fmt.Fprintf(w, "%-28s %.1f turns/s; %d events of history for a turn\n", fmt.Sprintf("processes: %d, calls: %d", t.Processes, t.Calls), t.Rate, t.Events)
	}
	if o := f.Outage; o != nil {
		line(fmt.Sprintf("Temporal away for %.0f s", o.Away),
			fmt.Sprintf("%d messages: lost %d, unknown %d, all moving after %.1f s and completed after %.1f s; %d of %d runs continued undisturbed",
				o.Waiting, o.Lost, o.Unknown, o.Moving/1000, o.Ended/1000, o.Kept, o.Held),
			"lost 0, unknown 0, all moving after at most 30 s", o.Lost == 0 && o.Unknown == 0 && o.Moving <= 30_000)
	}
}
