package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
)

// laneTools are the tools that the model of a lane storm calls directly, and laneRuns those it
// spawns.
var (
	laneTools = []string{
		"hold", "hold_note", "hold_charge", "hold_soft", "hold_serial", "stubborn", "quick_note", "quick_charge", "needs_charge",
		"needs_hold", "client", "routed_hold", "routed_charge", "routed_needs", "later_hold", "ask", "ask_charge", "permit",
	}
	laneRuns = []string{"bg_hold", "bg_charge", "bg_ask", "bg_needs", "bg_stubborn", "bg_quick"}
)

// ending is how held work ends.
type ending int

const (
	completes ending = iota
	failing
	panicking
)

// order is what the model gives every tool.
type order struct {
	How ending `json:"how"`
	N   int    `json:"n,omitempty"`
}

// heldWork is one execution that waits for the program to end it.
type heldWork struct {
	call tool.Call
	life int
	over <-chan struct{}
	end  chan ending // capacity 1: the program does not wait for the tool
}

// stage is the environment of the engines of a lane storm: their model, the effects of their tools,
// and the executions that wait in them. It outlives the engines, and is safe for concurrent use.
type stage struct {
	seed uint64

	mu      sync.Mutex
	calm    bool                       // guarded by mu; tools end at once, and the model only talks
	life    int                        // guarded by mu; engines so far
	over    chan struct{}              // guarded by mu; closed when the process of that engine dies
	held    []*heldWork                // guarded by mu
	ledger  []chaos.Line               // guarded by mu
	keys    map[perdure.CallKey]string // guarded by mu; the idempotency key of each call
	trouble []string                   // guarded by mu
	news    chan struct{}              // guarded by mu; closed and replaced when something began or ended
	count   map[string]int             // guarded by mu; what happened how often
}

func newStage(seed uint64) *stage {
	return &stage{seed: seed, keys: map[perdure.CallKey]string{}, news: make(chan struct{}), count: map[string]int{}}
}

// wrong records a violation.
func (s *stage) wrong(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = append(s.trouble, fmt.Sprintf(format, args...))
}

// did counts an action, so that a storm without effect is noticed.
func (s *stage) did(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[what]++
}

// changed is called with mu held.
func (s *stage) changed() {
	close(s.news)
	s.news = make(chan struct{})
}

// enter records the start of an execution; nil: it need not wait. Slots are tested with fill, which
// waits even in the calm.
func (s *stage) enter(call tool.Call) *heldWork {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed()
	for _, h := range s.held {
		if h.call.Key == call.Key && h.life == s.life {
			s.trouble = append(s.trouble, fmt.Sprintf("%s runs twice at a time: executions %d and %d", call.Key, h.call.Execution, call.Execution))
		}
	}
	if s.calm && !strings.HasSuffix(call.Tool, "fill") {
		return nil
	}
	h := &heldWork{call: call, life: s.life, over: s.over, end: make(chan ending, 1)}
	s.held = append(s.held, h)
	return h
}

func (s *stage) leave(h *heldWork) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = slices.DeleteFunc(s.held, func(other *heldWork) bool { return other == h })
	s.changed()
}

// pick returns a random held execution, or nil.
func (s *stage) pick(dice *rand.Rand) *heldWork {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) == 0 {
		return nil
	}
	return s.held[dice.IntN(len(s.held))]
}

// let ends held work, unless it has been ended before.
func (h *heldWork) let(how ending) {
	select {
	case h.end <- how:
	default:
	}
}

// settleDown ends all held work.
func (s *stage) settleDown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calm = true
	s.releaseAll()
}

// releaseAll is called with mu held.
func (s *stage) releaseAll() {
	for _, h := range s.held {
		h.let(completes)
	}
}

// filled waits until n executions of one tool are held, each returned once, and returns them.
func (s *stage) filled(ctx context.Context, name string, n int, show func(*heldWork) error) ([]*heldWork, error) {
	var shown []*heldWork
	for {
		s.mu.Lock()
		held, news := slices.Clone(s.held), s.news
		s.mu.Unlock()
		for _, h := range held {
			if h.call.Tool != name || slices.Contains(shown, h) {
				continue
			}
			if err := show(h); err != nil {
				return nil, err
			}
			shown = append(shown, h)
		}
		if len(shown) == n {
			return shown, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d run at once", len(shown), n)
		}
	}
}

// effect writes to the outside ledger.
func (s *stage) effect(call tool.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger = append(s.ledger, chaos.Line{Effect: call.Tool + " " + call.Key, Class: string(call.Class), Key: call.Key})
	at := perdure.CallKey{Session: call.Session, Call: call.ID}
	if known, ok := s.keys[at]; ok && known != call.Key { // LG10
		s.trouble = append(s.trouble, fmt.Sprintf("%s came with the keys %s and %s", at, known, call.Key))
	}
	s.keys[at] = call.Key
}

// labour is the work of a tool of a lane storm.
type labour func(ctx context.Context, in order, env tool.Env) (answer, error)

// ended converts an ending to a result.
func ended(how ending) (answer, error) {
	switch how {
	case failing:
		return nil, tool.Errorf("boom")
	case panicking:
		panic("secret cause")
	}
	return answer{"did": "it"}, nil
}

// quick has its effect and ends as ordered.
func (s *stage) quick(_ context.Context, in order, env tool.Env) (answer, error) {
	s.effect(env.Call)
	return ended(in.How)
}

// hold has its effect and waits to be ended; stubborn work ends only by the program or by the death
// of its process.
func (s *stage) hold(stubborn bool) labour {
	return func(ctx context.Context, _ order, env tool.Env) (answer, error) {
		s.effect(env.Call)
		env.Sink.Output("stdout", []byte("held\n"))
		h := s.enter(env.Call)
		if h == nil {
			return ended(completes)
		}
		defer s.leave(h)
		over := ctx.Done()
		if stubborn {
			over = h.over
		}
		select {
		case how := <-h.end:
			return ended(how)
		case <-over:
			return nil, context.Cause(ctx)
		}
	}
}

// ask asks a question before it does anything.
func (s *stage) ask(ctx context.Context, in order, env tool.Env) (answer, error) {
	if _, err := env.Dialog.Ask(ctx, tool.Question{Prompt: "which one?"}); err != nil {
		return nil, err
	}
	s.did("answered")
	return s.quick(ctx, in, env)
}

// permit asks for an approval first.
func (s *stage) permit(ctx context.Context, in order, env tool.Env) (answer, error) {
	reply, err := env.Dialog.Ask(ctx, tool.Question{Prompt: "may I?", Permissions: []perdure.Permission{{Kind: "command", Target: "rm -r /"}}})
	switch {
	case err != nil:
		return nil, err
	case !reply.Approved:
		return nil, tool.Errorf("not allowed")
	}
	return s.quick(ctx, in, env)
}

// tools creates the tools of all engines.
func (s *stage) tools() *tool.Registry {
	spec := func(name string, class perdure.EffectClass, more ...func(*tool.Spec)) tool.Spec {
		sp := tool.Spec{Name: name, Description: "A fixture.", Class: class, SoftBudget: tool.Never}
		for _, change := range more {
			change(&sp)
		}
		return sp
	}
	asks := func(sp *tool.Spec) { sp.Policy = tool.PolicyRequiresApproval }
	const pure, again, once = perdure.Pure, perdure.Idempotent, perdure.AtMostOnce
	hold, stubborn := s.hold(false), s.hold(true)
	return tool.NewRegistry(append(background.Tools(background.Config{}),
		tool.New(spec("hold", pure), hold),
		tool.New(spec("hold_note", again), hold),
		tool.New(spec("hold_charge", once), hold),
		tool.New(spec("hold_soft", again, func(sp *tool.Spec) { sp.SoftBudget = time.Millisecond }), hold),
		tool.New(spec("hold_serial", again, func(sp *tool.Spec) { sp.Concurrency = "one" }), hold),
		tool.New(spec("stubborn", again), stubborn),
		tool.New(spec("quick_note", again), s.quick),
		tool.New(spec("quick_charge", once), s.quick),
		tool.New(spec("needs_charge", once, asks), s.quick),
		tool.New(spec("needs_hold", once, asks), hold),
		tool.New(spec("client", once, func(sp *tool.Spec) { sp.Policy = tool.PolicyClientSide }), s.quick),
		tool.New(spec("routed_hold", again), hold),
		tool.New(spec("routed_charge", once), hold),
		tool.New(spec("routed_needs", once, asks), hold),
		tool.New(spec("later_hold", again), hold),
		tool.New(spec("ask", again), s.ask),
		tool.New(spec("ask_charge", once), s.ask),
		tool.New(spec("permit", again), s.permit),
		tool.New(spec("fill", pure), hold),
		tool.NewBackground(spec("bg_fill", pure), hold),
		tool.NewBackground(spec("bg_hold", again), hold),
		tool.NewBackground(spec("bg_charge", once), hold),
		tool.NewBackground(spec("bg_ask", again), s.ask),
		tool.NewBackground(spec("bg_needs", once, asks), s.quick),
		tool.NewBackground(spec("bg_stubborn", again), stubborn),
		tool.NewBackground(spec("bg_quick", once), s.quick),
	)...)
}

// route routes a call by its name.
func (*stage) route(call tool.Call) dispatch.Route {
	switch {
	case strings.HasPrefix(call.Tool, "routed_"):
		return dispatch.InBackground()
	case call.Tool == "later_hold":
		return dispatch.DetachAfter(time.Millisecond)
	}
	return dispatch.Route{}
}

// Stream is the model of a lane storm. Its answers follow from the seed and the length of the
// conversation.
func (s *stage) Stream(_ context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		if text := mispaired(req.Messages); text != "" {
			s.wrong("session %s, model call over %d messages: %s", req.Session, len(req.Messages), text)
		}
		s.did("model call")
		for _, call := range s.calls(req) {
			if !yield(model.Delta{Call: &call}, nil) {
				return
			}
		}
		yield(model.Delta{Text: "so be it", Finish: model.FinishStop}, nil)
	}
}

// mispaired describes what is wrong with a request: each call must have exactly one result, before
// any other message (DL3, DL14). Empty: nothing.
func mispaired(messages []perdure.Message) string {
	known, open := map[perdure.CallID]bool{}, map[perdure.CallID]bool{}
	for i, m := range messages {
		if m.Role != perdure.RoleToolResult && len(open) > 0 {
			return fmt.Sprintf("message %d is a %s, and %d calls before it have no result", i, m.Role, len(open))
		}
		for _, call := range m.Calls() {
			if known[call.ID] {
				return fmt.Sprintf("call %s stands there twice", call.ID)
			}
			known[call.ID], open[call.ID] = true, true
		}
		for _, part := range m.Parts {
			if part.Result == nil {
				continue
			}
			if !open[part.Result.CallID] {
				return fmt.Sprintf("call %s has a second result, or one without a call", part.Result.CallID)
			}
			delete(open, part.Result.CallID)
		}
	}
	if len(open) > 0 {
		return fmt.Sprintf("%d calls have no result", len(open))
	}
	return ""
}

var taskID = regexp.MustCompile(`task_[0-9a-f]{32}`)

// calls returns the calls of the next answer.
func (s *stage) calls(req model.Request) []perdure.ToolCall {
	rounds, said := 0, ""
	var tasks []string
	for _, m := range req.Messages {
		switch {
		case m.Role == perdure.RoleUser:
			rounds, said = 0, m.Text()
		case len(m.Calls()) > 0:
			rounds++
		}
		for _, part := range m.Parts {
			if part.Result != nil {
				tasks = append(tasks, taskID.FindAllString(string(part.Result.Result), 1)...)
			}
		}
	}
	if what, fills := strings.CutPrefix(said, "fill "); fills {
		if rounds > 0 {
			return nil
		}
		call := perdure.ToolCall{Name: what, Arguments: []byte(`{"how":0}`)}
		if what == "bg_fill" {
			call = perdure.ToolCall{Name: "spawn_background", Arguments: []byte(`{"tool":"bg_fill","args":{"how":0}}`)}
		}
		return slices.Repeat([]perdure.ToolCall{call}, lanePlaces)
	}
	s.mu.Lock()
	calm := s.calm
	s.mu.Unlock()
	h := fnv.New64a()
	fmt.Fprint(h, req.Session, len(req.Messages))
	dice := rand.New(rand.NewPCG(s.seed, h.Sum64()))
	if calm || rounds > 3 || rounds > 0 && dice.IntN(3) > 0 {
		return nil
	}
	var calls []perdure.ToolCall
	for range 1 + dice.IntN(4) {
		calls = append(calls, randomCall(dice, tasks))
	}
	return calls
}

// randomCall calls a tool, spawns one, or manages a task.
func randomCall(dice *rand.Rand, tasks []string) perdure.ToolCall {
	in := order{How: []ending{completes, completes, completes, failing, panicking}[dice.IntN(5)], N: dice.IntN(1000)}
	call := perdure.ToolCall{Name: laneTools[dice.IntN(len(laneTools))]}
	var args any = in
	switch n := dice.IntN(10); {
	case n == 0 && len(tasks) > 0:
		call.Name = "check_background_tool"
		args = map[string]any{"background_id": tasks[dice.IntN(len(tasks))], "wait_seconds": 0, "cancel": dice.IntN(3) == 0}
	case n < 4:
		call.Name = "spawn_background"
		args = map[string]any{"tool": laneRuns[dice.IntN(len(laneRuns))], "args": in, "signal_on_completion": dice.IntN(4) > 0}
	}
	call.Arguments, _ = json.Marshal(args)
	return call
}
