package remote_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/remote"
)

// TestEngineOverHTTP is the suite through a Unix socket: an engine keeps the same promises over
// HTTP as in the process, and a client outlives its servers.
func TestEngineOverHTTP(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, func(t *testing.T, s enginetest.Setup) enginetest.World { return newWorld(t, s, "") })
}

// TestNothingIsLost compares the results of an engine in its process with those that come through
// the wire.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	w := newWorld(t, enginetest.Setup{Script: `
rules:
  - when: {not_called: spawn_background}
    text: "<b>ä & 😀</b>"
    calls: [{name: spawn_background, args: {tool: bg_talk, args: {}}}, {name: echo, args: {text: "<a> & \u2028"}}, {name: charge, args: {text: c}}, {name: fail, args: {}}]
steps: [{text: done, repeat: true}]
`}, "")
	far, id := begin(t, ctx, w)
	message := perdure.Text("go <now> & 😀")
	message.Parts = append(message.Parts, perdure.Part{Type: perdure.PartImage, Image: &perdure.Image{Base64: "iVBORw0KGgo=", MediaType: "image/png"}})
	if _, err := far.Send(ctx, id, message); err != nil {
		t.Fatal(err)
	}
	w.Release("bg_talk")
	if err := far.Sessions().WaitIdle(ctx, id); err != nil {
		t.Fatal(err)
	}
	tasks, err := w.local.Tasks().List(ctx, id)
	if err != nil || len(tasks) != 1 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	task := tasks[0].ID

	fences := cmp.Options{
		cmpopts.IgnoreFields(perdure.Call{}, "Token", "Epoch", "Worker"), cmpopts.IgnoreFields(perdure.Task{}, "Worker"), cmpopts.EquateComparable(),
	}
	for name, ask := range map[string]func(engine.Engine) (any, error){
		"session":  func(e engine.Engine) (any, error) { return e.Sessions().Get(ctx, id) },
		"sessions": func(e engine.Engine) (any, error) { return e.Sessions().List(ctx, 0) },
		"events":   func(e engine.Engine) (any, error) { return encoded(e.Events(ctx, id, 0, 0)) },
		"some":     func(e engine.Engine) (any, error) { return encoded(e.Events(ctx, id, 3, 4)) },
		"none":     func(e engine.Engine) (any, error) { return encoded(e.Events(ctx, id, 10_000, 0)) },
		"followed": func(e engine.Engine) (any, error) { return encoded(followed(ctx, e, id)) },
		"calls":    func(e engine.Engine) (any, error) { return e.Calls().List(ctx, id) },
		"task":     func(e engine.Engine) (any, error) { return e.Tasks().Get(ctx, task) },
		"waited":   func(e engine.Engine) (any, error) { return e.Tasks().Wait(ctx, task) },
		"tasks":    func(e engine.Engine) (any, error) { return e.Tasks().List(ctx, "") },
		"no tasks": func(e engine.Engine) (any, error) { return e.Tasks().List(ctx, sessionID) },
		"log":      func(e engine.Engine) (any, error) { return e.Tasks().Log(ctx, task, 0, 1<<30) },
		"middle":   func(e engine.Engine) (any, error) { return e.Tasks().Log(ctx, task, 10, 100) },
		"tail":     func(e engine.Engine) (any, error) { return e.Tasks().Log(ctx, task, -20, 1000) },
		"no log":   func(e engine.Engine) (any, error) { return e.Tasks().Log(ctx, task, 10, 0) },
		"tools":    func(e engine.Engine) (any, error) { return e.Tools().List(ctx) },
		"called":   func(e engine.Engine) (any, error) { return e.Tools().Call(ctx, "echo", []byte(`{"text":"<a>"}`)) },
		"failed":   func(e engine.Engine) (any, error) { return e.Tools().Call(ctx, "fail", []byte(`{}`)) },
		"refused":  func(e engine.Engine) (any, error) { return e.Tools().Call(ctx, "echo", []byte(`{"text":5}`)) },
	} {
		near, nearErr := ask(w.local)
		got, err := ask(far)
		if diff := cmp.Diff(near, got, fences); diff != "" || err != nil || nearErr != nil {
			t.Errorf("%s: %v, %v\n%s", name, nearErr, err, diff)
		}
	}
}

// encoded writes events in their stored form, with everything but the workers, which are fences.
func encoded(events []perdure.Event, err error) ([]string, error) {
	worker := regexp.MustCompile(`,"worker_id":"worker_[0-9a-f]{32}"`)
	var all []string
	for _, e := range events {
		text, fault := perdure.EncodeEvent(e)
		all, err = append(all, worker.ReplaceAllString(string(text), "")), errors.Join(err, fault)
	}
	return all, err
}

// followed follows an idle session to its end.
func followed(ctx context.Context, eng engine.Engine, id perdure.SessionID) (all []perdure.Event, err error) {
	session, err := eng.Sessions().Get(ctx, id)
	if err != nil {
		return nil, err
	}
	err = eng.Follow(ctx, id, 0, func(f engine.Frame) error {
		if f.Event == nil {
			return nil
		}
		if all = append(all, *f.Event); f.Event.Seq == session.LastSeq {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return all, nil
	}
	return all, err
}

// TestOverTCP: the same over TCP, where a token grants access and names the actor.
func TestOverTCP(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	w := newWorld(t, enginetest.Setup{Script: `
rules:
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bg_hold, args: {}}}]
steps: [{text: done, repeat: true}]
`}, "secret")
	eng, id := begin(t, ctx, w)
	if _, err := eng.Send(ctx, id, perdure.Text("go")); err != nil {
		t.Fatal(err)
	}
	w.Entered(t, "bg_hold", 1)
	tasks, err := eng.Tasks().List(ctx, id)
	if err != nil || len(tasks) != 1 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}

	w.Kill(t)
	w.start(t)
	w.Entered(t, "bg_hold", 2)
	_, err = eng.Tasks().Cancel(ctx, tasks[0].ID, "user", "enough")
	task, waitErr := eng.Tasks().Wait(ctx, tasks[0].ID)

	if err != nil || waitErr != nil || task.State != perdure.TaskCanceled || task.CancelBy != "api" || task.CancelWhy != "enough" {
		t.Errorf("got %+v, %v, %v", task, err, waitErr)
	}
	stranger, err := remote.New(remote.Config{URL: "http://" + w.addr, Token: "guessed"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stranger.Close)
	p := (*remote.Problem)(nil)
	if _, err := stranger.Sessions().List(ctx, 0); !errors.As(err, &p) || p.Status != http.StatusUnauthorized || !errors.Is(err, perdure.Invalid) {
		t.Errorf("a wrong token: got %v", err)
	}
}

// TestConfig: an error says what is wrong with a configuration, and what to do.
func TestConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg  remote.Config
		want string
	}{
		"nothing":        {remote.Config{}, "URL is empty"},
		"a path":         {remote.Config{URL: "/run/perdure.sock"}, "unix:///PATH"},
		"a relative one": {remote.Config{URL: "unix://perdure.sock"}, "not an absolute path"},
		"a token too":    {remote.Config{URL: "unix:///run/s", Token: "t"}, "takes no token"},
		"an actor":       {remote.Config{URL: "http://127.0.0.1:1", Actor: "user"}, "leave it empty"},
		"another actor":  {remote.Config{URL: "unix:///run/s", Actor: "root"}, "user or operator"},
		"two lines":      {remote.Config{URL: "http://127.0.0.1:1", Token: "a\r\nX: b"}, "copy it again"},
		"a scheme":       {remote.Config{URL: "ftp://127.0.0.1:1"}, "http://HOST:PORT"},
		"a password":     {remote.Config{URL: "http://u:p@127.0.0.1:1"}, "user or a password"},
		"a query":        {remote.Config{URL: "http://127.0.0.1:1/?token=x"}, "must not have a query"},
	} {
		eng, err := remote.New(c.cfg)
		if eng != nil || !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestSendKeepsWhatItCannotCarry: content that the wire format cannot represent is refused, and
// never dropped.
func TestSendKeepsWhatItCannotCarry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		eng := inBubble(t, remote.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			asked++
			reply(w, 202, "{}")
		})
		for _, change := range []func(*perdure.Message){
			func(m *perdure.Message) {
				m.Metadata = map[string]string{"a": strings.Repeat("b", perdure.MaxMessageMetadataBytes)}
			},
			func(m *perdure.Message) { m.Thinking = "x" },
			func(m *perdure.Message) { m.Signature = "x" }, func(m *perdure.Message) { m.Interrupted = true }, func(m *perdure.Message) { m.Role = perdure.RoleAgent },
		} {
			m := perdure.Text("x")
			change(&m)
			if _, err := eng.Send(t.Context(), sessionID, m); !errors.Is(err, perdure.Invalid) {
				t.Errorf("%+v: got %v, want Invalid", m, err)
			}
		}
		if asked != 0 {
			t.Errorf("%d requests", asked)
		}
	})
}

// TestAnswerKeepsWhatItCannotCarry: likewise for the result of a call; representable content
// arrives unchanged.
func TestAnswerKeepsWhatItCannotCarry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		eng := inBubble(t, remote.Config{}, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			asked = append(asked, strings.TrimSpace(string(body)))
			reply(w, 200, "{}")
		})
		key, output := perdure.CallKey{Session: sessionID, Call: "c"}, "raw"
		for _, result := range []perdure.ToolResult{
			perdure.Refused("c", perdure.ErrorTool, "x"), perdure.Failed("c", perdure.ErrorTimeout, "x"), {Error: "x", NeverStarted: true}, {ErrorKind: perdure.ErrorTool},
			{Result: []byte("1"), ConnectionRequired: "github"}, {Result: []byte("1"), Images: []perdure.Image{{}}}, {Result: []byte("1"), RawOutput: &output},
		} {
			if err := eng.Calls().Answer(t.Context(), key, "user", result); !errors.Is(err, perdure.Invalid) {
				t.Errorf("%+v: got %v, want Invalid", result, err)
			}
		}
		for _, result := range []perdure.ToolResult{{Result: []byte(`{"a":"<b>"}`)}, perdure.Failed("c", perdure.ErrorTool, "x"), {Error: "x", ReadTasks: []perdure.TaskID{taskID}}} {
			if err := eng.Calls().Answer(t.Context(), key, "user", result); err != nil {
				t.Error(err)
			}
		}
		if want := []string{`{"result":{"a":"<b>"}}`, `{"error":"x"}`, `{"error":"x"}`}; !slices.Equal(asked, want) {
			t.Errorf("asked %q, want %q", asked, want)
		}
	})
}

// TestFollowLogGoesOn: every byte is delivered once, however the pieces are cut and the streams
// end.
func TestFollowLogGoesOn(t *testing.T) {
	t.Parallel()
	const text = "0123456789abcdef"
	chunk := func(from, to int) string {
		return fmt.Sprintf("id: %d\nevent: log\ndata: {\"offset\":%d,\"stream\":\"out\",\"attempt\":1,\"at\":\"2026-01-02T03:04:05Z\",\"bytes\":\"%s\"}\n\n",
			to, from, base64Of(text[from:to]))
	}
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		eng := inBubble(t, remote.Config{}, func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			if !strings.HasSuffix(r.URL.Path, "/log") {
				state := "running"
				if len(asked) > 3 {
					state = "succeeded"
				}
				if q.Get("wait") != "" {
					state = "succeeded"
				}
				reply(w, 200, `{"id":"`+string(taskID)+`","state":"`+state+`"}`)
				return
			}
			if r.Header.Get("Accept") != "text/event-stream" {
				reply(w, 200, fmt.Sprintf(`{"offset":%s,"next":%s,"end":16}`, q.Get("offset"), q.Get("offset")))
				return
			}
			asked = append(asked, q.Get("offset"))
			switch len(asked) {
			case 1:
				stream(w, chunk(2, 4)+chunk(4, 6)[:20])
			case 2: // twice, in part twice, and a gap
				stream(w, chunk(2, 4)+chunk(3, 7)+chunk(9, 10))
			case 3: // a server that drains
				stream(w, chunk(7, 9)+"event: end\ndata: {}\n\n")
			case 4:
				stream(w, chunk(8, 12)+"event: slow\ndata: {}\n\n")
			default:
				stream(w, chunk(12, 16)+"event: end\ndata: {}\n\n")
			}
		})
		var got strings.Builder
		err := eng.FollowLog(t.Context(), taskID, 2, func(c engine.Chunk) error {
			if int(c.Offset) != 2+got.Len() {
				t.Errorf("offset %d after %q", c.Offset, got.String())
			}
			got.Write(c.Bytes)
			return nil
		})

		if err != nil || got.String() != text[2:] {
			t.Errorf("got %q, %v", got.String(), err)
		}
		if want := []string{"2", "4", "7", "9", "12"}; !slices.Equal(asked, want) {
			t.Errorf("asked for %v, want %v", asked, want)
		}
		if err := eng.FollowLog(t.Context(), taskID, 0, func(engine.Chunk) error { return errEnough }); err == nil {
			t.Error("want an error: the server leaves out the beginning")
		}
	})
}
