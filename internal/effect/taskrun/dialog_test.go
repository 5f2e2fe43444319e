package taskrun

import (
	"context"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/effecttest"
)

// TestWaitIsFreedWhileItLooks: the wait for an answer ends while it reads the store (BG21).
func TestWaitIsFreedWhileItLooks(t *testing.T) {
	t.Parallel()
	effecttest.WaitEnds(t, func(b *effecttest.Bed, task perdure.Task) func(context.Context) ([]perdure.Task, error) {
		e := over(b)
		return func(ctx context.Context) ([]perdure.Task, error) {
			_, err := e.awaitAnswer(ctx, task, question{id: "q", after: 1})
			return []perdure.Task{task}, err
		}
	})
}
