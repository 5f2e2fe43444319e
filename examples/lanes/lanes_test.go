package lanes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/examples/lanes"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/tooltest"
)

// patience bounds every wait.
const patience = 2 * time.Minute

// stage is a session whose agent calls one tool once.
type stage struct {
	*local.Engine
	t   *testing.T
	ctx context.Context
	id  perdure.SessionID
}

// plot describes a stage.
type plot struct {
	cfg   local.Config
	agent perdure.Agent
	tool  tool.Tool
	args  string // YAML
}

// play starts a session whose agent calls the tool and repeats its result.
func play(t *testing.T, p plot) *stage {
	t.Helper()
	script := fmt.Sprintf("rules:\n  - when: {last_role: notification}\n    text: \"delivered: {{note}}\"\nsteps:\n  - calls: [{name: %s, args: %s}]\n  - text: \"{{last}}\"\n    repeat: true\n", p.tool.Spec().Name, p.args)
	model, err := scripted.Parse("play", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	st := memory.New(memory.Config{})
	cfg := p.cfg
	cfg.Store, cfg.Model, cfg.Tools, cfg.Timing.Drain = st, model, tool.NewRegistry(p.tool), -1
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	eng, err := local.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(work) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, st.Close()); err != nil {
			t.Error(err)
		}
		cancel()
	})
	session, err := eng.Sessions().Create(ctx, p.agent)
	if err == nil {
		_, err = eng.Send(ctx, session.ID, perdure.Text("go"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return &stage{Engine: eng, t: t, ctx: ctx, id: session.ID}
}

// until waits for a fact of a kind.
func until[F perdure.Fact](s *stage, n int) (fact F) {
	s.t.Helper()
	found := errors.New("found")
	err := s.Follow(s.ctx, s.id, 0, func(f engine.Frame) error {
		if f.Event == nil {
			return nil
		}
		match, ok := f.Event.Fact.(F)
		if ok {
			fact, n = match, n-1
		}
		if ok && n == 0 {
			return found
		}
		return nil
	})
	if !errors.Is(err, found) {
		s.t.Fatalf("there is no %s: %v", fact.EventType(), err)
	}
	return fact
}

// said waits until the session is idle and returns the agent's last answer.
func (s *stage) said() string {
	s.t.Helper()
	if err := s.Sessions().WaitIdle(s.ctx, s.id); err != nil {
		s.t.Fatal(err)
	}
	events, err := s.Events(s.ctx, s.id, 0, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	text := ""
	for _, e := range events {
		if f, ok := e.Fact.(perdure.TurnCompleted); ok {
			text = f.FinalPreview
		}
	}
	return text
}

// decide answers the nth approval.
func (s *stage) decide(n int, v perdure.Verdict) perdure.Approval {
	s.t.Helper()
	asked := until[perdure.ApprovalRequested](s, n).Approval
	v.By = "user"
	if _, err := s.Approvals().Decide(s.ctx, asked.ID, v); err != nil {
		s.t.Fatal(err)
	}
	return asked
}

func TestImportMailLeavesItsTurn(t *testing.T) {
	t.Parallel()
	mail := make(chan string) // each message is taken before the next is offered
	s := play(t, plot{tool: lanes.ImportMail(mail), args: "{folder: Work}"})
	mail <- "1"
	key := perdure.CallKey{Session: s.id, Call: until[perdure.ToolStarted](s, 1).CallID}
	task, err := s.Calls().Detach(s.ctx, key, "user")
	if err != nil {
		t.Fatal(err)
	}
	placeholder := until[perdure.TurnCompleted](s, 1).FinalPreview
	mail <- "2"
	close(mail)
	last := s.said()

	log, err := s.Tasks().Log(s.ctx, task.ID, int64(len("Work 1\n")), 100)
	if err != nil || len(log.Chunks) != 1 || string(log.Chunks[0].Bytes) != "Work 2\n" || log.End != 14 {
		t.Errorf("the log has %+v, %v", log, err)
	}
	if !strings.Contains(placeholder, `"reason":"routed"`) || !strings.Contains(last, `- result: {"imported":2}`) {
		t.Errorf("first %q, then %q", placeholder, last)
	}
}

func TestRoute(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]dispatch.Routing{
		"import_mail":   {Lane: perdure.Foreground, Soft: 2 * time.Second, Origin: perdure.OriginDetached, Wake: perdure.WakeContinue},
		"render":        {Lane: perdure.Background, Origin: perdure.OriginRouted, Wake: perdure.WakeNotify},
		"delete_folder": {Lane: perdure.Foreground, Origin: perdure.OriginDetached, Wake: perdure.WakeNotify},
		"book_room":     {Lane: perdure.Foreground, Soft: time.Minute, Origin: perdure.OriginDetached, Wake: perdure.WakeContinue},
	} {
		if got := dispatch.RouteCall(false, lanes.Route(tool.Call{Tool: name}), time.Minute); got != want {
			t.Errorf("%s goes to %+v, want %+v", name, got, want)
		}
	}
}

// sent collects the mail that was sent.
type sent struct {
	mu   sync.Mutex
	mail []string // guarded by mu
}

func (s *sent) send(_, to, text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mail = append(s.mail, to+": "+text)
	return nil
}

func TestSendMailAsks(t *testing.T) {
	t.Parallel()
	yes, no := perdure.Verdict{Approve: true}, perdure.Verdict{Note: "not today"}
	patched := perdure.Verdict{Approve: true, Args: json.RawMessage(`{"to":"b@x","text":"bye"}`)}
	for name, c := range map[string]struct {
		hooks   []tool.Hook
		verdict perdure.Verdict
		asked   string
		want    []string
	}{
		"yes":     {nil, yes, `{"text":"hi","to":"a@x"}`, []string{"a@x: hi"}},
		"no":      {nil, no, `{"text":"hi","to":"a@x"}`, nil},
		"patched": {nil, patched, `{"text":"hi","to":"a@x"}`, []string{"b@x: bye"}},
		"staging": {[]tool.Hook{lanes.Staging{To: "test@x"}}, yes, `{"to":"test@x","text":"hi"}`, []string{"test@x: hi"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out sent
			s := play(t, plot{cfg: local.Config{Policies: local.Policies{Hooks: c.hooks}}, tool: lanes.SendMail(out.send), args: "{to: a@x, text: hi}"})
			asked := s.decide(1, c.verdict)
			s.said()

			if string(asked.Args) != c.asked || !slices.Equal(out.mail, c.want) {
				t.Errorf("asked about %s; sent %q, want %q", asked.Args, out.mail, c.want)
			}
		})
	}
}

func TestDeleteFolderIsJudged(t *testing.T) {
	t.Parallel()
	for folder, c := range map[string]struct {
		asks bool
		want string
	}{
		"Trash":    {false, `{"deleted":"Trash"}`},
		"Archive1": {false, `{"error":"Permission denied: the archive must not be deleted"}`},
		"Work":     {true, `{"deleted":"Work"}`},
	} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			target := lanes.DeleteFolder(func(string) error { return nil })
			s := play(t, plot{cfg: local.Config{Policies: local.Policies{Permit: lanes.Permit}}, tool: target, args: "{folder: " + folder + "}"})
			if c.asks {
				if a := s.decide(1, perdure.Verdict{Approve: true}); a.Reason != "all mail in it will be deleted" || a.Permissions[0].Target != folder {
					t.Errorf("asked %+v", a)
				}
			}
			if got := s.said(); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestBookRoomAsksInTheMiddle(t *testing.T) {
	t.Parallel()
	for name, approve := range map[string]bool{"yes": true, "no": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			booked := make(chan string, 1)
			target := lanes.BookRoom(func(_, _, room string) error { booked <- room; return nil })
			s := play(t, plot{cfg: local.Config{Policies: local.Policies{Route: lanes.Route}}, tool: target, args: "{day: Monday}"})
			question := until[perdure.TaskMessageSent](s, 1).Message
			task, err := s.Tasks().Get(s.ctx, question.Task)
			if err != nil || question.Text != "Red and Blue are free on Monday. Which one?" {
				t.Fatalf("asked %q, %v", question.Text, err)
			}
			answer := func(data string) error {
				_, err := s.Tasks().Send(s.ctx, task.ID, perdure.TaskMessage{Data: json.RawMessage(data), InReplyTo: task.InputRequest.ID, By: "user"})
				return err
			}
			if err := answer(`{"room":"Green"}`); !errors.Is(err, perdure.Invalid) {
				t.Errorf("an answer that does not fit: %v, want Invalid", err)
			}
			if err := answer(`{"room":"Blue"}`); err != nil {
				t.Fatal(err)
			}
			s.decide(1, perdure.Verdict{Approve: approve})

			want := `Nothing is booked.`
			if approve {
				want = `- result: {"room":"Blue","by":"user"}`
			}
			delivered := until[perdure.TaskDelivered](s, 1).Message.Text()
			if s.said(); !strings.Contains(delivered, want) || len(booked) == 1 != approve {
				t.Errorf("got %q, %d booked", delivered, len(booked))
			}
		})
	}
}

func TestPickFileIsAnsweredByTheClient(t *testing.T) {
	t.Parallel()
	s := play(t, plot{agent: perdure.Agent{ClientTools: true}, tool: lanes.PickFile(), args: "{title: Which report}"})
	ctx, stop := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- lanes.AnswerCalls(ctx, s, s.id, func(args json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"asked":` + string(args) + `,"file":"a.pdf"}`), nil
		})
	}()
	got := s.said()
	stop()

	if err := <-ended; !errors.Is(err, context.Canceled) || got != `{"asked":{"title":"Which report"},"file":"a.pdf"}` {
		t.Errorf("got %s, %v", got, err)
	}
}

// farm holds a job until it is stopped.
type farm struct {
	begun, stopped chan string
}

func (f farm) Render(key, _ string) (string, error) {
	f.begun <- key
	return "", errors.New("stopped: " + <-f.stopped)
}

func (f farm) Stop(key string, force bool) {
	if !force {
		f.stopped <- key
	}
}

func TestEndTaskStopsTheFarm(t *testing.T) {
	t.Parallel()
	f := farm{begun: make(chan string, 1), stopped: make(chan string, 1)}
	s := play(t, plot{cfg: local.Config{Policies: local.Policies{Route: lanes.Route}}, tool: lanes.Render(f), args: "{scene: dawn}"})
	created := until[perdure.TaskCreated](s, 1).Task
	key := <-f.begun
	task, err := lanes.EndTask(s.ctx, s, created.ID)
	s.said()

	if err != nil || task.State != perdure.TaskCanceled || key != created.LedgerKey().IdempotencyKey() {
		t.Errorf("got %+v, %v; begun under %s", task, err, key)
	}
	if receipt := until[perdure.TaskCancelReceipt](s, 1).Receipt; receipt.DeadAt.IsZero() {
		t.Errorf("got %+v", receipt)
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	empty := make(chan string)
	close(empty)
	tooltest.Crash(t, lanes.ImportMail(empty), map[string]string{"folder": "Work"})
	tooltest.Crash(t, lanes.DeleteFolder(func(string) error { return nil }), map[string]string{"folder": "Trash"})
}
