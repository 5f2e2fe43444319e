package remote_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/remote"
)

// TestLanesOnTheWire: each operation on work is one request, with the caller's arguments and actor.
func TestLanesOnTheWire(t *testing.T) {
	t.Parallel()
	const approvalID = perdure.ApprovalID("appr_0123456789abcdef0123456789abcdef")
	key := perdure.CallKey{Session: sessionID, Call: "a/b"}
	session, task, approval := "/v1/sessions/"+string(sessionID), "/v1/tasks/"+string(taskID), "/v1/approvals/"+string(approvalID)
	for _, c := range []struct {
		do   func(context.Context, engine.Engine) error
		want string
	}{
		{func(ctx context.Context, e engine.Engine) error {
			_, err := e.Approvals().Decide(ctx, approvalID, perdure.Verdict{Approve: true, By: "operator", Note: "n", ArgsHash: "h", Args: []byte(`{"a":1}`)})
			return err
		}, `POST ` + approval + `/approve {"args_digest":"h","args":{"a":1},"note":"n"} operator`},
		{func(ctx context.Context, e engine.Engine) error {
			_, err := e.Approvals().Decide(ctx, approvalID, perdure.Verdict{By: "ann", ArgsHash: "h", Args: []byte(`{}`)})
			return err
		}, `POST ` + approval + `/deny {"args_digest":"h"} user`},
		{func(ctx context.Context, e engine.Engine) error {
			_, err := e.Approvals().Get(ctx, approvalID)
			return err
		}, `GET ` + approval + `  `},
		{func(ctx context.Context, e engine.Engine) error {
			_, err := e.Approvals().List(ctx, engine.ApprovalFilter{Session: sessionID, State: perdure.ApprovalOpen})
			return err
		}, `GET /v1/approvals?limit=200&session=` + string(sessionID) + `&state=open  `},
		{func(ctx context.Context, e engine.Engine) error {
			_, err := e.Calls().Detach(ctx, key, "user")
			return err
		}, `POST ` + session + `/calls/a%2Fb/detach {} user`},
		{func(ctx context.Context, e engine.Engine) error {
			return e.Calls().Answer(ctx, key, "user", perdure.ToolResult{Result: []byte("1")})
		}, `POST ` + session + `/calls/a%2Fb/result {"result":1} user`},
		{func(ctx context.Context, e engine.Engine) error {
			n, err := e.Tasks().CancelAll(ctx, sessionID, "operator", "enough")
			if n != 3 {
				t.Errorf("canceled %d", n)
			}
			return err
		}, `POST ` + session + `/tasks/cancel {"reason":"enough"} operator`},
		{func(ctx context.Context, e engine.Engine) error {
			_, err := e.Tasks().Drain(ctx, sessionID)
			return err
		}, `POST ` + session + `/tasks/drain {} user`},
		{func(ctx context.Context, e engine.Engine) error {
			_, err := e.Tasks().SetDelivery(ctx, taskID, perdure.Manual, "")
			return err
		}, `POST ` + task + `/delivery {"delivery":"manual"} user`},
		{func(ctx context.Context, e engine.Engine) error {
			_, err := e.Tasks().Send(ctx, taskID, perdure.TaskMessage{ID: "tmsg_1", Data: []byte(`"<a>"`), InReplyTo: "req_1", By: "operator"})
			return err
		}, `POST ` + task + `/messages {"data":"<a>","in_reply_to":"req_1","id":"tmsg_1"} operator`},
		{func(ctx context.Context, e engine.Engine) error {
			_, err := e.Tasks().Messages(ctx, taskID, "tmsg_1", 7)
			return err
		}, `GET ` + task + `/messages?after=tmsg_1&limit=7  `},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got string
			eng := inBubble(t, remote.Config{}, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = strings.Join([]string{r.Method, r.URL.RequestURI(), strings.TrimSpace(string(body)), r.Header.Get("Perdure-Actor")}, " ")
				reply(w, 200, `{"canceled":3}`)
			})

			err := c.do(t.Context(), eng)

			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

// TestSendTaskIsOneMessage: a message without an id gets one before the first attempt.
func TestSendTaskIsOneMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var bodies []string
		eng := inBubble(t, remote.Config{}, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if bodies = append(bodies, string(body)); len(bodies) < 3 {
				cut(w)
				return
			}
			reply(w, 200, `{"message_id":"tmsg_1"}`)
		})

		id, err := eng.Tasks().Send(t.Context(), taskID, perdure.TaskMessage{Text: "a"})

		if id != "tmsg_1" || err != nil || len(bodies) != 3 || len(slices.Compact(bodies)) != 1 || !strings.Contains(bodies[0], `"id":"tmsg_`) {
			t.Errorf("got %s, %v, sent %q", id, err, bodies)
		}
	})
}

// TestMessagesByPages: the messages of a task are read to their end, or up to a limit.
func TestMessagesByPages(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	w := newWorld(t, enginetest.Setup{Script: `
rules:
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: ask, args: {}}}]
steps: [{text: done, repeat: true}]
`}, "")
	far, id := begin(t, ctx, w)
	if _, err := far.Send(ctx, id, perdure.Text("go")); err != nil {
		t.Fatal(err)
	}
	w.Entered(t, "ask", 1)
	tasks, err := far.Tasks().List(ctx, id)
	if err != nil || len(tasks) != 1 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	task, err := far.Tasks().Wait(ctx, tasks[0].ID)
	if err != nil || task.State != perdure.TaskAwaitingInput {
		t.Fatalf("got %+v, %v", task, err)
	}
	if s, err := far.Sessions().Get(ctx, id); err != nil || s.NeedsYou != 1 {
		t.Errorf("needs you: %d, %v", s.NeedsYou, err)
	}
	for range 250 {
		if _, err := far.Tasks().Send(ctx, task.ID, perdure.TaskMessage{Text: "a", By: "user"}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := w.local.Tasks().Messages(ctx, task.ID, "", 0)
	if err != nil || len(all) < 250 {
		t.Fatalf("%d messages, %v", len(all), err)
	}

	for _, c := range []struct{ after, limit int }{{-1, 0}, {-1, 3}, {-1, 230}, {10, 0}, {len(all) - 1, 0}} {
		after := perdure.TaskMessageID("")
		if c.after >= 0 {
			after = all[c.after].ID
		}
		near, nearErr := w.local.Tasks().Messages(ctx, task.ID, after, c.limit)
		got, err := far.Tasks().Messages(ctx, task.ID, after, c.limit)
		if diff := cmp.Diff(near, got); len(near)+len(got) > 0 && diff != "" || err != nil || nearErr != nil {
			t.Errorf("%+v: %v, %v\n%s", c, nearErr, err, diff)
		}
	}
	if _, err := far.Tasks().Messages(ctx, "task_0123456789abcdef0123456789abcdee", "", 0); !errors.Is(err, perdure.NotFound) {
		t.Errorf("an unknown task: %v", err)
	}
	w.Release("ask_after")
}
