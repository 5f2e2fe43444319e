package background

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// listing is the answer to list=true.
type listing struct {
	Type    string            `json:"type"`
	Message string            `json:"message"`
	Session perdure.SessionID `json:"session_id"`
	Tasks   []listed          `json:"tasks"`
}

// listed is one task of a listing.
type listed struct {
	ID   perdure.TaskID `json:"background_id"`
	Tool string         `json:"tool"`
	// Since its start or, if it has not started, its creation.
	AgeSeconds    float64  `json:"age_seconds"`
	ParkedSeconds *float64 `json:"parked_seconds,omitempty"` // since it left the foreground
	Done          bool     `json:"done"`
	Status        status   `json:"status"`
}

// list answers list=true: live tasks, then ended tasks that have not been read. It does not mark
// them as read.
func list(ctx context.Context, env tool.Env) tool.Result {
	tasks, err := env.Tasks.List(ctx)
	if err != nil {
		return failed(ctx, err)
	}
	now := env.Clock()
	live, over := []listed{}, []listed{}
	running := 0
	for _, t := range tasks {
		switch {
		case t.Lane == perdure.Foreground:
		case t.State.Live():
			live = append(live, entry(t, now))
			if t.Kind != perdure.KindMonitor { // a schedule, which runs nothing itself
				running++
			}
		case undeliveredTasks(t):
			over = append(over, entry(t, now))
		}
	}
	message := "No active background tasks."
	if running > 0 {
		message = fmt.Sprintf("%d active background task(s).", running)
	}
	return tool.Success(listing{Type: typeOutput, Message: message, Session: env.Call.Session, Tasks: append(live, over...)})
}

func entry(t perdure.Task, now time.Time) listed {
	since := t.StartedAt
	if since.IsZero() {
		since = t.CreatedAt
	}
	l := listed{ID: t.ID, Tool: t.Tool, AgeSeconds: seconds(now.Sub(since)), Done: t.State.Terminal(), Status: statusIn(t.State)}
	if !t.DetachedAt.IsZero() {
		parked := seconds(now.Sub(t.DetachedAt))
		l.ParkedSeconds = &parked
	}
	return l
}

// seconds rounds to two decimals. A negative duration, after a clock change, counts as 0.
func seconds(d time.Duration) float64 {
	return math.Round(max(d, 0).Seconds()*100) / 100
}

// undeliveredTasks reports whether the task has ended and its result was not delivered yet.
func undeliveredTasks(t perdure.Task) bool {
	return t.State.Terminal() && (t.Delivered == perdure.NotDelivered || t.Delivered == "")
}
