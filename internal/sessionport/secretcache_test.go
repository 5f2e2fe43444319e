package sessionport_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/secretargs"
	"github.com/perdure/perdure/tool"
)

// shout is a tool without secret arguments. It requests a permission that contains its arguments,
// records them, and outputs them in every way that a tool can.
type shout struct {
	tool.Background

	mu    sync.Mutex
	heard []string      // guarded by mu
	hold  chan struct{} // closed once a call hangs as ordered
}

// shouted is the arguments of a shout.
type shouted struct {
	Text string `json:"text"`
	Via  string `json:"via"`
}

func newShout() *shout {
	s := &shout{hold: make(chan struct{})}
	spec := tool.Spec{Name: "shout", Description: "Shouts.", Class: perdure.Idempotent, Parameters: json.RawMessage(
		`{"type":"object","additionalProperties":false,"properties":{"text":{"type":"string"},"via":{"type":"string"}}}`)}
	s.Background = tool.NewBackground(spec, s.run)
	return s
}

// Permissions implements tool.Guarded.
func (s *shout) Permissions(call tool.Call) []perdure.Permission {
	var in shouted
	_ = json.Unmarshal(call.Args, &in)
	return []perdure.Permission{{Kind: "voice", Target: in.Text, Reason: "it says " + in.Text}}
}

func (s *shout) run(ctx context.Context, in shouted, env tool.Env) (string, error) {
	s.mu.Lock()
	s.heard = append(s.heard, in.Text)
	again := len(s.heard) > 1
	s.mu.Unlock()
	switch in.Via {
	case "schedule":
		_, err := env.Schedules.CreateSchedule(ctx, tool.ScheduleRequest{Schedule: perdure.Schedule{
			Title: "say " + in.Text, Description: in.Text, At: time.Now().Add(24 * time.Hour), Zone: "UTC", Action: perdure.ScheduleAction{Message: "say " + in.Text},
		}})
		return "planned", err
	case "scheduled_tool":
		args, _ := json.Marshal(in)
		_, err := env.Schedules.CreateSchedule(ctx, tool.ScheduleRequest{Schedule: perdure.Schedule{
			At: time.Now().Add(24 * time.Hour), Zone: "UTC", Action: perdure.ScheduleAction{Tool: "shout", Args: args},
		}})
		var denied *tool.Denied
		if errors.As(err, &denied) {
			return denied.Result.Text, nil
		}
		return "planned", err
	case "agent":
		_, err := env.Agents.Start(ctx, tool.SubagentRequest{Name: "one who knows " + in.Text, Prompt: "say " + in.Text, Background: true})
		return "started", err
	case "hang":
		if !again {
			close(s.hold)
			<-ctx.Done()
			return "", ctx.Err()
		}
	}
	return "it was " + in.Text, nil
}

func (s *shout) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.heard) == 0 {
		return ""
	}
	return s.heard[len(s.heard)-1]
}

// TestSecretsInOtherArguments: a value that is already a secret of the session, in an argument that
// no tool declares secret, is in no event, task, schedule, file or log. The tool receives it, and
// so does the policy that evaluates the call.
func TestSecretsInOtherArguments(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]struct {
		args, direct string // with V for the value and B for its base64; the arguments of spawn_background, or of shout
		hears        string // what the tool receives
		says         string // what the model receives
		asks         bool
	}{
		"a_call":             {direct: `{"text":"say V, <redacted> and V"}`, hears: "say V, <redacted> and V", says: "it was say <redacted>, <redacted> and <redacted>"},
		"a_call_in_base64":   {direct: `{"text":"say B"}`, hears: "say B", says: "it was say <redacted>"},
		"a_call_that_asks":   {direct: `{"text":"say V"}`, hears: "say V", says: "it was say <redacted>", asks: true},
		"an_unknown_key":     {direct: `{"text":"say V","V":1}`, says: "Invalid arguments"},
		"no_JSON":            {direct: `{"text":"say V`, says: "Invalid arguments"},
		"the_mark_itself":    {direct: `{"text":"say <redacted secret>"}`, says: "The value is gone"},
		"an_order":           {args: `{"tool":"shout","args":{"text":"say V"},"title":"say V"}`, says: "The value is gone"},
		"an_order_titled":    {args: `{"tool":"shout","args":{"text":"hello"},"title":"say V"}`, hears: "hello", says: `"status":"running"`},
		"a_schedule":         {direct: `{"text":"V","via":"schedule"}`, hears: "V", says: "planned"},
		"a_scheduled_tool":   {direct: `{"text":"V","via":"scheduled_tool"}`, hears: "V", says: "The value is gone"},
		"a_subagent":         {direct: `{"text":"V","via":"agent"}`, hears: "V", says: "started"},
		"a_call_that_is_not": {direct: `{"text":"say <redacted>"}`, hears: "say <redacted>", says: "it was say <redacted>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCanaries()
			value := c.secret(0)
			fill := func(text string) string {
				return strings.NewReplacer("V", value, "B", base64.StdEncoding.EncodeToString([]byte(value))).Replace(text)
			}
			called, raw := "shout", fill(w.direct)
			if w.args != "" {
				called, raw = "spawn_background", fill(w.args)
			}
			h := newHushed(t, keeps(value)+fmt.Sprintf("  - calls: [{name: %s, raw_args: %q}]\n  - {text: done, repeat: true}\n", called, raw))
			s := newShout()
			var judged string
			h.cfg = func(cfg *local.Config) {
				cfg.Policies.Permit = func(_ context.Context, _ tool.Call, p perdure.Permission) (perdure.Decision, string, error) {
					if p.Kind == "voice" {
						judged = p.Target
						if w.asks {
							return perdure.Ask, "", nil
						}
					}
					return perdure.Undecided, "", nil
				}
			}
			h.start(s)
			in, err := h.eng.Sessions().Create(h.ctx, perdure.Agent{})
			if err != nil {
				t.Fatal(err)
			}
			if w.asks {
				go h.answers(in, true)
			}
			h.say(in, "go")

			if got := s.last(); got != fill(w.hears) {
				t.Errorf("the tool heard %q, want %q", got, fill(w.hears))
			}
			if w.direct != "" && w.hears != "" && w.hears != "V" && judged != fill(w.hears) {
				t.Errorf("the policy judged %q, want %q", judged, fill(w.hears))
			}
			if r := h.result(in, called); !strings.Contains(r.Error+string(r.Result), w.says) && !strings.Contains(plain(r.Result), w.says) {
				t.Errorf("the model reads %s %s, want %q", r.Error, r.Result, w.says)
			}
			h.nothingOf(t, c, in)
			h.stop()
			c.searchDir(t, h.dir)
			c.search(t, "the log", []byte(h.log.String()))
		})
	}
}

// keeps is the start of a script: the value becomes a secret of the session.
func keeps(value string) string {
	return fmt.Sprintf("rules: [{when: {last_contains: say }, text: hm}]\nsteps:\n  - calls: [{name: secret_store, args: {operation: set, name: n, value: %q}}]\n", value)
}

// plain is the text of a result.
func plain(result json.RawMessage) (text string) {
	_ = json.Unmarshal(result, &text)
	return text
}

// nothingOf searches everything that the engine outputs.
func (h *hushed) nothingOf(t *testing.T, c canaries, s engine.Session) {
	t.Helper()
	sessions, err := h.eng.Sessions().List(h.ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range sessions {
		tasks, err := h.eng.Tasks().List(h.ctx, one.ID)
		if err != nil {
			t.Fatal(err)
		}
		calls, err := h.eng.Calls().List(h.ctx, one.ID)
		if err != nil {
			t.Fatal(err)
		}
		schedules, err := h.eng.Schedules().List(h.ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		approvals, err := h.eng.Approvals().List(h.ctx, engine.ApprovalFilter{Session: s.ID})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal([]any{h.events(one), tasks, calls, schedules, approvals})
		if err != nil {
			t.Fatal(err)
		}
		c.search(t, "what the engine tells of "+string(one.ID), text)
	}
}

// TestSecretsInOtherArgumentsAreLost: a call that another process takes over has lost such a value,
// and fails with that reason; it does not run with the mask.
func TestSecretsInOtherArgumentsAreLost(t *testing.T) {
	t.Parallel()
	c := newCanaries()
	value := c.secret(0)
	h := newHushed(t, keeps(value)+fmt.Sprintf("  - calls: [{name: shout, args: {text: %q, via: hang}}]\n  - {text: done, repeat: true}\n", "say "+value))
	s := newShout()
	h.start(s)
	in, err := h.eng.Sessions().Create(h.ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.eng.Send(h.ctx, in.ID, perdure.Text("go")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.hold:
	case <-h.ctx.Done():
		t.Fatal(h.ctx.Err())
	}
	h.stop()
	h.start(s)
	if err := h.eng.Sessions().WaitIdle(h.ctx, in.ID); err != nil {
		t.Fatal(err)
	}

	if r := h.result(in, "shout"); !strings.Contains(r.Error+string(r.Result), "The value is gone") {
		t.Errorf("the model reads %s %s", r.Error, r.Result)
	}
	if got := len(s.heard); got != 1 {
		t.Errorf("it ran %d times, want 1", got)
	}
	if text, err := json.Marshal(h.events(in)); err != nil || !secretargs.HasKnownMark(text) {
		t.Errorf("the journal has no mark: %s, %v", text, err)
	}
	h.nothingOf(t, c, in)
	h.stop()
	c.searchDir(t, h.dir)
}
