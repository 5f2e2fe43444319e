// Package enginetest contains the laws that every implementation of engine.Engine passes.
//
// It may import the root and engine. The one thing to know: a law sees an engine only through the
// port, and the outside world only through the harness, which simulates it. To crash an engine, a
// law asks the harness: the store stays, and everything else is gone.
package enginetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

// waitLimit limits every wait of a law.
const waitLimit = 60 * time.Second

// Setup configures an engine under test. Its tools are the following.
//
//	echo, serial     pure          answers {"said": text}; serial has the concurrency class "one"
//	note             idempotent    one effect, answers {"noted": text}
//	charge           at_most_once  one effect, answers {"charged": text}
//	needs            at_most_once  requires approval: one effect, answers {"did": text}
//	reads            pure          answers {"read": text}; wants the permissions path text and host example.org
//	guarded          at_most_once  one effect, and can reconcile
//	hold             pure          runs until it is released, or its context ends
//	hold_note        idempotent    one effect, then as hold
//	hold_charge      at_most_once  one effect, then as hold
//	hold_stubborn    pure          does not end with its context, only when released
//	hold_late        pure          as hold, soft budget 50 ms, deadline 1.5 s
//	hold_silent      pure          as hold, ends after 50 ms without activity
//	stream_hold      pure          three lines of output, then as hold, then a fourth
//	fail             pure          tool error "boom"
//	break, panic     pure          internal error "secret cause"
//	client           at_most_once  the client answers it; client_late waits 1.5 s for it
//	connect          idempotent    needs a connection to github
//	permit           idempotent    requests an approval while it runs; one effect if approved
//	ask              idempotent    asks a question, then as hold under the name ask_after; answers {"heard": …}
//	ask_number       idempotent    as ask, and wants {"n": integer} to hear
//	ask_once         at_most_once  as ask
//	ask_late         idempotent    writes a line and asks a question, deadline 1.5 s
//	ask_twice        idempotent    asks two questions; each time a tool asks, it enters "asks"
//	inbox            pure          waits for a message and answers {"heard": …}
//	stream           pure          background: three lines of output, then {"status":"ok"}
//	flood            pure          background: more output than a log keeps
//	bg_note, bg_once idempotent, at_most_once  background: one effect
//	bg_needs         at_most_once  background, requires approval: one effect
//	bg_hold          idempotent    background: a line of output, then as hold
//	bg_charge        at_most_once  background: one effect, then as hold
//	bg_fail          pure          background: a line of output, then tool error "boom"
//	bg_break         pure          background: internal error "secret cause"
//	bg_stubborn      pure          background: does not end with its context, only when released
type Setup struct {
	Script             string        // of the scripted model, in its own format
	Agent              perdure.Agent // of the session
	Reject             bool          // overflow policy reject instead of queue
	Evict              bool          // overflow policy evict_oldest instead of queue
	EvictCap           int           // 0: the default
	PerSession         int           // slots per session; 0: the default
	PerSessionDetached int           // detached calls per session; 0: the default
	Grace              time.Duration // 0: the default
	MaxRuns            int           // executions of a call; 0: the default
	// the worker's heartbeat, which also ends work after its deadline; 0: too long for any law to
	// see one
	Beat time.Duration

	SubagentsLive int // live subagents; 0: the default
	Checkpoint    int // bytes of new text of a response before it is stored; 0: the default
	// a word; the guardrail "word" of the host replaces a response that contains it by "[withheld]"
	Guard string

	// a directory for the keyring; webhooks may reach receivers on 127.0.0.1; empty: no webhooks
	Webhooks       string
	Prices         *budget.Table // prices of models and tools; nil: the built-in prices
	SoftBudget     time.Duration // for tools that set none; 0: the default
	ApprovalExpiry time.Duration // 0: never
	Background     []string      // tools that the host routes to the background
	Ask            []string      // targets of permissions, including tools, that need an approval of the host
	Deny           []string      // targets that the host denies
	Panics         []string      // targets for which the host's policy panics
	// what the host's hook does to every tool but spawn_background: rewrite, restless, block,
	// defer, replace, withhold
	Hook string
}

// World is the store and the outside world of one engine under test, across all its crashes.
type World interface {
	Lifecycle
	Outside
}

// Lifecycle starts and ends engines over one store, one after another.
type Lifecycle interface {
	// Start creates an engine over the store and runs it.
	Start(t *testing.T) engine.Engine
	// Kill ends the running engine like SIGKILL: from then on it changes nothing.
	Kill(t *testing.T)
	// Stop ends the running engine through its context and waits for it.
	Stop(t *testing.T)
	// Commits counts the transactions of the engines, except those of their workers.
	Commits() int
}

// Outside is the outside world that tools reach.
type Outside interface {
	// Effects returns the idempotency keys under which a tool had its effect, in order.
	Effects(tool string) []string
	// Entered waits until a hold tool runs for the nth time, counted from 1 over all crashes.
	Entered(t *testing.T, tool string, n int)
	// Release lets a hold tool end, now and in the future.
	Release(tool string)
}

// Spread is a World in which any of several engines does the work, as a scheduler outside of them
// says. There a new run is queued until an engine gets it. The receipt of a cancel that another
// engine carries out is complete only in the journal. Each engine reports what it has taken over.
type Spread interface {
	World
	// Engines returns the running engines; Start has returned the first one.
	Engines() []engine.Engine
}

// Harness opens worlds. Each law gets a fresh one.
type Harness func(t *testing.T, s Setup) World

// law is one named test.
type law struct {
	name  string
	check func(t *testing.T, open Harness)
}

// Run runs all laws.
func Run(t *testing.T, open Harness) {
	groups := map[string][]law{
		"turn": turnLaws(), "task": taskLaws(), "spawn": spawnLaws(), "cancel": cancelLaws(), "crash": crashLaws(), "recovery": recoveryLaws(),
		"intent": intentLaws(), "lane": append(laneLaws(), laneCrashLaws()...),
		"approval": append(approvalLaws(), approvalTaskLaws()...), "client": clientLaws(), "talk": talkLaws(),
		"delivery": deliveryLaws(), "overflow": overflowLaws(), "regression": regressionLaws(),
		"stream": streamLaws(), "subagent": append(subagentLaws(), subagentAttackLaws()...), "fork": forkLaws(),
		"budget": budgetLaws(), "pause": pauseLaws(), "archive": archiveLaws(), "ledger": ledgerLaws(),
		"hostcall": hostCallLaws(), "repeat": repeatLaws(), "remove": removeLaws(), "schedule": scheduleLaws(),
		"storage": storageLaws(), "webhook": webhookLaws(), "provider": providerLaws(),
		"conversation": conversationLaws(),
	}
	for group, laws := range groups {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			for _, l := range laws {
				t.Run(l.name, func(t *testing.T) {
					t.Parallel()
					l.check(t, open)
				})
			}
		})
	}
}

// scene is a session in an engine under test.
type scene struct {
	World
	t   *testing.T
	ctx context.Context
	eng engine.Engine
	id  perdure.SessionID
}

// begin opens a world with a script and creates a session in it.
func begin(t *testing.T, open Harness, setup Setup) *scene {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	t.Cleanup(cancel)
	s := &scene{World: open(t, setup), t: t, ctx: ctx}
	s.eng = s.Start(t)
	agent := setup.Agent
	agent.Instructions = "You are tested."
	session, err := s.eng.Sessions().Create(ctx, agent)
	if err != nil {
		t.Fatalf("NewSession: %v", err)
	}
	s.id = session.ID
	return s
}

// say sends a message.
func (s *scene) say(text string) {
	s.t.Helper()
	if _, err := s.eng.Send(s.ctx, s.id, perdure.Text(text)); err != nil {
		s.t.Fatalf("Send: %v", err)
	}
}

// rest waits until the session is idle.
func (s *scene) rest() {
	s.t.Helper()
	if err := s.eng.Sessions().WaitIdle(s.ctx, s.id); err != nil {
		s.t.Fatalf("WaitIdle: %v; journal:\n%s", err, s.journalText())
	}
}

// crash kills the engine and starts another one over the same store.
func (s *scene) crash() {
	s.t.Helper()
	s.Kill(s.t)
	s.eng = s.Start(s.t)
}

// events returns the journal.
func (s *scene) events() []perdure.Event {
	s.t.Helper()
	events, err := s.eng.Events(context.WithoutCancel(s.ctx), s.id, 0, 0)
	if err != nil {
		s.t.Fatalf("Events: %v", err)
	}
	return events
}

// journalText formats the journal for a failure message.
func (s *scene) journalText() string {
	var text string
	for _, e := range s.events() {
		line, err := perdure.EncodeEvent(e)
		if err != nil {
			s.t.Fatal(err)
		}
		text += string(line) + "\n"
	}
	return text
}

// until waits for the first matching event.
func (s *scene) until(what string, match func(perdure.Event) bool) perdure.Event {
	s.t.Helper()
	var found perdure.Event
	stop := errors.New("found")
	err := s.eng.Follow(s.ctx, s.id, 0, func(f engine.Frame) error {
		if f.Event == nil || !match(*f.Event) {
			return nil
		}
		found = *f.Event
		return stop
	})
	if !errors.Is(err, stop) {
		s.t.Fatalf("no %s: %v; journal:\n%s", what, err, s.journalText())
	}
	return found
}

// facts returns the facts of one type, in order.
func facts[T perdure.Fact](s *scene) []T {
	var all []T
	for _, e := range s.events() {
		if f, ok := e.Fact.(T); ok {
			all = append(all, f)
		}
	}
	return all
}

// fold folds the journal. A journal that does not fold fails the law.
func (s *scene) fold() *perdure.Session {
	s.t.Helper()
	session := perdure.NewSession(s.id)
	for _, e := range s.events() {
		if err := session.Apply(e); err != nil {
			s.t.Fatalf("fold: %v; journal:\n%s", err, s.journalText())
		}
	}
	return session
}

// final is the text of the last message of the agent.
func (s *scene) final() string {
	transcript := s.fold().Transcript
	for i := len(transcript) - 1; i >= 0; i-- {
		if transcript[i].Role == perdure.RoleAgent {
			return transcript[i].Text()
		}
	}
	return ""
}

// onlyTask returns the one task of the session.
func (s *scene) onlyTask() perdure.Task {
	s.t.Helper()
	tasks, err := s.eng.Tasks().List(s.ctx, s.id)
	if err != nil || len(tasks) != 1 {
		s.t.Fatalf("Tasks: %d, %v; journal:\n%s", len(tasks), err, s.journalText())
	}
	return tasks[0]
}

// onlyResult returns the one result of a tool in the transcript.
func (s *scene) onlyResult(name string) perdure.ToolCompleted {
	s.t.Helper()
	var found []perdure.ToolCompleted
	for _, f := range facts[perdure.ToolCompleted](s) {
		if f.Name == name {
			found = append(found, f)
		}
	}
	if len(found) != 1 {
		s.t.Fatalf("%d results of %s, want 1; journal:\n%s", len(found), name, s.journalText())
	}
	return found[0]
}
