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
	ID            perdure.TaskID `json:"background_id"`
	Tool          string         `json:"tool"`
	AgeSeconds    float64        `json:"age_seconds"`              // since its start, or its creation while it has none
	ParkedSeconds *float64       `json:"parked_seconds,omitempty"` // since it left the foreground
	Done          bool           `json:"done"`
	Status        status         `json:"status"`
}

// list is the answer to list=true: what lives, then what has ended and was not read yet. It reads nothing off.
func list(ctx context.Context, env tool.Env) tool.Result {
	tasks, err := env.Tasks.List(ctx)
	if err != nil {
		return failed(ctx, err)
	}
	now := env.Clock()
	live, over := []listed{}, []listed{}
	atWork := 0
	for _, t := range tasks {
		switch {
		case t.Lane == perdure.Foreground:
		case t.State.Live():
			live = append(live, entry(t, now))
			if t.Kind != perdure.KindMonitor { // a schedule, which runs nothing itself
				atWork++
			}
		case undelivered(t):
			over = append(over, entry(t, now))
		}
	}
	message := "No active background tasks."
	if atWork > 0 {
		message = fmt.Sprintf("%d active background task(s).", atWork)
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

// seconds rounds to two decimals. A clock that went back is no time at all.
func seconds(d time.Duration) float64 {
	return math.Round(max(d, 0).Seconds()*100) / 100
}

// undelivered reports whether nobody has taken the task's end yet.
func undelivered(t perdure.Task) bool {
	return t.State.Terminal() && (t.Delivered == perdure.NotDelivered || t.Delivered == "")
}
