package sessionport_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// parrot is a model that answers with the result of do for its request, piece by piece.
type parrot struct {
	do func(model.Request) []model.Delta

	mu    sync.Mutex
	asked []model.Request // guarded by mu
}

func (p *parrot) Stream(_ context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	p.mu.Lock()
	p.asked = append(p.asked, req)
	p.mu.Unlock()
	return func(yield func(model.Delta, error) bool) {
		for _, d := range p.do(req) {
			if !yield(d, nil) {
				return
			}
		}
	}
}

func (p *parrot) requests() []model.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// says is a parrot that always gives the same answer.
func says(deltas ...model.Delta) *parrot {
	return &parrot{do: func(model.Request) []model.Delta { return deltas }}
}

// utility is the port of a call.
func (w *world) utility(cfg sessionport.Utility, call tool.Call) tool.Utility {
	return sessionport.New(sessionport.Config{Store: w.Store, Utility: cfg})(call.Session, call).Utility
}

// bills returns the model calls in the session's journal.
func (w *world) bills(id perdure.SessionID) (bills []perdure.Generation) {
	w.Helper()
	for _, e := range w.journal(id) {
		if f, ok := e.Fact.(perdure.Generation); ok {
			bills = append(bills, f)
		}
	}
	return bills
}

var fine = []model.Delta{{Text: "fine"}, {Finish: model.FinishStop, Usage: &perdure.Usage{InputTokens: 2, OutputTokens: 1}}}

// TestUtilityOrders: an order over the limits is refused before a request is made, and one without
// a limit gets one.
func TestUtilityOrders(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		small, id := says(fine...), w.session()
		u := w.utility(sessionport.Utility{Model: small, Name: "small", MaxTokens: 2000}, tool.Call{Session: id, ID: "call_1", Tool: "ask"})
		for _, bad := range []struct {
			order tool.UtilityRequest
			want  perdure.Kind
		}{
			{tool.UtilityRequest{}, perdure.Invalid},
			{tool.UtilityRequest{Prompt: " \n"}, perdure.Invalid},
			{tool.UtilityRequest{Prompt: "x", MaxTokens: -1}, perdure.Invalid},
			{tool.UtilityRequest{Prompt: strings.Repeat("x", 1<<20+1)}, perdure.Limit},
			{tool.UtilityRequest{System: "x", Prompt: strings.Repeat("x", 1<<20)}, perdure.Limit},
		} {
			_, err := u.Complete(w.Context(), bad.order)
			w.refused(err, bad.want)
		}
		w.same("asked", len(small.requests()), 0)
		w.same("billed", len(w.bills(id)), 0)

		for n, want := range map[int]int{0: 1024, 1: 1, 1999: 1999, 5000: 2000} {
			text, err := u.Complete(w.Context(), tool.UtilityRequest{Prompt: strings.Repeat("x", 1<<20), MaxTokens: n})
			w.ok(err)
			w.same("answer", text, "fine")
			asked := small.requests()
			w.same("limit", asked[len(asked)-1].MaxTokens, want)
		}
		w.same("billed", len(w.bills(id)), 4)
		w.same("used", w.folded(id).Usage, perdure.Usage{InputTokens: 8, OutputTokens: 4})
	})
}

// TestUtilityAnswers: an unusable answer is an error with its code, and is billed. A model that
// ignores its limit is stopped.
func TestUtilityAnswers(t *testing.T) {
	t.Parallel()
	endless := make([]model.Delta, 10_000)
	for i := range endless {
		endless[i].Text = "and so on "
	}
	for name, c := range map[string]struct {
		deltas []model.Delta
		code   model.Code
	}{
		"nothing":      {[]model.Delta{{Finish: model.FinishStop}}, perdure.CodeEmptyAnswer},
		"only a call":  {[]model.Delta{{Call: &perdure.ToolCall{Name: "rm"}}, {Finish: model.FinishCalls}}, perdure.CodeEmptyAnswer},
		"a refusal":    {[]model.Delta{{Text: "I will not"}, {Finish: model.FinishRefusal}}, model.Processing},
		"a cut stream": {[]model.Delta{{Text: "so"}}, model.Unavailable},
		"too much":     {endless, model.Processing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "memory")
			id := w.session()
			u := w.utility(sessionport.Utility{Model: says(c.deltas...)}, tool.Call{Session: id, ID: "call_1", Tool: "ask"})

			text, err := u.Complete(t.Context(), tool.UtilityRequest{Prompt: "x", MaxTokens: 10})

			var known *model.Error
			if text != "" || !errors.As(err, &known) || known.Code != c.code {
				t.Errorf("got %q, %v", text, err)
			}
			if bills := w.bills(id); len(bills) != 1 || bills[0].Error != string(c.code) || bills[0].Tool != "ask" {
				t.Errorf("bills %+v", bills)
			}
		})
	}
}

// unbilling is a store that refuses events.
type unbilling struct{ store.Store }

func (unbilling) InTx(context.Context, func(store.Tx) error) error { return perdure.Unavailable }

// TestUtilityFailsClosed: an answer that cannot be billed is an error. So are an answer to an
// attempt that was replaced, and a panic of the model; both are billed.
func TestUtilityFailsClosed(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		id := w.session()
		task := w.task(id)
		order := tool.UtilityRequest{Prompt: "x"}
		cfg := sessionport.Utility{Model: says(fine...)}

		current := w.utility(cfg, tool.Call{Session: id, Task: task, Attempt: 1, Tool: "ask"})
		text, err := current.Complete(w.Context(), order)
		w.ok(err)
		w.same("answer", text, "fine")
		late := w.utility(cfg, tool.Call{Session: id, Task: task, Attempt: 2, Tool: "ask"})
		text, err = late.Complete(w.Context(), order)
		w.refused(err, perdure.Lost)
		w.same("answer", text, "")
		deaf := sessionport.New(sessionport.Config{Store: unbilling{w.Store}, Utility: cfg})(id, tool.Call{Session: id, Tool: "ask"}).Utility
		text, err = deaf.Complete(w.Context(), order)
		w.refused(err, perdure.Unavailable)
		w.same("answer", text, "")
		w.same("bills", len(w.bills(id)), 2)
		panics := sessionport.Utility{Model: &parrot{do: func(model.Request) []model.Delta { panic("no model") }}}
		_, err = w.utility(panics, tool.Call{Session: id, Tool: "ask"}).Complete(w.Context(), order)
		var known *model.Error
		bills := w.bills(id)
		w.same("bills", len(bills), 3)
		w.same("failed", errors.As(err, &known) && known.Code == model.Processing && bills[2].Error == string(model.Processing), true)
	})
}

// TestUtilityModelIsToldNoSecret: the request to the utility model does not contain the secrets of
// the session, secrets in its answer do not reach the tool, and the name of a file is masked (SE4).
func TestUtilityModelIsToldNoSecret(t *testing.T) {
	t.Parallel()
	c := newCanaries()
	script, err := json.Marshal(map[string]any{"steps": []any{
		map[string]any{"calls": []any{map[string]any{"name": "secret_store", "args": map[string]any{"operation": "set", "name": "n", "value": c.secret(0)}}}},
		map[string]any{"calls": []any{map[string]any{"name": "tattle", "args": map[string]any{}}}},
		map[string]any{"text": "done", "repeat": true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	small := &parrot{do: func(model.Request) []model.Delta {
		return []model.Delta{{Text: "is it " + c.secret(0) + "?"}, {Finish: model.FinishStop}}
	}}
	h := newHushed(t, string(script))
	h.cfg = func(cfg *local.Config) { cfg.Utility = local.Utility{Model: small} }
	var heard string
	h.start(tool.New(tool.Spec{Name: "tattle", Description: "Tells.", Class: perdure.Idempotent}, func(ctx context.Context, _ struct{}, env tool.Env) (string, error) {
		value, err := env.Secrets.Reveal(ctx, "n")
		if err != nil {
			return "", err
		}
		if heard, err = env.Utility.Complete(ctx, tool.UtilityRequest{System: "it is " + value, Prompt: "what is " + value}); err != nil {
			return "", err
		}
		_, err = env.Files.Write(ctx, tool.FileWrite{Path: "/of " + strings.ReplaceAll(value, "/", "-") + ".txt", Content: []byte("x")})
		return heard, err
	}))
	s, err := h.eng.Sessions().Create(h.ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	h.say(s, "go")

	asked := small.requests()
	if len(asked) != 1 || asked[0].System != "it is <redacted>" || asked[0].Messages[0].Text() != "what is <redacted>" || heard != "is it <redacted>?" {
		t.Errorf("asked %+v, heard %q", asked, heard)
	}
	written := 0
	for _, e := range h.events(s) {
		if f, ok := e.Fact.(perdure.FileWritten); ok && f.Path == "/of <redacted>.txt" {
			written++
		}
	}
	text, err := json.Marshal(h.events(s))
	if err != nil {
		t.Fatal(err)
	}
	c.search(t, "the journal", text)
	if written != 1 {
		t.Errorf("%d files were recorded: %s", written, h.result(s, "tattle").Error)
	}
}
