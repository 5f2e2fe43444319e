package webhook_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/webhook"
)

// hook is a webhook that is one.
func hook(types ...string) webhook.Webhook {
	return webhook.Webhook{ID: "webhook_00000000000070008000000000000001", URL: "https://example.com/", Body: webhook.BodyID, Types: types, Enabled: true}
}

func TestWants(t *testing.T) {
	t.Parallel()
	task := func(s perdure.TaskState) perdure.Event {
		return perdure.Event{Fact: perdure.TaskUpdated{Task: perdure.Task{State: s}}}
	}
	for name, c := range map[string]struct {
		types []string
		event perdure.Event
		want  bool
	}{
		"all":                       {nil, perdure.Event{Fact: perdure.TurnCompleted{}}, true},
		"one type":                  {[]string{"turn.completed"}, perdure.Event{Fact: perdure.TurnCompleted{}}, true},
		"another":                   {[]string{"turn.failed"}, perdure.Event{Fact: perdure.TurnCompleted{}}, false},
		"the beginning":             {[]string{"approval.requested", "turn.*"}, perdure.Event{Fact: perdure.TurnCompleted{}}, true},
		"a task that ended":         {[]string{"task.*"}, task(perdure.TaskFailed), true},
		"a task that asks":          {[]string{"task.updated"}, task(perdure.TaskAwaitingInput), true},
		"a started task":            {[]string{"task.*"}, task(perdure.TaskRunning), false},
		"not an end":                {nil, perdure.Event{Fact: perdure.TurnStarted{}}, false},
		"a tool's event":            {[]string{"x.deploy.*"}, perdure.Event{Fact: perdure.ToolEvent{Tool: "deploy", Name: "image.pushed"}}, true},
		"all events of tools":       {[]string{"x.*"}, perdure.Event{Fact: perdure.ToolEvent{Tool: "deploy", Name: "done"}}, true},
		"another tool's event":      {[]string{"x.deploy.*"}, perdure.Event{Fact: perdure.ToolEvent{Tool: "deployer", Name: "done"}}, false},
		"a tool's event, unnamed":   {nil, perdure.Event{Fact: perdure.ToolEvent{Tool: "deploy", Name: "done"}}, false},
		"what somebody must answer": {nil, perdure.Event{Fact: perdure.ApprovalRequested{}}, true},
	} {
		if got := hook(c.types...).Wants(webhook.EventSession{}, c.event); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	off, other := hook(), hook()
	off.Enabled, other.Session = false, "session_00000000000070008000000000000001"
	if e := (perdure.Event{Session: "session_00000000000070008000000000000002", Fact: perdure.TurnCompleted{}}); off.Wants(webhook.EventSession{}, e) || other.Wants(webhook.EventSession{}, e) || hook().Wants(webhook.EventSession{Org: "acme"}, e) {
		t.Error("a disabled webhook, or one of another session or org, wants it")
	}
	labeled := hook()
	labeled.Labels = perdure.LabelFilter{"env=prod", "team"}
	for name, c := range map[string]struct {
		labels perdure.Labels
		want   bool
	}{
		"no labels": {nil, false}, "one of them": {perdure.Labels{"env": "prod"}, false}, "another value": {perdure.Labels{"env": "test", "team": "a"}, false},
		"both, and more": {perdure.Labels{"env": "prod", "team": "", "x": "y"}, true},
	} {
		if got := labeled.Wants(webhook.EventSession{Labels: c.labels}, perdure.Event{Fact: perdure.TurnCompleted{}}); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	other.Session = "session_00000000000070008000000000000002"
	if !other.Wants(webhook.EventSession{}, perdure.Event{Session: other.Session, Fact: perdure.TurnCompleted{}}) {
		t.Error("its own session's is not wanted")
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	if err := hook("task.*", "turn.completed", "x.*", "x.deploy.image.pushed").Check(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*webhook.Webhook){
		"id": func(w *webhook.Webhook) { w.ID = "" }, "url": func(w *webhook.Webhook) { w.URL = "https://" + strings.Repeat("a", webhook.MaxURLBytes) },
		"scheme": func(w *webhook.Webhook) { w.URL = "file:///etc/passwd" }, "user": func(w *webhook.Webhook) { w.URL = "https://u@example.com" },
		"type": func(w *webhook.Webhook) { w.Types = []string{"task*"} }, "no tool": func(w *webhook.Webhook) { w.Types = []string{"x."} }, "types": func(w *webhook.Webhook) { w.Types = make([]string, webhook.MaxTypes+1) },
		"body": func(w *webhook.Webhook) { w.Body = "" }, "session": func(w *webhook.Webhook) { w.Session = "x" },
	} {
		w := hook()
		spoil(&w)
		if err := w.Check(); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestDeliveryOfAnEventIsOne(t *testing.T) {
	t.Parallel()
	now := time.Now()
	e := perdure.Event{ID: "event_1", At: now, Session: "s", Seq: 3, Fact: perdure.TurnCompleted{}}
	one, again, other := webhook.NewDelivery("a", e, now), webhook.NewDelivery("a", e, now.Add(time.Hour)), webhook.NewDelivery("b", e, now)
	if one.ID != again.ID || one.ID == other.ID {
		t.Errorf("got %s, %s, %s", one.ID, again.ID, other.ID)
	}
	if _, err := perdure.ParseID[perdure.WebhookDeliveryID](string(one.ID)); err != nil {
		t.Error(err)
	}
}

func TestLogOfTries(t *testing.T) {
	t.Parallel()
	var d webhook.Delivery
	for i := range webhook.MaxLoggedAttempts + 3 {
		d = d.WithAttempt(webhook.Attempt{Status: i, Answer: strings.Repeat("ä", webhook.MaxAnswerBytes), Error: "x"})
	}
	last := d.AttemptLog[len(d.AttemptLog)-1]
	if len(d.AttemptLog) != webhook.MaxLoggedAttempts || d.AttemptLog[0].Status != 3 || len(last.Answer) != webhook.MaxAnswerBytes {
		t.Errorf("%d tries from %d on, with %d bytes", len(d.AttemptLog), d.AttemptLog[0].Status, len(last.Answer))
	}
}
