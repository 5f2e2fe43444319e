package local_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// surfer is a tool that accesses the network, and counts its executions.
func surfer(entered *atomic.Int32, change func(*tool.Spec)) tool.Tool {
	yes := true
	spec := tool.Spec{Name: "surf", Description: "x", Class: perdure.AtMostOnce, Hints: tool.Hints{OpenWorld: &yes}}
	if change != nil {
		change(&spec)
	}
	return tool.NewBackground(spec, func(context.Context, words, tool.Env) (answer, error) {
		entered.Add(1)
		return answer{"text": "fine"}, nil
	})
}

// ends returns how the calls of a session ended, in order, and whether its last turn is completed.
func (s *shop) ends() (ends []perdure.ToolCompleted, done bool) {
	s.t.Helper()
	events, err := s.eng.Events(s.ctx, s.id, 0, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range events {
		switch f := e.Fact.(type) {
		case perdure.ToolCompleted:
			ends = append(ends, f)
		case perdure.TurnStarted:
			done = false
		case perdure.TurnCompleted:
			done = true
		}
	}
	return ends, done
}

// over stops the engine.
func (s *shop) over() {
	s.stop()
	<-s.done
}

const surfThrice = `
rules:
  - when: {not_called: surf}
    calls: [{id: call_1, name: surf, args: {}}, {id: call_2, name: surf, args: {}}, {id: call_3, name: surf, args: {}}]
  - when: {called: surf}
    text: done
`

// TestRateLimitedCallHasResult: a call over the rate limit is not claimed and not executed; it gets
// an error result and a tool.completed, so it never looks dangling, and the turn continues (RL1).
func TestRateLimitedCallHasResult(t *testing.T) {
	t.Parallel()
	var entered atomic.Int32
	s := openShop(t, surfThrice, local.Config{Outbound: local.Outbound{PerMinute: 2}}, surfer(&entered, nil))
	s.run()
	defer s.over()
	s.session()
	s.say("go")
	s.rest()

	ends, done := s.ends()
	if len(ends) != 3 || !done || entered.Load() != 2 {
		t.Fatalf("%d of 3 calls have an end, the tool was entered %d times, the turn is complete: %t", len(ends), entered.Load(), done)
	}
	held := 0
	for _, end := range ends {
		if end.Status == perdure.StatusSuccess {
			continue
		}
		held++
		if r := end.Result; r.ErrorKind != perdure.ErrorRejected || !r.NeverStarted || !strings.Contains(string(r.Result), "Rate limit exceeded") {
			t.Errorf("the call that was held back: %+v", r)
		}
	}
	calls, err := s.eng.Calls().List(s.ctx, s.id)
	if held != 1 || err != nil || len(calls) != 2 {
		t.Errorf("%d calls were held back, %d were claimed, %v", held, len(calls), err)
	}
	if got := s.eng.OutboundCounts(); got != (local.OutboundCounts{Allowed: 2, Denied: 1}) {
		t.Errorf("counts: %+v", got)
	}
}

// TestOutboundByHints: which calls count. A host's tool declares it; an external one counts unless
// it declares that it does not access the network.
func TestOutboundByHints(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	foreign := func(hint *bool) func(*atomic.Int32) tool.Tool {
		return func(entered *atomic.Int32) tool.Tool {
			return tool.Adapt(tool.Spec{Name: "surf", Description: "x", Hints: tool.Hints{OpenWorld: hint}}, func(context.Context, tool.Call, tool.Env) tool.Result {
				entered.Add(1)
				return tool.Success("fine")
			})
		}
	}
	own := func(hint *bool) func(*atomic.Int32) tool.Tool {
		return func(entered *atomic.Int32) tool.Tool {
			return surfer(entered, func(sp *tool.Spec) { sp.Hints.OpenWorld = hint })
		}
	}
	for name, c := range map[string]struct {
		make func(*atomic.Int32) tool.Tool
		out  bool
	}{
		"own, says so": {own(&yes), true}, "own, denies it": {own(&no), false}, "own, silent": {own(nil), false},
		"foreign, says so": {foreign(&yes), true}, "foreign, denies it": {foreign(&no), false}, "foreign, silent": {foreign(nil), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var entered atomic.Int32
			s := openShop(t, surfThrice, local.Config{Outbound: local.Outbound{PerMinute: 1}}, c.make(&entered))
			s.run()
			defer s.over()
			s.session()
			s.say("go")
			s.rest()

			want := int32(3)
			if c.out {
				want = 1
			}
			if entered.Load() != want || (s.eng.OutboundCounts().Denied > 0) != c.out {
				t.Errorf("entered %d times, want %d; %+v", entered.Load(), want, s.eng.OutboundCounts())
			}
		})
	}
}

// TestOutboundAfterApproval: a call that needs an approval counts when it is executed, and not
// before.
func TestOutboundAfterApproval(t *testing.T) {
	t.Parallel()
	var entered atomic.Int32
	s := openShop(t, surfThrice, local.Config{Outbound: local.Outbound{PerMinute: 2}}, surfer(&entered, func(sp *tool.Spec) { sp.Policy = tool.PolicyRequiresApproval }))
	s.run()
	defer s.over()
	s.session()
	s.say("go")
	var open []perdure.Approval
	err := s.eng.Follow(s.ctx, s.id, 0, func(f engine.Frame) error {
		if f.Event != nil {
			if asked, ok := f.Event.Fact.(perdure.ApprovalRequested); ok {
				open = append(open, asked.Approval)
			}
		}
		if len(open) == 3 {
			return perdure.Limit // stop following
		}
		return nil
	})
	if len(open) != 3 || s.eng.OutboundCounts() != (local.OutboundCounts{}) {
		t.Fatalf("%d questions, %v, %+v", len(open), err, s.eng.OutboundCounts())
	}
	for _, a := range open {
		if _, err := s.eng.Approvals().Decide(s.ctx, a.ID, perdure.Verdict{Approve: true, By: "ann"}); err != nil {
			t.Fatal(err)
		}
	}
	s.rest()

	ends, done := s.ends()
	if len(ends) != 3 || !done || entered.Load() != 2 || s.eng.OutboundCounts() != (local.OutboundCounts{Allowed: 2, Denied: 1}) {
		t.Errorf("%d ends, complete %t, entered %d times, %+v", len(ends), done, entered.Load(), s.eng.OutboundCounts())
	}
}

// TestOutboundInTheBackground: starting a background run of a tool that accesses the network is
// refused over the limit.
func TestOutboundInTheBackground(t *testing.T) {
	t.Parallel()
	var entered atomic.Int32
	s := openShop(t, strings.ReplaceAll(spawnOne, "bg_note", "surf"), local.Config{Outbound: local.Outbound{Limiter: deaf{}}}, surfer(&entered, nil))
	s.run()
	defer s.over()
	s.session()
	s.say("go")
	s.rest()

	ends, _ := s.ends()
	tasks, err := s.eng.Tasks().List(s.ctx, s.id)
	if err != nil || len(tasks) != 0 || entered.Load() != 0 || len(ends) != 1 || !strings.Contains(string(ends[0].Result.Result), "Rate limit exceeded") {
		t.Errorf("tasks %v, %v; entered %d times; %+v", tasks, err, entered.Load(), ends)
	}
}

// deaf is a host's limiter that refuses everything.
type deaf struct{}

func (deaf) CheckOrg(context.Context, string) bool { return false }

// TestOutboundIsOff: with -1 nothing is limited, and nothing is counted.
func TestOutboundIsOff(t *testing.T) {
	t.Parallel()
	var entered atomic.Int32
	st := memory.New(memory.Config{})
	s := openShop(t, surfThrice, local.Config{Store: st, Outbound: local.Outbound{PerMinute: -1}}, surfer(&entered, nil))
	s.run()
	defer s.over()
	s.session()
	s.say("go")
	s.rest()

	n := -1
	err := st.View(s.ctx, func(r store.Reader) (err error) { n, err = r.Rates().Outbound(""); return err })
	if entered.Load() != 3 || n != 0 || err != nil || s.eng.OutboundCounts() != (local.OutboundCounts{}) {
		t.Errorf("entered %d times, %d counted, %v, %+v", entered.Load(), n, err, s.eng.OutboundCounts())
	}
}

// buyer is a tool that pays the amount in its arguments.
func buyer(change func(*tool.Spec)) tool.Tool {
	yes := true
	spec := tool.Spec{Name: "buy", Description: "Buys.", Class: perdure.AtMostOnce, NeedsEnv: true, HandlesDryRun: true, Hints: tool.Hints{CapabilityID: "shopping", Payment: &yes}}
	if change != nil {
		change(&spec)
	}
	return tool.NewBackground(spec, func(ctx context.Context, in words, env tool.Env) (answer, error) {
		if env.Payments == nil {
			return nil, tool.Errorf("%s", tool.Missing("Payment authority", "buy pays.").Text)
		}
		amount, err := tool.ParseAmount(in.Text, "usd")
		if err != nil {
			return nil, tool.Errorf("%s", err)
		}
		what, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		receipt, err := env.Payments.Pay(ctx, tool.PaymentRequest{Host: "api.example.com", Operation: "buy", Amount: amount, Parameters: what})
		if err != nil {
			return nil, tool.Errorf("%s", err)
		}
		return answer{"receipt": receipt.Text}, nil
	})
}
