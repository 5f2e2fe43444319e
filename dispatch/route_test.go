package dispatch_test

import (
	"testing"
	"testing/quick"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/tool"
)

// TestRouteCall is the table of LN2 and DL6 (PR5).
func TestRouteCall(t *testing.T) {
	t.Parallel()
	const (
		front = perdure.Foreground
		back  = perdure.Background
		d     = 30 * time.Second
	)
	spawned := dispatch.Routing{Lane: back, Origin: perdure.OriginSpawned, Wake: perdure.WakeContinue}
	routed := dispatch.Routing{Lane: back, Origin: perdure.OriginRouted, Wake: perdure.WakeNotify}
	stays := dispatch.Routing{Lane: front, Origin: perdure.OriginDetached, Wake: perdure.WakeNotify}
	detaches := func(soft time.Duration, wake perdure.Wake) dispatch.Routing {
		return dispatch.Routing{Lane: front, Soft: soft, Origin: perdure.OriginDetached, Wake: wake}
	}
	for _, row := range []struct {
		name    string
		spawned bool
		host    dispatch.Route
		budget  time.Duration
		want    dispatch.Routing
	}{
		{"spawned", true, dispatch.Route{}, 0, spawned},
		{"spawn_beats_the_host", true, dispatch.InForeground(), d, spawned},
		{"spawn_beats_never", true, dispatch.Route{}, tool.Never, spawned},
		{"host_foreground_beats_the_budget", false, dispatch.InForeground(), d, stays},
		{"host_background", false, dispatch.InBackground(), d, routed},
		{"host_background_beats_never", false, dispatch.InBackground(), tool.Never, routed},
		{"detach_after", false, dispatch.DetachAfter(d), time.Hour, detaches(d, perdure.WakeContinue)},
		{"detach_after_beats_never", false, dispatch.DetachAfter(d), tool.Never, detaches(d, perdure.WakeContinue)},
		{"detach_after_0", false, dispatch.DetachAfter(0), d, routed},
		{"budget", false, dispatch.Route{}, d, detaches(d, perdure.WakeContinue)},
		{"budget_0_is_the_default", false, dispatch.Route{}, 0, detaches(tool.DefaultSoftBudget, perdure.WakeContinue)},
		{"budget_never", false, dispatch.Route{}, tool.Never, detaches(0, perdure.WakeContinue)},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if got := dispatch.RouteCall(row.spawned, row.host, row.budget); got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
}

// TestRouteCallIsTotal wants a lane and a budget that makes sense for every input, the same each
// time (PR5).
func TestRouteCallIsTotal(t *testing.T) {
	t.Parallel()
	law := func(spawned bool, kind uint8, after, budget int64) bool {
		host := []dispatch.Route{{}, dispatch.InForeground(), dispatch.InBackground(), dispatch.DetachAfter(time.Duration(after))}[kind%4]
		got := dispatch.RouteCall(spawned, host, time.Duration(budget))
		again := dispatch.RouteCall(spawned, host, time.Duration(budget))
		inLane := got.Lane == perdure.Foreground || got.Lane == perdure.Background && got.Soft == 0
		return got == again && inLane && got.Soft >= 0 && got.Origin != "" && got.Wake != "" && (!spawned || got.Lane == perdure.Background)
	}
	if err := quick.Check(law, &quick.Config{MaxCount: 10_000}); err != nil {
		t.Error(err)
	}
}

func TestPlaceholderOfWholeSeconds(t *testing.T) { // LN6
	t.Parallel()
	got := dispatch.BudgetPlaceholder("sleep", "task_1", 600*time.Second, time.Time{}).Result("call-1")
	want := `{"type":"background","tool":"sleep","timeout_seconds":600,"background_id":"task_1","task_id":"task_1",` +
		`"message":"Still running after 600s — use check_background_tool to wait longer or cancel."}`
	if string(got.Result) != want || got.IsError() || got.CallID != "call-1" {
		t.Errorf("got  %s\nwant %s", got.Result, want)
	}
}
