package background_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// asking is task one with a question of a kind.
func asking(kind string) perdure.Task {
	t := task(1, perdure.TaskAwaitingInput)
	t.InputRequest = &perdure.InputRequest{ID: "req_1", Kind: kind, Prompt: "Which?"}
	return t
}

// subagent is task one of a child session.
func subagent() perdure.Task {
	t := task(1, perdure.TaskRunning)
	t.Kind, t.Links.ChildSession = perdure.KindSubagent, "session_c"
	return t
}

// unborn is task one of a child session that is not there yet.
func unborn() perdure.Task {
	t := subagent()
	t.Links.ChildSession = ""
	return t
}

func TestMessageTask(t *testing.T) {
	t.Parallel()
	const ok = `{"message_id":"tmsg_1","task_id":"` + one + `"}`
	over := task(1, perdure.TaskSucceeded)
	for _, c := range []struct {
		name string
		task perdure.Task
		more string
		want string
		sent *perdure.TaskMessage
	}{
		{"text", task(1, perdure.TaskRunning), `"text":"hi"`, ok, &perdure.TaskMessage{Text: "hi"}},
		{"data", task(1, perdure.TaskQueued), `"data":{"n":1}`, ok, &perdure.TaskMessage{Data: []byte(`{"n":1}`)}},
		{"text beside null", task(1, perdure.TaskRunning), `"text":"hi","data":null`, ok, &perdure.TaskMessage{Text: "hi"}},
		{"an answer", asking("question"), `"text":"this","in_reply_to":"req_1"`, ok, &perdure.TaskMessage{Text: "this", InReplyTo: "req_1"}},
		{"an answer of a subagent's", subagent(), `"data":true,"in_reply_to":"req_1"`, ok, &perdure.TaskMessage{Data: []byte("true"), InReplyTo: "req_1"}},
		{"no answer", asking("question"), `"text":"hi"`,
			`{"message_id":"tmsg_1","task_id":"` + one + `","message":"The question req_1 stays open: answer it with in_reply_to."}`, &perdure.TaskMessage{Text: "hi"}},
		{"to one that has ended: the port knows whether it was sent before", over, `"text":"hi"`, ok, &perdure.TaskMessage{Text: "hi"}},
		{"nothing", task(1, perdure.TaskRunning), `"in_reply_to":"req_1"`, errorBody("message_task needs exactly one of text and data."), nil},
		{"null", task(1, perdure.TaskRunning), `"data":null`, errorBody("message_task needs exactly one of text and data."), nil},
		{"too much", task(1, perdure.TaskRunning), `"text":"a","data":1`, errorBody("message_task needs exactly one of text and data."), nil},
		{"an approval", asking("approval"), `"data":true,"in_reply_to":"req_1"`,
			errorBody("Only a person can give an approval, never the agent that requested it. Wait, or continue with other work."), nil},
		{"to a subagent", subagent(), `"text":"hi"`, ok, &perdure.TaskMessage{Text: "hi"}},
		{"to a subagent that has not begun", unborn(), `"text":"hi"`,
			errorBody("The subagent has not started yet and cannot receive messages. Try again later."), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			post := &mail{}
			e := env(newRegistry(c.task), nil)
			e.TaskMessenger = post

			got, r := run(t, e, "message_task", `{"task_id":"`+runID+`",`+c.more+`}`)

			wantJSON(t, got, c.want)
			wantRead(t, r)
			var want []perdure.TaskMessage
			if c.sent != nil {
				c.sent.Task = one
				want = []perdure.TaskMessage{*c.sent}
			}
			if diff := cmp.Diff(post.sent, want); diff != "" {
				t.Fatalf("sent: got -, want +:\n%s", diff)
			}
		})
	}
}

func TestMessageTaskErrors(t *testing.T) {
	t.Parallel()
	ended, reply := task(1, perdure.TaskCanceled), `,"in_reply_to":"req_1"`
	for _, c := range []struct {
		name string
		err  error
		task perdure.Task
		more string
		want string
	}{
		{"ended", perdure.Conflict, ended, "", "already settled"},
		{"ended meanwhile", perdure.Conflict, task(1, perdure.TaskRunning), "", "already settled"},
		{"ended before the answer", perdure.Conflict, ended, reply, "already settled"},
		{"answered", perdure.Conflict, task(1, perdure.TaskRunning), reply, "already answered"},
		{"no answer to this", fmt.Errorf("%w: /n is required", perdure.Invalid), asking("question"), reply,
			"The answer does not match what the task asked for, so the question stays open: invalid: /n is required"},
		{"gone", perdure.NotFound, task(1, perdure.TaskRunning), "", "task not found: " + one},
		{"internal", errors.New("disk on fire"), task(1, perdure.TaskRunning), "", perdure.GenericToolError},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := env(newRegistry(c.task), nil)
			e.TaskMessenger = &mail{err: fmt.Errorf("send: %w", c.err)}

			got, _ := run(t, e, "message_task", `{"task_id":"`+one+`","text":"hi"`+c.more+`}`)

			wantJSON(t, got, errorBody(c.want))
		})
	}
}

func TestMessageTaskNeedsItsPorts(t *testing.T) {
	t.Parallel()
	mute, deaf := env(newRegistry(task(1, perdure.TaskRunning)), nil), env(nil, nil)
	deaf.TaskMessenger = &mail{}
	for _, e := range []tool.Env{mute, deaf} {
		got, _ := run(t, e, "message_task", `{"task_id":"`+one+`","text":"hi"}`)
		wantJSON(t, got, errorBody("Session task registry not available in this context. message_task requires task tracking."))
	}
	mute.TaskMessenger = &mail{}
	got, _ := run(t, mute, "message_task", `{"task_id":"task_x","text":"hi"}`)
	wantJSON(t, got, errorBody("task not found: task_x"))
	for _, more := range []string{`"text":""`, `"text":null`, `"to":"x"`} {
		if got, r := run(t, mute, "message_task", `{"task_id":"`+one+`",`+more+`}`); !r.Refused || !strings.Contains(got, "Invalid arguments for message_task") {
			t.Errorf("%s: got %s, want a refusal", more, got)
		}
	}
}

func TestMessageTaskDryRun(t *testing.T) {
	t.Parallel()
	for state, want := range map[perdure.TaskState]string{
		perdure.TaskRunning: `{"task_id":"` + one + `","message":"[dry-run] Would send a message to the task for 'slow_tool'."}`,
		perdure.TaskFailed:  errorBody("already settled"),
	} {
		post := &mail{}
		e := env(newRegistry(task(1, state)), nil)
		e.TaskMessenger, e.DryRun = post, true

		got, _ := run(t, e, "message_task", `{"task_id":"`+one+`","text":"hi"}`)

		wantJSON(t, got, want)
		if len(post.sent) != 0 {
			t.Errorf("got %v sent in a dry run", post.sent)
		}
	}
}
