package sessionport_test

import (
	"bytes"
	"context"
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
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// brokenScript stores a secret and then outputs it repeatedly, until the answer breaks off at the
// first attempt.
func brokenScript(value string) string {
	said := fmt.Sprintf(`The word is %s, and once more %s, and that is all there is to be said of it.`, value, value)
	return fmt.Sprintf(`
prefix: true
rules:
  - when: {attempt: 1, step: 1}
    text: %q
    chunk: 5
    pace: 2ms
    error: {code: provider_unavailable, retry_after: 1ms, after_bytes: %d}
steps:
  - calls: [{name: secret_store, args: {operation: set, name: n, value: %q}}]
  - text: %q
    chunk: 5
    pace: 2ms
  - {text: done, repeat: true}
`, said, len(said)-20, value, said)
}

// TestBrokenAnswersAreMasked is SE4 for a secret in an answer that breaks off, or that is
// interrupted: no live frame, checkpoint, event or file has it.
func TestBrokenAnswersAreMasked(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]perdure.RecoveryMode{
		"finalized": perdure.RecoverFinalize, "continued": perdure.RecoverContinue, "restarted": perdure.RecoverRestart, "stopped": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCanaries()
			h := newHushed(t, brokenScript(c.secret(0)))
			h.cfg = func(cfg *local.Config) { cfg.Limits.CheckpointBytes, cfg.Timing.Checkpoint = 1, time.Millisecond }
			h.start()
			s, err := h.eng.Sessions().Create(h.ctx, perdure.Agent{Recovery: mode})
			if err != nil {
				t.Fatal(err)
			}
			var frames bytes.Buffer
			var live strings.Builder
			var mu sync.Mutex
			watching, stop := context.WithCancel(h.ctx)
			watched := make(chan error, 1)
			go func() {
				watched <- h.st.Watch(watching, s.ID, 0, func(f store.Frame) error {
					text, err := json.Marshal(f)
					mu.Lock()
					defer mu.Unlock()
					frames.Write(text)
					var told struct{ Delta string }
					if f.Type == "output.message.delta" {
						body, _ := json.Marshal(f.Data)
						err = errors.Join(err, json.Unmarshal(body, &told))
						live.WriteString(told.Delta)
					}
					if mode == "" && strings.Contains(live.String(), ", and once") {
						return errors.Join(err, h.eng.Sessions().Interrupt(h.ctx, s.ID, "user", "enough"))
					}
					return err
				})
			}()
			h.say(s, "go")
			stop()
			if err := <-watched; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}

			text, err := json.Marshal(h.events(s))
			if err != nil {
				t.Fatal(err)
			}
			c.search(t, "the journal", text)
			mu.Lock()
			c.search(t, "a frame", frames.Bytes())
			c.search(t, "what was shown", []byte(live.String()))
			if !strings.Contains(live.String(), "The word is <redacted>, and once") {
				t.Errorf("shown was %q", live.String())
			}
			mu.Unlock()
			if !bytes.Contains(text, []byte(`The word is \u003credacted\u003e, and once`)) {
				t.Errorf("the journal has no such answer: %s", text)
			}
			c.searchDir(t, h.dir)
			h.stop()
			c.searchDir(t, h.dir)
			c.search(t, "the log", []byte(h.log.String()))
		})
	}
}

// TestUnreadableOrdersAreHidden wants malformed orders for background runs to be recorded nowhere,
// and the secret arguments of a valid one to be in no other text.
func TestUnreadableOrdersAreHidden(t *testing.T) {
	t.Parallel()
	c := newCanaries()
	value := c.first + " and " + c.last
	order := fmt.Sprintf(`{"operation":"set","name":"n","value":"%s"}`, value)
	var calls []string
	for _, raw := range []string{
		`{"tool":"secret_store","args":` + order + `,"args":` + order + `}`,
		`{"tool":"secret_store","args":` + order,
		`{"tool":["secret_store"],"args":` + order + `}`,
		`{"args":` + order + `}`,
		`["secret_store",` + order + `]`,
		`{"tool":"secret_store","args":` + order + `}`,
	} {
		calls = append(calls, fmt.Sprintf("{name: spawn_background, raw_args: %q}", raw))
	}
	h := newHushed(t, fmt.Sprintf("steps:\n  - text: I keep %s now\n    calls: [%s]\n  - {text: done, repeat: true}\n", value, strings.Join(calls, ", ")))
	h.start()
	s, err := h.eng.Sessions().Create(h.ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	h.say(s, "go")

	refused := 0
	for _, e := range h.events(s) {
		if f, ok := e.Fact.(perdure.ToolCompleted); ok && f.Result.IsError() {
			refused++
			if f.Result.Error == "" || strings.Contains(f.Result.Error, "redacted") {
				t.Errorf("a refusal says %q", f.Result.Error)
			}
		}
	}
	if refused != len(calls) { // the last one too: secret_store cannot run in the background
		t.Errorf("%d orders were refused, want %d", refused, len(calls))
	}
	text, err := json.Marshal(h.events(s))
	if err != nil {
		t.Fatal(err)
	}
	c.search(t, "the journal", text)
	h.stop()
	c.searchDir(t, h.dir)
	c.search(t, "the log", []byte(h.log.String()))
}

// strictSchema declares secrets with constraints.
const strictSchema = `{"type":"object","additionalProperties":false,"required":["name"],"properties":{"name":{"type":"string"},
	"pin":{"type":"string","writeOnly":true,"minLength":8,"pattern":"^[a-z ]+$"},
	"code":{"type":"integer","writeOnly":true,"minimum":100000},"level":{"enum":["lowest of all","highest of all"],"writeOnly":true}}}`

// strict is a tool with such secrets. It returns their length.
func strict(ask tool.Policy) tool.Tool {
	type in struct {
		Name  string `json:"name"`
		Pin   string `json:"pin"`
		Code  int    `json:"code"`
		Level string `json:"level"`
	}
	spec := tool.Spec{Name: "strict", Description: "Takes secrets.", Class: perdure.Idempotent, Parameters: json.RawMessage(strictSchema), Policy: ask}
	return tool.New(spec, func(_ context.Context, in in, _ tool.Env) (tool.Result, error) {
		return tool.Success(fmt.Sprint(in.Name, " ", len(in.Pin), " ", in.Code/2, " ", len(in.Level))), nil
	})
}

// rename is a hook that changes the name in the arguments, and leaves the rest as it received it.
type rename struct{}

// BeforeTool renames.
func (rename) BeforeTool(_ context.Context, call tool.Call) (tool.Before, error) {
	return tool.Before{Args: bytes.Replace(call.Args, []byte(`"name":"n"`), []byte(`"name":"hooked"`), 1)}, nil
}

// AfterTool does not change results.
func (rename) AfterTool(context.Context, tool.Call, tool.Result) (tool.After, error) {
	return tool.After{}, nil
}

// TestSecretArgumentsAreChecked wants secret arguments to be validated as they were given, by the
// model or a person, and errors about them not to contain them.
func TestSecretArgumentsAreChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args, given string // given: by a person instead
		hooked      bool
		want        string
		not         string // must be nowhere
	}{
		"a_text":           {args: `{"name":"n","pin":"correct horse"}`, want: `"n 13 0 0"`, not: "correct horse"},
		"others":           {args: `{"name":"n","code":246810,"level":"lowest of all"}`, want: `"n 0 123405 13"`, not: "246810"},
		"too_short":        {args: `{"name":"n","pin":"horse"}`, want: `got 5 characters, want at least 8`, not: "horse"},
		"no_match":         {args: `{"name":"n","pin":"CORRECT horse"}`, want: `does not match`, not: "horse"},
		"too_small":        {args: `{"name":"n","code":24681}`, want: `got <redacted>, want at least 100000`, not: "24681"},
		"of_another_type":  {args: `{"name":"n","pin":2468101214}`, want: `want string`, not: "2468101214"},
		"none_of_them":     {args: `{"name":"n","level":"correct horse"}`, want: `/level`, not: "correct horse"},
		"another_is_wrong": {args: `{"name":7,"pin":"correct horse"}`, want: `/name`, not: "correct horse"},
		"no_JSON":          {args: `{"name":"n","pin":"correct horse"`, want: `Invalid arguments for strict`, not: "correct horse"},
		"by_a_hook":        {args: `{"name":"n","pin":"correct horse"}`, hooked: true, want: `"hooked 13 0 0"`, not: "correct horse"},
		"by_a_person":      {args: `{"name":"n","pin":"correct horse"}`, given: `{"name":"p","pin":"battery staple"}`, want: `"p 14 0 0"`, not: "battery staple"},
		"wrong_of_a_person": {args: `{"name":"n","pin":"correct horse"}`, given: `{"name":"p","pin":"BATTERY staple"}`, want: `does not match`,
			not: "staple"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHushed(t, fmt.Sprintf("steps:\n  - calls: [{name: strict, raw_args: %q}]\n  - {text: done, repeat: true}\n", c.args))
			policy := tool.Policy("")
			if c.given != "" {
				policy = tool.PolicyRequiresApproval
			}
			if c.hooked {
				h.cfg = func(cfg *local.Config) { cfg.Policies.Hooks = []tool.Hook{rename{}} }
			}
			h.start(strict(policy))
			s, err := h.eng.Sessions().Create(h.ctx, perdure.Agent{})
			if err != nil {
				t.Fatal(err)
			}
			if c.given != "" {
				go h.gives(s, c.given)
			}
			h.say(s, "go")

			got := h.result(s, "strict")
			if text := string(got.Result) + got.Error; !strings.Contains(text, c.want) {
				t.Errorf("got %s, want %s", text, c.want)
			}
			text, err := json.Marshal(h.events(s))
			if err != nil || bytes.Contains(text, []byte(c.not)) {
				t.Errorf("the journal says %s, %v", text, err)
			}
		})
	}
}

// gives answers the first question with other arguments.
func (h *hushed) gives(s engine.Session, args string) {
	_ = h.st.Watch(h.ctx, s.ID, 0, func(f store.Frame) error {
		if f.Event == nil {
			return nil
		}
		asked, ok := f.Event.Fact.(perdure.ApprovalRequested)
		if !ok {
			return nil
		}
		if _, err := h.eng.Approvals().Decide(h.ctx, asked.Approval.ID, perdure.Verdict{Approve: true, By: "user", Args: json.RawMessage(args)}); err != nil {
			h.Error(err)
		}
		return context.Canceled
	})
}
