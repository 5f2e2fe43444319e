package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// TestSchedules makes one over HTTP, and refuses with a reason what can never be.
func TestSchedules(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := strings.TrimPrefix(r.session(), "/v1/sessions/")
	order := func(more string) string { return `{"session_id":"` + id + `",` + more + `}` }
	const message = `"action":{"message":"look"}`

	got := r.do(post("/v1/schedules", order(`"cron_expression":"30 2 * * *","timezone":"Europe/Berlin",`+message)))
	if got.status != 201 || !strings.HasPrefix(got.header.Get("Location"), "/v1/schedules/sched_") {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	path := got.header.Get("Location")
	made := want[shownSchedule](r, 200, get(path))
	if made.Owner != "api" || made.Type != "recurring" || made.Words != "at 02:30, every day, Europe/Berlin" || !made.Enabled {
		t.Errorf("got %+v", made)
	}
	next := want[taskInList[engine.NextFire]](r, 200, get(path+"/next?n=3")).Items
	if len(next) != 3 || !next[0].At.Equal(made.NextAt) {
		t.Errorf("got %+v of %+v", next, made)
	}
	for reason, c := range map[string]struct {
		status int
		body   string
	}{
		"does not fire in the next":   {422, order(`"cron_expression":"0 0 31 2 *",` + message)},
		"at least 5m0s must lie":      {422, order(`"cron_expression":"* * * * *",` + message)},
		"not include both":            {422, order(`"cron_expression":"@daily","scheduled_at":"2099-01-01T00:00:00Z",` + message)},
		"is in the past":              {422, order(`"scheduled_at":"2020-01-01T00:00:00Z",` + message)},
		"either a message or a tool":  {422, order(`"cron_expression":"@daily","action":{"message":"a","tool":"b"}`)},
		"Unknown tool: nothing":       {422, order(`"cron_expression":"@daily","action":{"tool":"nothing"}`)},
		"every":                       {400, order(`"every":"5m",` + message)},
		"session_0123":                {404, `{"session_id":"session_0123456789abcdef0123456789abcdef","cron_expression":"@daily",` + message + `}`},
		"belongs to another schedule": {409, order(`"id":"` + string(made.ID) + `","cron_expression":"@daily",` + message)},
	} {
		refused := r.do(post("/v1/schedules", c.body))
		if refused.status != c.status || !strings.Contains(string(refused.body), reason) {
			t.Errorf("%s: got %d %s, want %d and %q", c.body, refused.status, refused.body, c.status, reason)
		}
	}
	shown := want[struct {
		Words string            `json:"in_words"`
		Next  []engine.NextFire `json:"next"`
	}](r, 200, get("/v1/schedules:preview?cron_expression=30+2+*+*+*&timezone=Europe%2FBerlin&n=2"))
	if shown.Words != made.Words || len(shown.Next) != 2 || !shown.Next[0].At.Equal(made.NextAt) {
		t.Errorf("the preview is %+v, want that of %+v", shown, made)
	}
	never := r.do(get("/v1/schedules:preview?cron_expression=0+0+31+2+*"))
	if never.status != 422 || !strings.Contains(string(never.body), "does not fire in the next") {
		t.Errorf("a schedule that never fires: got %d %s", never.status, never.body)
	}
	for range 4 {
		want[shownSchedule](r, 201, post("/v1/schedules", order(`"cron_expression":"@daily",`+message)))
	}
	full := r.do(post("/v1/schedules", order(`"cron_expression":"@daily",`+message)))
	if full.status != 429 || !strings.Contains(string(full.body), "Maximum 5 active schedules per session.") {
		t.Errorf("the sixth: got %d %s", full.status, full.body)
	}
	r.refusal(r.do(get("/v1/schedules/sched_0123456789abcdef0123456789abcdef")), 404, "not_found")

	var seen []perdure.ScheduleID
	for cursor := ""; ; {
		page := want[taskInList[shownSchedule]](r, 200, get("/v1/schedules?limit=2&session="+id+cursor))
		for _, s := range page.Items {
			seen = append(seen, s.ID)
		}
		if page.Next == "" {
			break
		}
		cursor = "&cursor=" + page.Next
	}
	if len(seen) != 5 || seen[0] != made.ID {
		t.Errorf("the pages have %v", seen)
	}
}

// TestScheduleFires fires by hand and for the past, pages through what became of it, and answers
// the same key the same.
func TestScheduleFires(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	path := r.hourly()
	trigger := post(path+"/trigger", `{}`)
	trigger.header = map[string]string{"Idempotency-Key": "once"}
	first, again := want[perdure.Fire](r, 200, trigger), want[perdure.Fire](r, 200, trigger)
	if first.Message == "" || first.Outcome != perdure.Fired || first.Reason != "triggered by api" || !first.Nominal.Equal(again.Nominal) {
		t.Errorf("got %+v and %+v", first, again)
	}
	body := fmt.Sprintf(`{"from":%q,"to":%q}`, time.Now().Add(-5*time.Hour).UTC().Format(time.RFC3339), time.Now().Add(-time.Minute).UTC().Format(time.RFC3339))
	filled := want[taskInList[perdure.Fire]](r, 200, post(path+"/backfill", body)).Items
	if len(filled) < 4 || filled[0].Reason != "backfilled by api" {
		t.Errorf("got %+v", filled)
	}
	var nominal []time.Time
	for cursor := ""; ; {
		page := want[taskInList[perdure.Fire]](r, 200, get(path+"/fires?limit=2"+cursor))
		for _, f := range page.Items {
			if n := len(nominal); n > 0 && !f.Nominal.Before(nominal[n-1]) {
				t.Errorf("%s comes after %s", f.Nominal, nominal[n-1])
			}
			nominal = append(nominal, f.Nominal)
		}
		if page.Next == "" {
			break
		}
		cursor = "&cursor=" + page.Next
	}
	if len(nominal) != len(filled)+1 || !nominal[0].Equal(first.Nominal) {
		t.Errorf("the pages have %v", nominal)
	}
	paused := want[shownSchedule](r, 200, post(path+"/pause", `{"reason":"holidays"}`))
	resumed := want[shownSchedule](r, 200, post(path+"/resume", `{}`))
	if paused.Enabled || paused.Paused != "paused by api: holidays" || !resumed.Enabled {
		t.Errorf("got %+v and %+v", paused, resumed)
	}
	want[struct{}](r, 200, ask{method: "DELETE", path: path})
	r.refusal(r.do(get(path+"/fires")), 404, "not_found")
}
