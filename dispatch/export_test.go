package dispatch

import "fmt"

// Leftovers says what an Async still holds but for the tasks that it keeps for look-ups; empty:
// nothing.
func (a *Async) Leftovers() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, places := a.runner.SlotsInUse("")
	a.runner.mu.Lock()
	defer a.runner.mu.Unlock()
	timers := 0
	for _, t := range a.tasks {
		if t.stopLink != nil {
			timers++
		}
	}
	counts := [...]int{len(a.live), len(a.turns), len(a.queue), len(a.pending), len(a.ready), len(a.continueRequested), len(a.admitted), len(a.runner.runs), places, timers}
	if counts == [len(counts)]int{} {
		return ""
	}
	return fmt.Sprintf("live, turns, queue, pending, ready, asks, admitted, runs, places, links: %v", counts)
}
