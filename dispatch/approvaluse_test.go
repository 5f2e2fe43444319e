package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/tool"
)

// till is a loop whose tool "pay" asks a person each time, and the amounts that were paid.
type till struct {
	dispatch.Dispatcher
	cfg  dispatch.LoopConfig
	paid []int // the tools of one test run one after another
}

type payIn struct {
	Amount int `json:"amount"`
}

// dispatchers are the kinds of dispatcher, of which each law about approvals holds.
func dispatchers() map[string]func(*testing.T, dispatch.LoopConfig) dispatch.Dispatcher {
	return map[string]func(*testing.T, dispatch.LoopConfig) dispatch.Dispatcher{
		"inline": func(t *testing.T, cfg dispatch.LoopConfig) dispatch.Dispatcher {
			d, err := dispatch.NewInline(cfg)
			if err != nil {
				t.Fatal(err)
			}
			return d
		},
		"async": func(t *testing.T, cfg dispatch.LoopConfig) dispatch.Dispatcher {
			d, err := dispatch.NewAsync(context.Background(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Shutdown(context.Background()) })
			return d
		},
	}
}

// inTills runs a law with each kind of dispatcher, in virtual time.
func inTills(t *testing.T, change func(*dispatch.LoopConfig), law func(t *testing.T, p *till)) {
	t.Helper()
	for name, open := range dispatchers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &till{}
				pay := tool.New(tool.Spec{Name: "pay", Description: "Pays.", Class: perdure.AtMostOnce, Policy: tool.PolicyRequiresApproval},
					func(_ context.Context, in payIn, _ tool.Env) (int, error) {
						p.paid = append(p.paid, in.Amount)
						return in.Amount, nil
					})
				p.cfg = dispatch.ForRegistry(tool.NewRegistry(pay), nil)
				if change != nil {
					change(&p.cfg)
				}
				p.Dispatcher = open(t, p.cfg)
				law(t, p)
			})
		})
	}
}

// restart is the same loop in a new process: nothing but what the host wrote down is left.
func (p *till) restart(t *testing.T) {
	t.Helper()
	switch p.Dispatcher.(type) {
	case *dispatch.Inline:
		p.Dispatcher = dispatchers()["inline"](t, p.cfg)
	default:
		p.Dispatcher = dispatchers()["async"](t, p.cfg)
	}
}

func payCall(amount int) tool.Call {
	return tool.Call{Session: "session-1", Turn: "turn-1", ID: "call-1", Tool: "pay", Args: fmt.Appendf(nil, `{"amount":%d}`, amount)}
}

// run starts a launch and returns its outcome: an end or a question.
func (p *till) run(t *testing.T, l dispatch.Launch) dispatch.Resolution {
	t.Helper()
	out, err := p.Start(t.Context(), l)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	if out.Ready != nil {
		return *out.Ready
	}
	u, ok := p.WaitTurn(t.Context(), "turn-1")
	if !ok || u.Resolution == nil {
		t.Fatalf("WaitTurn = %+v, %t, want a resolution", u, ok)
	}
	return *u.Resolution
}

// ask starts a payment and returns the question, as a host writes it down and reads it back.
func (p *till) ask(t *testing.T, amount int) dispatch.PendingApproval {
	t.Helper()
	r := p.run(t, dispatch.Launch{Call: payCall(amount)})
	if r.Approval == nil {
		t.Fatalf("got %+v, want a question", r.Item)
	}
	body, err := json.Marshal(r.Approval)
	if err != nil {
		t.Fatal(err)
	}
	var asked dispatch.PendingApproval
	if err := json.Unmarshal(body, &asked); err != nil {
		t.Fatal(err)
	}
	return asked
}

// approve is a launch with the answer of a person; patched, unless it is empty, replaces the
// arguments.
func approve(q dispatch.PendingApproval, patched string) dispatch.Launch {
	q.Approval.State = perdure.ApprovalApproved
	if patched != "" {
		q.Approval.NewArgs = json.RawMessage(patched)
	}
	return dispatch.Launch{Task: q.Task, Call: q.Call, Approval: &q.Approval}
}

// wants compares what was paid.
func (p *till) wants(t *testing.T, amounts ...int) {
	t.Helper()
	if fmt.Sprint(p.paid) != fmt.Sprint(amounts) {
		t.Errorf("paid %v, want %v", p.paid, amounts)
	}
}

// TestPatchedArgumentsRun approves a call with other arguments: those run (AP5).
func TestPatchedArgumentsRun(t *testing.T) {
	t.Parallel()
	inTills(t, nil, func(t *testing.T, p *till) {
		q := p.ask(t, 100)

		r := p.run(t, approve(q, `{"amount":5}`))

		p.wants(t, 5)
		if r.Item == nil || string(r.Item.Result.Result) != "5" {
			t.Errorf("got %+v, want the result of 5", r.Item)
		}
	})
}

// TestPatchedArgumentsAreChecked approves a call with arguments that do not fit its tool: nothing
// runs.
func TestPatchedArgumentsAreChecked(t *testing.T) {
	t.Parallel()
	inTills(t, nil, func(t *testing.T, p *till) {
		q := p.ask(t, 100)

		_, err := p.Start(t.Context(), approve(q, `{"amount":`))
		if !errors.Is(err, perdure.Invalid) {
			t.Errorf("no JSON: got %v, want Invalid", err)
		}
		r := p.run(t, approve(q, `{"amount":"all"}`)) // the question was still open
		if r.Item == nil || !r.Item.Result.IsError() || !r.Item.Result.NeverStarted {
			t.Errorf("got %+v, want it refused before it ran", r.Item)
		}
		p.wants(t)
	})
}

// TestApprovalIsForTheseArguments launches another amount than the approved one (AP3).
func TestApprovalIsForTheseArguments(t *testing.T) {
	t.Parallel()
	inTills(t, nil, func(t *testing.T, p *till) {
		l := approve(p.ask(t, 1), "")
		l.Call = payCall(1_000_000)

		r := p.run(t, l)

		p.wants(t)
		if r.Item == nil || r.Item.Result.Error != perdure.TextNotMatching || r.Item.Result.ErrorKind != perdure.ErrorDenied {
			t.Errorf("got %+v, want it denied", r.Item)
		}
	})
}

// TestApprovalCountsOnce gives the same answer twice to one dispatcher.
func TestApprovalCountsOnce(t *testing.T) {
	t.Parallel()
	inTills(t, nil, func(t *testing.T, p *till) {
		l := approve(p.ask(t, 1), "")
		p.run(t, l)

		_, err := p.Start(t.Context(), l)

		if !errors.Is(err, perdure.Conflict) {
			t.Errorf("the second time: got %v, want Conflict", err)
		}
		p.wants(t, 1)
	})
}

// uses remembers which approvals were used, as the file or the table of a host does.
type uses struct {
	mu  sync.Mutex
	ids []perdure.ApprovalID // guarded by mu
	err error                // of the next use
}

func (u *uses) use(_ context.Context, a perdure.Approval) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.err; err != nil {
		u.err = nil
		return err
	}
	if slices.Contains(u.ids, a.ID) {
		return fmt.Errorf("%w: approval %s was used", perdure.Conflict, a.ID)
	}
	u.ids = append(u.ids, a.ID)
	return nil
}

// remembering gives each till a memory of its own that outlives it.
func remembering(c *dispatch.LoopConfig) { c.ClaimApproval = new(uses).use }

// TestApprovalAfterARestart gives an answer to a process that did not ask: it counts for the
// arguments that were asked about, or for those that a person put in their place.
func TestApprovalAfterARestart(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		launched int
		patched  string
		paid     []int
	}{
		"the_same":                   {1, "", []int{1}},
		"other_arguments":            {1_000_000, "", nil},
		"patched":                    {1, `{"amount":5}`, []int{5}},
		"patched_of_other_arguments": {1_000_000, `{"amount":5}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTills(t, remembering, func(t *testing.T, p *till) {
				l := approve(p.ask(t, 1), row.patched)
				l.Call = payCall(row.launched)
				p.restart(t)

				r := p.run(t, l)

				p.wants(t, row.paid...)
				if row.paid == nil && (r.Item == nil || r.Item.Result.Error != perdure.TextNotMatching) {
					t.Errorf("got %+v, want it denied", r.Item)
				}
			})
		})
	}
}

// TestApprovalCountsOnceInAllProcesses uses an answer before a restart, and again after it.
func TestApprovalCountsOnceInAllProcesses(t *testing.T) {
	t.Parallel()
	inTills(t, remembering, func(t *testing.T, p *till) {
		l := approve(p.ask(t, 1), "")
		p.run(t, l)
		for range 2 {
			p.restart(t)
			if _, err := p.Start(t.Context(), l); !errors.Is(err, perdure.Conflict) {
				t.Errorf("after a restart: got %v, want Conflict", err)
			}
		}
		p.wants(t, 1)
	})
}

// TestApprovalOfAnotherProcessIsRefused restarts a loop that remembers nothing: nothing runs, and
// the error says what to do.
func TestApprovalOfAnotherProcessIsRefused(t *testing.T) {
	t.Parallel()
	inTills(t, nil, func(t *testing.T, p *till) {
		q := p.ask(t, 1)
		p.restart(t)

		_, err := p.Start(t.Context(), approve(q, ""))

		if !errors.Is(err, perdure.Conflict) || !strings.Contains(err.Error(), "set LoopConfig.UseApproval") {
			t.Errorf("got %v, want Conflict and what to do", err)
		}
		q.Approval.State = perdure.ApprovalDenied
		if r := p.run(t, dispatch.Launch{Task: q.Task, Call: q.Call, Approval: &q.Approval}); r.Item == nil || r.Item.Result.Error != perdure.TextDenied {
			t.Errorf("a no: got %+v, want it denied", r.Item)
		}
		p.wants(t)
	})
}

// TestApprovalThatCannotBeClaimed lets nothing run, and leaves the question open.
func TestApprovalThatCannotBeClaimed(t *testing.T) {
	t.Parallel()
	inTills(t, func(c *dispatch.LoopConfig) { c.ClaimApproval = (&uses{err: errFull}).use }, func(t *testing.T, p *till) {
		q := p.ask(t, 1)
		if _, err := p.Start(t.Context(), approve(q, "")); !errors.Is(err, errFull) {
			t.Errorf("got %v, want the error of UseApproval", err)
		}
		p.wants(t)

		p.run(t, approve(q, ""))

		p.wants(t, 1)
	})
}

// TestLateApproval answers a question after its time (AP6).
func TestLateApproval(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		after, given time.Duration // since the question; given 0: not said
		paid         []int
	}{
		"in_time":               {time.Minute, 0, []int{1}},
		"late":                  {time.Hour, 0, nil},
		"given_in_time":         {2 * time.Hour, time.Minute, []int{1}},
		"given_when_it_is_over": {2 * time.Hour, time.Hour, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTills(t, func(c *dispatch.LoopConfig) {
				execute := c.Execute
				c.Execute = func(ctx context.Context, call tool.Call, approved *perdure.Approval) dispatch.Outcome {
					out := execute(ctx, call, approved)
					if out.Approval != nil {
						out.Approval.ExpiresAt = time.Now().Add(time.Hour)
					}
					return out
				}
			}, func(t *testing.T, p *till) {
				q := p.ask(t, 1)
				asked := time.Now()
				<-time.After(row.after)
				l := approve(q, "")
				if row.given > 0 {
					l.Approval.DecidedAt = asked.Add(row.given)
				}

				r := p.run(t, l)

				p.wants(t, row.paid...)
				if row.paid == nil && (r.Item == nil || r.Item.Result.Error != perdure.TextExpired) {
					t.Errorf("got %+v, want it expired", r.Item)
				}
			})
		})
	}
}

// TestInlineForgetsTheOldestQuestion keeps the memory of an Inline bounded: what it forgot does not
// count.
func TestInlineForgetsTheOldestQuestion(t *testing.T) {
	t.Parallel()
	inTills(t, func(c *dispatch.LoopConfig) { c.MaxEnded = 1 }, func(t *testing.T, p *till) {
		if _, async := p.Dispatcher.(*dispatch.Async); async {
			return // its open tasks are not counted among those that have ended
		}
		first, second := p.ask(t, 1), p.ask(t, 2)
		_, err := p.Start(t.Context(), approve(first, ""))
		p.run(t, approve(second, ""))

		if p.wants(t, 2); !errors.Is(err, perdure.Conflict) {
			t.Errorf("got %v, want Conflict", err)
		}
	})
}
