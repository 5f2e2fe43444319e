package subagent

import (
	"context"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/effecttest"
	"github.com/perdure/perdure/internal/effect/environment"
	"github.com/perdure/perdure/internal/effect/taskport"
	"github.com/perdure/perdure/internal/effect/taskrun"
)

// TestWaitIsFreedWhileItLooks: the wait for a subagent ends while it reads the store (BG21).
func TestWaitIsFreedWhileItLooks(t *testing.T) {
	t.Parallel()
	effecttest.WaitEnds(t, func(b *effecttest.Bed, task perdure.Task) func(context.Context) ([]perdure.Task, error) {
		parts := taskrun.Parts{Core: b.Core, Toolset: b.Toolset, Secrets: b.Secrets, Environment: b.Environment,
			Records: b.Records}
		tasks := taskrun.New(parts, nil)
		by := &environment.Caller{Owner: &core.Owner{Session: task.Session}, Call: "call_1"}
		port := New(parts, tasks).For(by, taskport.New(parts, b.Admission, tasks).For(by))
		return func(ctx context.Context) ([]perdure.Task, error) {
			seen, _, err := port.await(ctx, task.ID)
			return []perdure.Task{seen}, err
		}
	})
}
