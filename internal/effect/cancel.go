package effect

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/taskrecord"
)

// cancelLateStarts cancels what a stopped subagent was starting at the time of the stop: the commit
// of the stop could not see it.
func (e *Effects) cancelLateStarts(ctx context.Context, s *perdure.Session) {
	for _, task := range s.OpenTasks() {
		if !task.CancelRequested() {
			e.tasks.CancelWithRetry(ctx, task.ID, taskrecord.CancelIntent{By: s.Stopped.By, Why: s.Stopped.Reason})
		}
	}
}
